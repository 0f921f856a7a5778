package projectiontest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

type rule struct {
	name  string
	check func(context.Context, *kit) error
}

func (k *kit) rules() []rule {
	rules := []rule{
		{"applied from the start once more", same(allAtOnce)},
		{"one event a transaction equals all in one", same(oneEventATransaction)},
		{"several workers equal one", same(severalWorkers)},
		{"only its own tables are touched", ownTablesOnly},
	}
	spec := k.projection.Spec()
	if !spec.Across() {
		return append(rules,
			rule{"a second delivery changes nothing", same(twice)},
			rule{"interleaved campaigns equal one after another", interleavedCampaigns},
			rule{"a rolled back group leaves nothing", same(rolledBack)},
		)
	}
	rules = append(rules,
		rule{"events as they arrive equal all at once", same(arriving(slices.Clone))},
		rule{"a rolled back group leaves nothing", same(rolledBackAcross)},
	)
	if spec.Key != nil {
		rules = append(rules, rule{"keys apart equal keys together", keysApart})
	}
	return rules
}

// same returns a check that work leaves the expected tables.
func same(work func(context.Context, *database) error) func(context.Context, *kit) error {
	return func(ctx context.Context, k *kit) error {
		got, err := k.tablesAfter(ctx, work)
		if err != nil {
			return err
		}
		return differences("applied at once", k.expected, "applied so", got)
	}
}

// limits bounds a group's events, a claim's campaigns, and the groups at a time.
func limits(events, campaigns, groups int) func(*projector.Config) {
	return func(c *projector.Config) { c.GroupEvents, c.ClaimCampaigns, c.Concurrency = events, campaigns, groups }
}

func allAtOnce(ctx context.Context, db *database) error {
	n := len(db.kit.places)
	return db.applyAll(ctx, limits(n+1, n, 1))
}

func twice(ctx context.Context, db *database) error {
	if err := allAtOnce(ctx, db); err != nil {
		return err
	}
	if _, err := db.pool.Exec(ctx, queryRedeliver); err != nil {
		return err
	}
	return db.drain(ctx)
}

func oneEventATransaction(ctx context.Context, db *database) error {
	return db.applyAll(ctx, limits(1, 1, 1))
}

// interleavedCampaigns compares two orders of arrival: order is lost when all events arrive at once.
func interleavedCampaigns(ctx context.Context, k *kit) error {
	interleaved, err := k.tablesAfter(ctx, arriving(roundRobin))
	if err != nil {
		return err
	}
	apart, err := k.tablesAfter(ctx, arriving(campaignAfterCampaign))
	if err != nil {
		return err
	}
	return errors.Join(
		differences("interleaved", interleaved, "one campaign after another", apart),
		differences("applied at once", k.expected, "interleaved", interleaved),
	)
}

// maxArrivals bounds the number of arrivals, since each costs a few round trips.
const maxArrivals = 16

// arriving applies events as they arrive in the given order: one at a time, or a few if there are many.
func arriving(order func([]place) []place) func(context.Context, *database) error {
	return func(ctx context.Context, db *database) error {
		p, err := db.projector()
		if err != nil {
			return err
		}
		places := order(db.kit.places)
		for some := range slices.Chunk(places, (len(places)+maxArrivals-1)/maxArrivals) {
			if err := db.arrive(ctx, some); err != nil {
				return err
			}
			if err := db.drainWith(ctx, p); err != nil {
				return err
			}
		}
		return nil
	}
}

// campaignAfterCampaign begins with the last campaign, the reverse of the order in which workers claim.
func campaignAfterCampaign(places []place) []place {
	return slices.SortedStableFunc(slices.Values(places), func(a, b place) int {
		return cmp.Or(cmp.Compare(b.campaignID, a.campaignID), cmp.Compare(a.seq, b.seq))
	})
}

func roundRobin(places []place) []place {
	return slices.SortedStableFunc(slices.Values(places), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.campaignID, b.campaignID))
	})
}

func severalWorkers(ctx context.Context, db *database) error {
	if err := db.arrive(ctx, db.kit.places); err != nil {
		return err
	}
	few := limits(2, 1, 2)
	workers, ctx2 := errgroup.WithContext(ctx)
	for range 3 {
		workers.Go(func() error { return db.drain(ctx2, few) })
	}
	if err := workers.Wait(); err != nil {
		return err
	}
	return db.drain(ctx, few) // work that one worker left to another that had already ended
}

// rolledBack adds a projection that fails in each campaign's first group, after the tested
// projection's statements have run.
func rolledBack(ctx context.Context, db *database) error {
	return db.applyAll(ctx, func(c *projector.Config) {
		c.Projections = append(slices.Clone(c.Projections), saboteur{})
		c.Concurrency = 1
	})
}

// rolledBackAcross rolls back every group at its end, and applies the events again.
func rolledBackAcross(ctx context.Context, db *database) error {
	if _, err := db.pool.Exec(ctx, queryHoldPlaces); err != nil {
		return err
	}
	if err := allAtOnce(ctx, db); err == nil {
		return errors.New("no group was rolled back")
	}
	if _, err := db.pool.Exec(ctx, queryFreePlaces); err != nil {
		return err
	}
	return db.drain(ctx)
}

// keysApart applies each half of the keys in a database of its own. Partitions rely on the result
// being the same.
func keysApart(ctx context.Context, k *kit) error {
	var apart snapshot
	for _, second := range []bool{false, true} {
		half, err := k.tablesAfter(ctx, func(ctx context.Context, db *database) error {
			places := slices.DeleteFunc(slices.Clone(k.places), func(p place) bool { return k.second[p] != second })
			if err := db.arrive(ctx, places); err != nil {
				return err
			}
			return db.drain(ctx)
		})
		if err != nil {
			return err
		}
		apart = append(apart, half...)
	}
	return differences("applied at once", k.expected, "each half of the keys apart", apart[len(k.tables):])
}

type saboteur struct{}

func (saboteur) Spec() projection.Spec {
	return projection.Spec{Name: "projectiontest_saboteur", Version: 1}
}

func (saboteur) Apply(_ context.Context, g *projection.Group) error {
	g.Queue(queryFails)
	return nil
}

func ownTablesOnly(ctx context.Context, k *kit) error {
	return k.withDatabase(ctx, func(db *database) error {
		if err := db.arrive(ctx, k.places); err != nil {
			return err
		}
		before, err := db.others(ctx)
		if err != nil {
			return err
		}
		if err := db.drain(ctx); err != nil {
			return err
		}
		after, err := db.others(ctx)
		if err != nil {
			return err
		}
		if err := differences("before", before, "after", after); err != nil {
			return fmt.Errorf("tables that the projection does not declare have changed: %w", err)
		}
		return nil
	})
}
