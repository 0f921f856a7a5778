package projectiontest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/groupstate"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// createSource creates the database that all others are copied from.
func (k *kit) createSource(ctx context.Context, events []event.Event) error {
	name, err := k.create(ctx, `template0 ENCODING 'UTF8'`)
	if err != nil {
		return err
	}
	if err := migrations.Up(ctx, withDatabase(k.admin.Config().ConnString(), name)); err != nil {
		return err
	}
	db, err := k.open(ctx, name)
	if err != nil {
		return err
	}
	defer db.pool.Close() // a database that is in use cannot be copied
	if err := k.copyExtensions(ctx, db); err != nil {
		return err
	}
	if err := db.register(ctx); err != nil {
		return err
	}
	if err := db.appendAll(ctx, events); err != nil {
		return err
	}
	k.source = name
	return nil
}

// register creates the projection's tables and records their names.
func (db *database) register(ctx context.Context) error {
	before, err := db.tables(ctx)
	if err != nil {
		return err
	}
	p, err := db.projector()
	if err != nil {
		return err
	}
	if err := p.Register(ctx); err != nil {
		return err
	}
	after, err := db.tables(ctx)
	if err != nil {
		return err
	}
	db.kit.tables = onlyIn(after, before)
	if len(db.kit.tables) == 0 {
		return errors.New("the projection has no tables")
	}
	return nil
}

func (db *database) appendAll(ctx context.Context, events []event.Event) error {
	campaigns := map[string]bool{}
	err := pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		for _, event := range events {
			campaigns[event.CampaignID] = true
			if _, err := (journal.Journal{}).Append(ctx, tx, event.CampaignID, journal.Any, event); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(campaigns) < 2 {
		return fmt.Errorf("the events are of %d campaigns: give events of two or more, with their CampaignID", len(campaigns))
	}
	if db.kit.second, err = db.secondHalf(ctx); err != nil {
		return err
	}
	if _, err := db.pool.Exec(ctx, queryPutAside, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	db.kit.places, err = rows.All(ctx, db.pool, func(row pgx.CollectableRow) (p place, err error) {
		return p, row.Scan(&p.campaignID, &p.seq)
	}, "", queryPlaces)
	return err
}

// secondHalf returns the events whose keys are in the second half of all keys, if the projection is
// one across campaigns that names a key. Keys that share an event are in the same half.
func (db *database) secondHalf(ctx context.Context) (map[place]bool, error) {
	find := keysOf(db.kit.projection)
	if find == nil {
		return nil, nil
	}
	var events []event.Event
	for event, err := range journal.ReadAll(ctx, db.pool, 0) {
		if err != nil {
			return nil, err
		}
		events = append(events, event)
	}
	catalogue, keys, together := db.config().Catalogue, make([]string, len(events)), groups{}
	if _, err := catalogue.Open(ctx, db.pool, events); err != nil {
		return nil, err
	}
	for i, event := range events {
		event, _ = catalogue.Current(event) // an event that fails is reported when it is applied
		if all, _ := find(event); len(all) > 0 {
			keys[i] = all[0]
			together.join(all)
		}
	}
	for i, key := range keys {
		keys[i] = together.of(key)
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(keys)))
	second := map[place]bool{}
	for i, event := range events {
		second[place{event.CampaignID, event.Seq}] = keys[i] > sorted[(len(sorted)-1)/2]
	}
	return second, nil
}

// keysOf returns how events name their keys; nil: they have none.
func keysOf(p projection.Projection) func(event.Event) ([]string, error) {
	spec := p.Spec()
	if keys, _ := groupstate.Keys(p, &spec); keys != nil || spec.Key == nil {
		return keys
	}
	return func(e event.Event) ([]string, error) {
		key, err := spec.Key(e)
		return []string{key}, err
	}
}

// groups are groups of keys that share events, also by way of other keys. It has another key of the group by key.
type groups map[string]string

// of returns the key that stands for the group of a key.
func (g groups) of(key string) string {
	for other, there := g[key]; there; other, there = g[key] {
		key = other
	}
	return key
}

// join makes keys one group.
func (g groups) join(keys []string) {
	for _, key := range keys[1:] {
		if a, b := g.of(keys[0]), g.of(key); a != b {
			g[max(a, b)] = min(a, b)
		}
	}
}

func (k *kit) copyExtensions(ctx context.Context, db *database) error {
	names, err := rows.All(ctx, k.admin, pgx.RowTo[string], "", queryExtensions)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := db.pool.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS "+
			pgx.Identifier{name}.Sanitize()+" CASCADE"); err != nil {
			return err
		}
	}
	return nil
}

// withDatabase returns a connection string with another database: a URL, or keywords and values,
// where the last value of a keyword counts.
func withDatabase(connString, name string) string {
	u, err := url.Parse(connString)
	if err != nil || u.Scheme == "" {
		return connString + " dbname=" + name
	}
	u.Path = "/" + name
	return u.String()
}
