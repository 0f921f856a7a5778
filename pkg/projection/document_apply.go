package projection

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/fastjson"
	"github.com/tidemark-go/tidemark/internal/projector/classify"
	"github.com/tidemark-go/tidemark/pkg/event"
)

func (d Document[T]) prepared() *document[T] {
	queries := []string{queryLoadDocuments, queryInsertDocuments, queryUpdateDocuments, queryDeleteDocuments}
	if d.Scope == ScopeJournal {
		queries = []string{queryLoadAcross, queryInsertAcross, queryUpdateAcross, queryDeleteAcross}
	}
	for i, query := range queries {
		queries[i] = fmt.Sprintf(query, pgx.Identifier{d.Name}.Sanitize())
	}
	of := d.folded()
	of.load, of.insert, of.update, of.deleteAll = queries[0], queries[1], queries[2], queries[3]
	return of
}

// folded returns the document without its queries.
func (d Document[T]) folded() *document[T] {
	of := &document[T]{Document: d.keyed()}
	if len(d.On) > 0 {
		of.folds = map[string]func(doc *T, key string, e event.Event) error{}
		for _, fold := range d.On {
			of.folds[fold.Name()] = fold.Apply
		}
	}
	return of
}

// document applies a [Document].
type document[T any] struct {
	Document[T]
	folds                           map[string]func(doc *T, key string, e event.Event) error // by event type; nil: none
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
	applied         []int  // events of the group; only where a failed event is isolated
	waits           bool   // for an event that failed
}

// working is the state that Load passes to Apply.
type working[T any] struct {
	entries []*entry[T]
	index   map[documentID]*entry[T]
	changes []*entry[T] // of the group's events, in order; nil: the event concerns no document
	events  []int       // the event of each change; nil: each event is one
}

type documentID struct{ campaignID, key string }

// event returns the event of change n.
func (w *working[T]) event(n int) int {
	if w.events != nil {
		return w.events[n]
	}
	return n
}

// document returns the entry of a document that event i changes.
func (w *working[T]) document(at documentID, i int) *entry[T] {
	changed := w.index[at]
	if changed == nil {
		changed = &entry[T]{campaignID: at.campaignID, key: at.key, deleted: true}
		w.index[at] = changed
		w.entries = append(w.entries, changed)
	}
	changed.lastIndex = i
	return changed
}

// Mistake returns what keeps the document from working.
func (d *document[T]) Mistake() error {
	if d.Key != nil && d.Keys != nil {
		return fmt.Errorf("projection %s has Key and Keys: leave one", d.Name)
	}
	if d.Fold == nil && len(d.On) == 0 {
		return lacks(d.Name, "fold", "give it functions for event types in On, or Fold")
	}
	if err := twiceOf(d.Name, d.On); err != nil || d.Fold != nil {
		return err
	}
	for _, eventType := range d.Types {
		if d.folds[eventType] == nil {
			return lacks(d.Name, fmt.Sprintf("function for events of the type %q", eventType), "add it to On, or give it Fold")
		}
	}
	return nil
}

// Load implements [Loader].
func (d *document[T]) Load(_ context.Context, g *Group) error {
	w := &working[T]{changes: make([]*entry[T], len(g.Events)), index: map[documentID]*entry[T]{}}
	if err := d.find(g, w); err != nil {
		return err
	}
	g.loaded = w
	if len(w.entries) == 0 {
		return nil
	}
	if d.Scope == ScopeJournal {
		// The keys of a group are spread over the table. In their order they share pages of the index.
		slices.SortFunc(w.entries, func(a, b *entry[T]) int { return cmp.Compare(a.key, b.key) })
	}
	campaigns, keys := make([]string, len(w.entries)), make([]string, len(w.entries))
	for i, e := range w.entries {
		campaigns[i], keys[i] = e.campaignID, e.key
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

// find finds the documents that the group's events change.
func (d *document[T]) find(g *Group, w *working[T]) error {
	if d.Keys != nil {
		return d.findSeveral(g, w)
	}
	for i := range g.Events {
		e := &g.Events[i]
		g.at(e)
		key, err := d.Key(*e)
		if err != nil {
			return err
		}
		if key != "" {
			w.changes[i] = w.document(d.id(e, key), i)
		}
	}
	return nil
}

// id returns the id of a document that an event changes.
func (d *document[T]) id(e *event.Event, key string) documentID {
	if d.Scope == ScopeJournal {
		return documentID{key: key}
	}
	return documentID{e.CampaignID, key}
}

// Apply implements [Projection].
func (d *document[T]) Apply(ctx context.Context, g *Group) error {
	w, _ := g.loaded.(*working[T])
	for n, changed := range w.changes {
		if changed == nil || changed.waits {
			continue
		}
		i, before := w.event(n), g.reactions
		g.at(&g.Events[i])
		err := d.apply(ctx, g, changed, i)
		switch {
		case err == nil && g.state.Refuse != nil:
			changed.applied = append(changed.applied, i)
		case err == nil:
		case g.state.Refuse == nil || changed.key == AllKeys || classify.IsInfrastructure[Class](err):
			return err
		default:
			g.reactions = before
			changed.waits = !g.state.Refuse(i, err)
			if err := d.foldAgain(g, changed); err != nil {
				return err
			}
		}
	}
	g.queueReactions(d.Name)
	return d.write(g, w)
}

// apply changes a document by event i, and lets a process react. Where events are isolated, a panic is an error.
func (d *document[T]) apply(ctx context.Context, g *Group, changed *entry[T], i int) (err error) {
	if g.state.Refuse != nil {
		defer g.state.Recover(&err)
	}
	e := &g.Events[i]
	if changed.deleted, err = d.fold(&changed.doc, changed.key, *e, changed.deleted); err != nil {
		return err
	}
	if d.react != nil && g.state.Reacting != nil && e.Position > g.state.Reacting.After {
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
		if changed.deleted, err = d.fold(&changed.doc, changed.key, g.Events[i], changed.deleted); err != nil {
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

// fold changes the document of a key, or one that is not there, by an event. It reports whether there is none then.
func (d *document[T]) fold(doc *T, key string, e event.Event, none bool) (deleted bool, err error) {
	if none && d.DropErased && e.Erased() && string(e.Payload) == "{}" {
		return true, nil
	}
	switch fold := d.folds[e.Type]; {
	case fold != nil:
		err = fold(doc, key, e)
	case d.Fold != nil:
		err = d.Fold(doc, e)
	default: // a process reacts to it, and its state does not change
		return none, nil
	}
	if errors.Is(err, event.Delete) {
		*doc = *new(T)
		return true, nil
	}
	return false, err
}

// FoldOne folds one event into the document of a key, or into one that is not there.
func (d *document[T]) FoldOne(e event.Event, key string, doc *T, none bool) (deleted bool, err error) {
	return d.fold(doc, key, e, none)
}

func (d *document[T]) write(g *Group, w *working[T]) error {
	var inserted, updated, deleted columns
	for _, e := range w.entries {
		switch {
		case g.state.Refuse != nil && len(e.applied) == 0, e.deleted && e.raw == nil:
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
