package projection

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Document is a projection that keeps one JSON document per key of a campaign. A group's documents
// are read in one query, folded in memory and written once each, so it is the fastest kind. Name, Version, and
// On or Fold are required.
//
// The table has the projection's name and the columns campaign_id, key and doc (jsonb), with the
// primary key (campaign_id, key).
type Document[T any] struct {
	Name    string // also the table's
	Version int    // from 1; raise it when the documents or their meaning change

	// On changes the document by events of some types: one [event.On] for each.
	On event.Folds[T]

	// Fold changes the document by the events that On has no function for; it may return [event.Delete]. With
	// it, Types are the event types that the document wants, nil for all; without it, they are those of On.
	Fold  func(doc *T, e event.Event) error
	Types []string

	// Key returns the key of the document that an event changes, within the event's campaign or across
	// all; "" means none. nil: one document per campaign, or one of all, with the key [AllKeys].
	Key func(e event.Event) (string, error)

	// Keys is for events that change several documents, instead of Key: it returns their keys, in any
	// order and each once, up to 64; none if the event concerns no document. A key has 1 to 1024 bytes,
	// and is not [AllKeys], nor "erased" across campaigns. Anything else is a failure of the event. The
	// event is folded once for each key: functions made with [event.OnKey] learn which one. Keys must depend
	// only on the event, and across campaigns on no field that is sealed.
	Keys func(e event.Event) ([]string, error)

	// Scope is which events a document sees: of one campaign (the default), or of all of them in the
	// order of position ([ScopeJournal]). The table of documents across campaigns has no campaign_id.
	Scope      Scope
	Partitions int // as in [Spec]

	Columns string // more columns, generated from doc: "name text GENERATED ALWAYS AS (doc->>'name') STORED"; optional
	Indexes string // DDL to run after the table is created; optional
	Schema  string // of the table, for [Document.Get]; default "tidemark_views", like the worker's

	// DropErased has events whose payload was erased create no document. So the documents of a campaign
	// that is erased as a whole go. Default: Fold gets these events like others.
	DropErased bool

	// As in [Spec].
	OnFailure   Policy
	OnFailureOf map[string]Policy
	Classify    func(err error) Class
}

// Get reads the document of a campaign from db, or across campaigns that of a key. The table may be behind the
// journal. found is false if there is none.
func (d Document[T]) Get(ctx context.Context, db event.Querier, id string) (doc T, found bool, err error) {
	switch {
	case d.Scope == ScopeJournal && d.byKey():
		return d.read(ctx, db, "", id)
	case d.Scope == ScopeJournal:
		return d.read(ctx, db, "", AllKeys)
	case d.byKey():
		return doc, false, fmt.Errorf("projection %s has documents by key within a campaign: use GetKey", d.Name)
	}
	return d.read(ctx, db, id, AllKeys)
}

// GetKey is [Document.Get] for documents with a Key, or Keys, within a campaign.
func (d Document[T]) GetKey(
	ctx context.Context, db event.Querier, campaignID, key string,
) (doc T, found bool, err error) {
	if d.Scope == ScopeJournal || !d.byKey() {
		return doc, false, fmt.Errorf("projection %s has no documents by key within a campaign: use Get", d.Name)
	}
	return d.read(ctx, db, campaignID, key)
}

func (d Document[T]) read(
	ctx context.Context, db event.Querier, campaignID, key string,
) (doc T, found bool, err error) {
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

// Spec implements [Projection]. The table has no statistics on doc: no query plan uses them, and gathering
// them takes most of an ANALYZE's time.
func (d Document[T]) Spec() Spec {
	table := pgx.Identifier{d.Name}.Sanitize()
	more := ""
	if strings.TrimSpace(d.Columns) != "" {
		more = d.Columns + ", "
	}
	spec := Spec{
		Name: d.Name, Version: d.Version, Types: d.types(), Scope: d.Scope, Partitions: d.Partitions,
		OnFailure: d.OnFailure, OnFailureOf: d.OnFailureOf, Classify: d.Classify,
	}
	owner, primary := `campaign_id text COLLATE "C" NOT NULL, `, "campaign_id, key"
	if d.Scope == ScopeJournal {
		owner, primary, spec.Key, spec.KeyColumn = "", "key", d.keyed().Key, "key"
		if d.Keys != nil {
			spec.keys = d.severalKeys
		}
	}
	spec.Tables = fmt.Sprintf(
		`CREATE TABLE %s (%skey text COLLATE "C" NOT NULL, doc jsonb NOT NULL, %sPRIMARY KEY (%s));
			ALTER TABLE %[1]s ALTER COLUMN doc SET STATISTICS 0; %[5]s`,
		table, owner, more, primary, d.Indexes)
	return spec
}

// types returns the event types that the document wants; nil: all.
func (d Document[T]) types() []string {
	if d.Fold != nil && d.Types == nil {
		return nil
	}
	types := append(d.On.Types(), d.Types...)
	slices.Sort(types)
	return slices.Compact(types)
}

// byKey reports whether events name the keys of their documents.
func (d Document[T]) byKey() bool { return d.Key != nil || d.Keys != nil }

// keyed returns d with a Key, unless it has Keys.
func (d Document[T]) keyed() Document[T] {
	if !d.byKey() {
		d.Key = func(event.Event) (string, error) { return AllKeys, nil }
	}
	return d
}

// Load implements [Loader].
func (d Document[T]) Load(ctx context.Context, g *Group) error { return d.prepared().Load(ctx, g) }

// Apply implements [Projection].
func (d Document[T]) Apply(ctx context.Context, g *Group) error { return d.prepared().Apply(ctx, g) }

func (d Document[T]) engine() engine { return d.prepared() }
