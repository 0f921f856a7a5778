package projectiontest

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// Run tests the projection with events, which are appended in order, each to its CampaignID. There
// must be two campaigns or more, and the tables must not end up empty.
//
// pool names the server and a role that may create databases. Run creates databases there, with the
// extensions of pool's database, and drops them before it returns. It writes nothing to pool's
// database. The caller closes pool, with defer or later.
//
// configure, if given, changes the projector's configuration: a projection of events with aliases
// or upcasters needs its Catalogue.
func Run(
	t *testing.T, pool *pgxpool.Pool, p projection.Projection, events []event.Event,
	configure ...func(*projector.Config),
) {
	t.Helper()
	k := &kit{admin: pool, projection: p, configure: configure}
	// Use defer, not t.Cleanup: the caller's own defer may close the pool as soon as Run returns.
	defer func() {
		if err := k.close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("projectiontest: clean up: %v", err)
		}
	}()
	if err := k.prepare(t.Context(), events); err != nil {
		t.Fatalf("projectiontest: %v", err)
	}
	for _, rule := range k.rules() {
		t.Run(rule.name, func(t *testing.T) {
			if err := rule.check(t.Context(), k); err != nil {
				t.Error(err)
			}
		})
	}
}

// kit is a projection under test.
type kit struct {
	admin      *pgxpool.Pool
	projection projection.Projection
	configure  []func(*projector.Config)

	databases []string       // to be dropped
	source    string         // the database that all others are copied from
	tables    []string       // the projection's, quoted and with their schema
	places    []place        // of the events, in the order of their appends
	second    map[place]bool // its key is in the second half of all keys
	expected  snapshot       // the tables after all events, applied at once
}

type place struct {
	campaignID string
	seq        int64
}

// prepare creates the source database and computes the expected tables.
func (k *kit) prepare(ctx context.Context, events []event.Event) error {
	if err := k.createSource(ctx, events); err != nil {
		return err
	}
	expected, err := k.tablesAfter(ctx, allAtOnce)
	if err != nil {
		return err
	}
	if len(expected) == len(k.tables) {
		return fmt.Errorf("the events leave all tables of %s empty: there is nothing to compare", k.projection.Spec().Name)
	}
	k.expected = expected
	return nil
}

// tablesAfter returns the projection's tables in a fresh database after work on it.
func (k *kit) tablesAfter(
	ctx context.Context, work func(context.Context, *database) error,
) (tables snapshot, err error) {
	err = k.withDatabase(ctx, func(db *database) error {
		if err := work(ctx, db); err != nil {
			return err
		}
		tables, err = db.snapshot(ctx, k.tables)
		return err
	})
	return tables, err
}
