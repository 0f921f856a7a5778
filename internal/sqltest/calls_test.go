package sqltest

import (
	"crypto/md5"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lease"
	"github.com/tidemark-go/tidemark/pkg/outbox"
)

// campaigns answers the ids of n campaigns, spread over all of them.
func campaigns(n, all int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("c%06d", 1+i*all/n)
	}
	return ids
}

// A call is a hot statement as its package makes it, among so many campaigns.
type call func(t *testing.T, tx pgx.Tx, all int) error

// calls answers the hot statements of all packages.
func calls(t *testing.T) map[string]call {
	t.Helper()
	free := lease.Keeper{Group: "g", Owner: "w", TTL: time.Minute}
	held := lease.Keeper{Group: "held", Owner: "w", TTL: time.Minute}
	leases := func(ids []string) (leases []lease.Lease) {
		for _, id := range ids {
			leases = append(leases, lease.Lease{CampaignID: id, Generation: 1})
		}
		return leases
	}
	one := slices.Repeat([]int64{perCampaign}, group)
	projector := constants(t, "../../pkg/projector")
	return map[string]call{
		"claim": func(t *testing.T, tx pgx.Tx, _ int) error {
			claimed, err := free.Claim(t.Context(), tx, "", group)
			return enough(err, len(claimed.Leases), group)
		},
		"claim deferred": func(t *testing.T, tx pgx.Tx, _ int) error {
			claimed, err := free.ClaimDeferred(t.Context(), tx, []string{"p"}, group)
			return enough(err, len(claimed.Leases), group)
		},
		"advance": func(t *testing.T, tx pgx.Tx, all int) error {
			batch := &pgx.Batch{}
			var steps []lease.Step
			for _, id := range campaigns(group, all) {
				steps = append(steps, lease.Step{CampaignID: id, Generation: 1, To: perCampaign, Release: true})
			}
			held.Advance(batch, steps)
			return tx.SendBatch(t.Context(), batch).Close()
		},
		"renew": func(t *testing.T, tx pgx.Tx, all int) error {
			kept, err := held.Renew(t.Context(), tx, leases(campaigns(group, all)))
			return enough(err, len(kept), group)
		},
		"release": func(t *testing.T, tx pgx.Tx, all int) error {
			return held.Release(t.Context(), tx, leases(campaigns(group, all)))
		},
		"complete": func(t *testing.T, tx pgx.Tx, all int) error {
			batch := &pgx.Batch{}
			outbox.Complete(batch, "g", campaigns(group, all), one)
			return tx.SendBatch(t.Context(), batch).Close()
		},
		"read a group": func(t *testing.T, tx pgx.Tx, all int) error {
			batch, n := &pgx.Batch{}, 0
			journal.ReadGroup(batch, journal.GroupRead{CampaignIDs: campaigns(group, all), After: make([]int64, group), Until: one, Events: 500, Bytes: 1 << 30},
				func(int, journal.Event, int) { n++ })
			return enough(tx.SendBatch(t.Context(), batch).Close(), n, 500)
		},
		"append": func(t *testing.T, tx pgx.Tx, all int) error {
			places, err := journal.Append(t.Context(), tx, long, journal.Exactly(int64(all)), journal.Event{Type: "noted"})
			return enough(err, len(places), 1)
		},
		"append with ids": func(t *testing.T, tx pgx.Tx, _ int) error {
			events := make([]journal.Event, 20)
			for i := range events {
				events[i] = journal.Event{ID: uuid.New(), Type: "noted"}
			}
			places, err := journal.Append(t.Context(), tx, long, journal.Any, events...)
			return enough(err, len(places), len(events))
		},
		"repeat an append": func(t *testing.T, tx pgx.Tx, _ int) error {
			events := make([]journal.Event, 20)
			for i := range events {
				id := md5.Sum(fmt.Appendf(nil, "0 %d", i+50)) // as in fill
				events[i] = journal.Event{ID: id, Type: "noted", Payload: []byte(`{"a": 1}`)}
			}
			places, err := journal.Append(t.Context(), tx, long, journal.None, events...)
			return enough(err, len(places), len(events))
		},
		"append to many": func(t *testing.T, tx pgx.Tx, all int) error {
			var batches []journal.Batch
			for _, id := range campaigns(group, all) {
				batches = append(batches, journal.Batch{CampaignID: id, Events: []journal.Event{{Type: "noted"}}})
			}
			places, err := journal.AppendAll(t.Context(), tx, batches...)
			return enough(err, len(places), group)
		},
		"read a campaign": func(t *testing.T, tx pgx.Tx, all int) error {
			n := 0
			for _, err := range journal.ReadCampaign(t.Context(), tx, long, int64(all-50)) {
				if n++; err != nil {
					return err
				}
			}
			return enough(nil, n, 50)
		},
		"read a page of the journal": func(t *testing.T, tx pgx.Tx, all int) error {
			page, err := journal.ReadPage(t.Context(), tx, int64(all*perCampaign/2), 1<<40, 100)
			return enough(err, len(page), 100)
		},
		"get": func(t *testing.T, tx pgx.Tx, all int) error {
			_, err := journal.Get(t.Context(), tx, long, int64(all-3))
			return err
		},
		"find": func(t *testing.T, tx pgx.Tx, all int) error {
			e, err := journal.Get(t.Context(), tx, long, int64(all-3))
			if err != nil {
				return err
			}
			_, err = journal.Find(t.Context(), tx, e.CampaignID, e.ID)
			return err
		},
		"deferred pairs": func(t *testing.T, tx pgx.Tx, all int) error {
			tag, err := tx.Exec(t.Context(), projector["queryPairs"], campaigns(group, all), "g")
			return enough(err, int(tag.RowsAffected()), group)
		},
		"due pairs": func(t *testing.T, tx pgx.Tx, all int) error {
			tag, err := tx.Exec(t.Context(), projector["queryDuePairs"], campaigns(group, all), "g", []string{"p"})
			return enough(err, int(tag.RowsAffected()), group)
		},
	}
}

// enough makes sure that a call did the work whose cost is measured.
func enough(err error, got, want int) error {
	if err == nil && got != want {
		err = fmt.Errorf("it came to %d, not %d", got, want)
	}
	return err
}
