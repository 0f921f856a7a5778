package kind

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/fastjson"
	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Delete is returned by the Fold of a [Document] to delete the document. A later event may recreate it.
var Delete = errors.New("delete the document")

// Document is projector.Document.
type Document[T any] struct {
	Name    string   // also the table's
	Version int      // from 1
	Types   []string // event types it wants; nil: all
	Columns string   // more columns, generated from doc: "name text GENERATED ALWAYS AS (doc->>'name') STORED"; optional
	Indexes string   // DDL to run after the table is created; optional
	Schema  string   // of the table, for [Document.Get]; default "tidemark_views", like the worker's

	// Scope is which events a document sees: of one campaign (the default), or of all of them in the
	// order of position ([ScopeJournal]). The table of documents across campaigns has no campaign_id.
	Scope Scope

	// Key returns the key of the document that an event changes, within the event's campaign or across
	// all; "" means none. nil: one document per campaign, or one of all, with the key "-".
	Key func(e event.Event) (string, error)

	Partitions int // as in [Spec]

	// Fold changes the document, at first the zero T, by the event. It must depend only on its arguments.
	Fold func(doc *T, e event.Event) error

	// DropErased has events whose payload was erased create no document. So the documents of a campaign
	// that is erased as a whole go. Default: Fold gets these events like others.
	DropErased bool

	// As in [Spec].
	OnFailure   Policy
	OnFailureOf map[string]Policy
	Classify    failure.Classifier
}

// NewDocument is projector.NewDocument.
func NewDocument[T any](d Document[T]) Projection {
	if d.Key == nil {
		d.Key = func(event.Event) (string, error) { return onlyKey, nil }
	}
	return newDocument(d)
}

func newDocument[T any](d Document[T]) *document[T] {
	queries := []string{queryLoadDocuments, queryInsertDocuments, queryUpdateDocuments, queryDeleteDocuments}
	if d.Scope == ScopeJournal {
		queries = []string{queryLoadAcross, queryInsertAcross, queryUpdateAcross, queryDeleteAcross}
	}
	for i, query := range queries {
		queries[i] = fmt.Sprintf(query, pgx.Identifier{d.Name}.Sanitize())
	}
	return &document[T]{Document: d, load: queries[0], insert: queries[1], update: queries[2], deleteAll: queries[3]}
}

// Get reads a document from db, which may be behind the journal. found is false if there is none.
// If the projection has no Key, key is "". Across campaigns campaignID is not used.
func (d Document[T]) Get(
	ctx context.Context, db event.Querier, campaignID, key string,
) (doc T, found bool, err error) {
	if d.Key == nil {
		key = onlyKey
	}
	table := pgx.Identifier{cmp.Or(d.Schema, "tidemark_views"), d.Name}.Sanitize()
	query := queryGetDocument
	if d.Scope == ScopeJournal {
		query = queryGetAcross
	}
	stored, err := rows.One(ctx, db, pgx.RowTo[json.RawMessage], "", fmt.Sprintf(query, table), campaignID, key)
	if errors.Is(err, pgx.ErrNoRows) {
		return doc, false, nil
	}
	if err == nil {
		err = json.Unmarshal(stored, &doc)
	}
	if err != nil {
		return doc, false, fmt.Errorf("read document %q of campaign %q from %s: %w", key, campaignID, table, err)
	}
	return doc, true, nil
}

// onlyKey is the key of a campaign's document if the projection has no Key.
const onlyKey = "-"

type document[T any] struct {
	Document[T]
	load, insert, update, deleteAll string
	// react does what a process does about an event; nil: nothing
	react func(ctx context.Context, g *Group, key string, state *T, e *event.Event) error
}

type entry[T any] struct {
	campaignID, key string
	doc             T
	raw             []byte // as it is in the table; nil: it is not there
	deleted         bool   // or not there yet
	lastIndex       int    // index in the group of the last event that changes it
	applied         []int  // events of the group; only with [Isolate]
	waits           bool   // for an event that failed
}

// working is the state that Load passes to Apply.
type working[T any] struct {
	entries []*entry[T]
	byEvent []*entry[T] // nil: the event concerns no document
}

// Spec implements [Projection]. It turns statistics on doc off: no query plan uses them, and
// gathering them takes most of an ANALYZE's time.
func (d *document[T]) Spec() Spec {
	table := pgx.Identifier{d.Name}.Sanitize()
	more := ""
	if strings.TrimSpace(d.Columns) != "" {
		more = d.Columns + ", "
	}
	spec := Spec{
		Name: d.Name, Version: d.Version, Types: d.Types, Scope: d.Scope, Partitions: d.Partitions,
		OnFailure: d.OnFailure, OnFailureOf: d.OnFailureOf, Classify: d.Classify,
	}
	owner, primary := `campaign_id text COLLATE "C" NOT NULL, `, "campaign_id, key"
	if d.Scope == ScopeJournal {
		owner, primary, spec.Key, spec.KeyColumn = "", "key", d.Key, "key"
	}
	spec.Tables = fmt.Sprintf(
		`CREATE TABLE %s (%skey text COLLATE "C" NOT NULL, doc jsonb NOT NULL, %sPRIMARY KEY (%s));
			ALTER TABLE %[1]s ALTER COLUMN doc SET STATISTICS 0; %[5]s`,
		table, owner, more, primary, d.Indexes)
	return spec
}

// Load implements [Loader].
func (d *document[T]) Load(_ context.Context, g *Group) error {
	type id struct{ campaignID, key string }
	w := &working[T]{byEvent: make([]*entry[T], len(g.Events))}
	index := map[id]*entry[T]{}
	var campaigns, keys []string
	for i := range g.Events {
		e := &g.Events[i]
		g.at(e)
		key, err := d.Key(*e)
		if err != nil {
			return err
		}
		if key == "" {
			continue
		}
		at := id{e.CampaignID, key}
		if d.Scope == ScopeJournal {
			at.campaignID = ""
		}
		changed := index[at]
		if changed == nil {
			changed = &entry[T]{campaignID: at.campaignID, key: key, deleted: true}
			index[at] = changed
			w.entries = append(w.entries, changed)
			campaigns, keys = append(campaigns, at.campaignID), append(keys, key)
		}
		w.byEvent[i], changed.lastIndex = changed, i
	}
	if d.Scope == ScopeJournal {
		// The keys of a group are spread over the table. In their order they share pages of the index.
		slices.SortFunc(w.entries, func(a, b *entry[T]) int { return cmp.Compare(a.key, b.key) })
		slices.Sort(keys)
	}
	g.loaded = w
	if len(keys) == 0 {
		return nil
	}
	g.Queue(d.load, campaigns, keys).Query(func(rows pgx.Rows) error {
		var n int
		var doc []byte
		_, err := pgx.ForEachRow(rows, []any{&n, &doc}, func() error {
			stored := w.entries[n-1]
			stored.raw = doc
			return stored.decode()
		})
		return err
	})
	return nil
}

// Apply implements [Projection].
func (d *document[T]) Apply(ctx context.Context, g *Group) error {
	w, _ := g.loaded.(*working[T])
	for i, changed := range w.byEvent {
		if changed == nil || changed.waits {
			continue
		}
		before := g.reactions
		g.at(&g.Events[i])
		err := d.apply(ctx, g, changed, i)
		switch {
		case err == nil && g.refuse != nil:
			changed.applied = append(changed.applied, i)
		case err == nil:
		case g.refuse == nil || changed.key == AllKeys || failure.IsInfrastructure(err):
			return err
		default:
			g.reactions = before
			changed.waits = !g.refuse(i, err)
			if err := d.foldAgain(g, changed); err != nil {
				return err
			}
		}
	}
	g.queueReactions(d.Name)
	return d.write(g, w)
}

// apply changes a document by event i, and lets a process react. With [Isolate] a panic is an error.
func (d *document[T]) apply(ctx context.Context, g *Group, changed *entry[T], i int) (err error) {
	if g.refuse != nil {
		defer failure.Recover(&err)
	}
	e := &g.Events[i]
	if changed.deleted, err = d.fold(&changed.doc, *e, changed.deleted); err != nil {
		return err
	}
	if d.react != nil && g.reacting != nil && e.Position > g.reacting.After {
		return d.react(ctx, g, changed.key, &changed.doc, e)
	}
	return nil
}

// foldAgain undoes what an event that failed has left of a document.
func (d *document[T]) foldAgain(g *Group, changed *entry[T]) (err error) {
	changed.deleted = true
	if changed.doc = *new(T); changed.raw != nil {
		if err := changed.decode(); err != nil {
			return err
		}
	}
	for _, i := range changed.applied {
		if changed.deleted, err = d.fold(&changed.doc, g.Events[i], changed.deleted); err != nil {
			return err
		}
	}
	return nil
}

func (e *entry[T]) decode() error {
	decoded, err := fastjson.New[T](e.raw)
	if err != nil {
		return fmt.Errorf("decode document %q of campaign %q: %w", e.key, e.campaignID, err)
	}
	e.doc, e.deleted = *decoded, false
	return nil
}

// fold changes a document, or one that is not there, by an event. It reports whether there is none then.
func (d *document[T]) fold(doc *T, e event.Event, none bool) (deleted bool, err error) {
	if none && d.DropErased && e.Erased() && string(e.Payload) == "{}" {
		return true, nil
	}
	if err = d.Fold(doc, e); errors.Is(err, Delete) {
		*doc = *new(T)
		return true, nil
	}
	return false, err
}

func (d *document[T]) write(g *Group, w *working[T]) error {
	var inserted, updated, deleted columns
	for _, e := range w.entries {
		switch {
		case g.refuse != nil && len(e.applied) == 0, e.deleted && e.raw == nil:
			continue
		case e.deleted:
			deleted.add(e.campaignID, e.key, "")
			continue
		}
		g.at(&g.Events[e.lastIndex])
		doc, err := json.Marshal(e.doc)
		if err != nil {
			return fmt.Errorf("encode document %q: %w", e.key, err)
		}
		if e.raw != nil {
			updated.add(e.campaignID, e.key, string(doc))
		} else {
			inserted.add(e.campaignID, e.key, string(doc))
		}
	}
	if len(inserted.keys) > 0 {
		g.Queue(d.insert, inserted.campaigns, inserted.keys, inserted.docs)
	}
	if len(updated.keys) > 0 {
		g.Queue(d.update, updated.campaigns, updated.keys, updated.docs)
	}
	if len(deleted.keys) > 0 {
		g.Queue(d.deleteAll, deleted.campaigns, deleted.keys)
	}
	return nil
}

type columns struct{ campaigns, keys, docs []string }

func (c *columns) add(campaignID, key, doc string) {
	c.campaigns, c.keys, c.docs = append(c.campaigns, campaignID), append(c.keys, key), append(c.docs, doc)
}
