package sqltest

import (
	"crypto/md5"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/scheduled"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// campaigns returns the ids of n of all campaigns, spread evenly.
func campaigns(n, all int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("c%06d", 1+i*all/n)
	}
	return ids
}

// call is a hot statement as its package runs it, among the given number of campaigns.
type call func(t *testing.T, tx pgx.Tx, all int) error

// calls returns the hot statements of all packages.
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
	statements := constants(t, "../../internal/store/failed")
	applying, registry := constants(t, "../../internal/projector/apply"),
		constants(t, "../../internal/projector/registry")
	publishing := constants(t, "../../internal/store/ledger")
	topics := slices.Repeat([]string{"t"}, group)
	return map[string]call{
		"claim": func(t *testing.T, tx pgx.Tx, _ int) error {
			claimed, err := free.Claim(t.Context(), tx, "", group, 0)
			return enough(err, len(claimed.Leases), group)
		},
		"claim the only one": func(t *testing.T, tx pgx.Tx, _ int) error {
			_, err := tx.Exec(t.Context(), `WITH given AS (INSERT INTO tidemark.leases
				VALUES ('only', $1, '', 1, '-infinity', 0)) INSERT INTO tidemark.outbox VALUES ('only', $1, 1, now(), 1)`, long)
			if err != nil {
				return err
			}
			claimed, err := lease.Keeper{Group: "only", Owner: "w", TTL: time.Minute}.Claim(t.Context(), tx, "", group, 0)
			return enough(err, len(claimed.Leases), 1)
		},
		"claim failed": func(t *testing.T, tx pgx.Tx, _ int) error {
			claimed, err := free.ClaimBehind(t.Context(), tx, []string{"p"}, group)
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
		"advance one": func(t *testing.T, tx pgx.Tx, all int) error {
			batch := &pgx.Batch{}
			held.Advance(batch, []lease.Step{{CampaignID: campaigns(1, all)[0], Generation: 1, To: perCampaign, Release: true}})
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
			outbox.Complete(batch, "g", campaigns(group, all), make([]int64, len(one)), one)
			return tx.SendBatch(t.Context(), batch).Close()
		},
		"complete one": func(t *testing.T, tx pgx.Tx, all int) error {
			batch := &pgx.Batch{}
			outbox.Complete(batch, "g", campaigns(1, all), make([]int64, len(one[:1])), one[:1])
			return tx.SendBatch(t.Context(), batch).Close()
		},
		"read a group": func(t *testing.T, tx pgx.Tx, all int) error {
			batch, n := &pgx.Batch{}, 0
			feed.ReadGroup(batch, feed.GroupRead{
				CampaignIDs: campaigns(group, all), After: make([]int64, group),
				Until: one, Events: 500, Bytes: 1 << 30,
			},
				func(int, *event.Event, int) { n++ })
			return enough(tx.SendBatch(t.Context(), batch).Close(), n, 500)
		},
		"read a group of small events": func(t *testing.T, tx pgx.Tx, all int) error {
			batch, n := &pgx.Batch{}, 0
			feed.ReadGroup(batch, feed.GroupRead{
				CampaignIDs: campaigns(group, all), After: make([]int64, group),
				Until: one, Events: 500, Bytes: 1 << 30, Small: true,
			},
				func(int, *event.Event, int) { n++ })
			return enough(tx.SendBatch(t.Context(), batch).Close(), n, 500)
		},
		"count a group": func(t *testing.T, tx pgx.Tx, all int) error {
			batch, n := &pgx.Batch{}, 0
			feed.CountGroup(batch, feed.GroupRead{
				CampaignIDs: campaigns(group, all), After: make([]int64, group),
				Until: one, Events: 500,
			},
				func(_, events int) { n += events }, nil)
			return enough(tx.SendBatch(t.Context(), batch).Close(), n, 500)
		},
		"apply an SQL file": func(t *testing.T, tx pgx.Tx, all int) error {
			var function string
			if err := tx.QueryRow(t.Context(),
				"SELECT proname FROM pg_proc WHERE proname LIKE 'tidemark_notes_%'").Scan(&function); err != nil {
				return err
			}
			if _, err := tx.Exec(t.Context(), applying["querySettings"], "tidemark_views", "30000", 5000, 2500); err != nil {
				return err
			}
			call := strings.Replace(registry["queryCallFunction"], "%s", function, 1)
			if _, err := tx.Exec(t.Context(), call, campaigns(group, all), make([]int64, group), one); err != nil {
				return err
			}
			var n int
			err := tx.QueryRow(t.Context(), "SELECT coalesce(sum(n), 0) FROM notes").Scan(&n)
			return enough(err, n, group*perCampaign)
		},
		"make due appends": func(t *testing.T, tx pgx.Tx, _ int) error {
			var fired int
			err := tx.QueryRow(t.Context(), `SELECT fired FROM tidemark.fire_scheduled($1, NULL, '-infinity', NULL, '{}', NULL,
				false)`, group).Scan(&fired)
			return enough(err, fired, group)
		},
		"make due appends of a campaign": func(t *testing.T, tx pgx.Tx, all int) error {
			var fired int
			err := tx.QueryRow(t.Context(), `SELECT fired FROM tidemark.fire_scheduled($1, $2, '-infinity', NULL, '{}', NULL,
				false)`, group, campaigns(1, all)[0]).Scan(&fired)
			return enough(err, fired, 1)
		},
		"sleep until an append is due": func(t *testing.T, tx pgx.Tx, _ int) error {
			var left bool
			err := tx.QueryRow(t.Context(), `SELECT wait < interval '1 h' FROM tidemark.fire_scheduled($1, NULL, 'infinity', NULL,
				'{}', interval '2 h', true)`, group).Scan(&left)
			if err == nil && !left {
				err = errors.New("the next append is not found")
			}
			return err
		},
		"schedule": func(t *testing.T, tx pgx.Tx, _ int) error {
			event := event.Event{ID: uuid.New(), Type: "noted"}
			_, err := journal.Journal{}.AppendAt(t.Context(), tx, long, time.Now().Add(time.Hour), event)
			return err
		},
		"list scheduled appends": func(t *testing.T, tx pgx.Tx, all int) error {
			listed, err := scheduled.List(t.Context(), tx, scheduled.Filter{Limit: group})
			if err == nil {
				_, err = scheduled.List(t.Context(), tx, scheduled.Filter{CampaignID: campaigns(1, all)[0], Limit: group})
			}
			return enough(err, len(listed), group)
		},
		"append": func(t *testing.T, tx pgx.Tx, all int) error {
			places, err := journal.Journal{}.Append(t.Context(), tx, long, journal.Exactly(int64(all)), event.Event{Type: "noted"})
			return enough(err, len(places), 1)
		},
		"append tagged": func(t *testing.T, tx pgx.Tx, all int) error {
			places, err := journal.Journal{}.Append(t.Context(), tx, long, journal.Exactly(int64(all)),
				event.Event{Type: "noted", Tags: []string{"all", "new"}})
			return enough(err, len(places), 1)
		},
		"append on a condition": func(t *testing.T, tx pgx.Tx, all int) error {
			query := event.Tagged([]string{"all"}, "lost").Or(event.Tagged([]string{"all", "campaign=" + long}, "found"),
				event.Tagged([]string{"campaign=" + campaigns(1, all)[0]}))
			places, err := journal.Journal{}.AppendIf(t.Context(), tx,
				[]event.Event{{CampaignID: long, Type: "noted", Tags: []string{"all"}}},
				journal.Condition{FailIfMatch: query, After: int64((perCampaign + 1) * all)})
			return enough(err, len(places), 1)
		},
		"append with ids on a condition": func(t *testing.T, tx pgx.Tx, all int) error {
			places, err := journal.Journal{}.AppendIf(t.Context(), tx,
				[]event.Event{{ID: uuid.New(), CampaignID: long, Type: "noted", Tags: []string{"all"}}},
				journal.Condition{FailIfMatch: event.Tagged([]string{"all"}, "lost"), After: int64((perCampaign + 1) * all)})
			return enough(err, len(places), 1)
		},
		"append with ids on a condition that fails": func(t *testing.T, tx pgx.Tx, all int) error {
			var position int64
			err := tx.QueryRow(t.Context(), `SELECT position FROM tidemark.append_if($1, $2, true)`,
				`[{"campaign_id": "`+long+`", "events": [{"type": "noted", "tags": ["all"], "id": "`+uuid.NewString()+`"}]}]`,
				fmt.Sprintf(`{"failIfEventsMatch": {"items": [{"types": ["noted"], "tags": ["all"]}]}, "after": %d}`,
					(perCampaign+1)*all-1)).Scan(&position)
			return enough(err, int(position), (perCampaign+1)*all)
		},
		"repeat an append on a condition": func(t *testing.T, tx pgx.Tx, all int) error {
			events := make([]event.Event, 20)
			for i := range events {
				id := md5.Sum(fmt.Appendf(nil, "0 %d", i+50)) // as in fill
				events[i] = event.Event{ID: id, CampaignID: long, Type: "noted", Payload: []byte(`{"a": 1}`)}
			}
			places, err := journal.Journal{}.AppendIf(t.Context(), tx, events,
				journal.Condition{FailIfMatch: event.Tagged([]string{"all"}, "noted"), After: int64(all)})
			return enough(err, len(places), len(events))
		},
		"read a query": func(t *testing.T, tx pgx.Tx, all int) error {
			events, err := journal.Read(t.Context(), tx, event.Tagged([]string{"all", "campaign=" + campaigns(1, all)[0]},
				"noted"), 0, 100)
			return enough(err, len(events), perCampaign)
		},
		"gaps": func(t *testing.T, tx pgx.Tx, _ int) error {
			gaps, _, err := outbox.Gaps(t.Context(), tx, "nothing filed", "", group)
			return enough(err, len(gaps), group)
		},
		"fence": func(t *testing.T, tx pgx.Tx, all int) error {
			return lease.Fence(t.Context(), tx, "held", campaigns(group, all))
		},
		"append with ids": func(t *testing.T, tx pgx.Tx, _ int) error {
			events := make([]event.Event, 20)
			for i := range events {
				events[i] = event.Event{ID: uuid.New(), Type: "noted"}
			}
			places, err := journal.Journal{}.Append(t.Context(), tx, long, journal.Any, events...)
			return enough(err, len(places), len(events))
		},
		"repeat an append": func(t *testing.T, tx pgx.Tx, _ int) error {
			events := make([]event.Event, 20)
			for i := range events {
				id := md5.Sum(fmt.Appendf(nil, "0 %d", i+50)) // as in fill
				events[i] = event.Event{ID: id, Type: "noted", Payload: []byte(`{"a": 1}`)}
			}
			places, err := journal.Journal{}.Append(t.Context(), tx, long, journal.None, events...)
			return enough(err, len(places), len(events))
		},
		"append to many": func(t *testing.T, tx pgx.Tx, all int) error {
			var batches []journal.Batch
			for _, id := range campaigns(group, all) {
				batches = append(batches, journal.Batch{CampaignID: id, Events: []event.Event{{Type: "noted"}}})
			}
			places, err := journal.Journal{}.AppendAll(t.Context(), tx, batches...)
			return enough(err, len(places), group)
		},
		"append to many with ids": func(t *testing.T, tx pgx.Tx, all int) error {
			var batches []journal.Batch
			for _, id := range campaigns(group, all) {
				batches = append(batches, journal.Batch{CampaignID: id, Events: []event.Event{{ID: uuid.New(), Type: "noted"}}})
			}
			places, err := journal.Journal{}.AppendAll(t.Context(), tx, batches...)
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
		"read a window of the journal": func(t *testing.T, tx pgx.Tx, all int) error {
			page, _, err := feed.ReadWindow(t.Context(), tx,
				event.Window{After: int64(all * perCampaign / 2), Floor: 1 << 40, Events: 100, Bytes: 1 << 20})
			return enough(err, len(page), 100)
		},
		"read the tail of a campaign": func(t *testing.T, tx pgx.Tx, all int) error {
			page, err := feed.ReadRange(t.Context(), tx, long, int64(all-49), 1<<40, 100)
			return enough(err, len(page), 50)
		},
		"claim publications": func(t *testing.T, tx pgx.Tx, all int) error {
			tag, err := tx.Exec(t.Context(), publishing["queryClaim"], "w", topics, campaigns(group, all), time.Minute)
			return enough(err, int(tag.RowsAffected()), group)
		},
		"move publications": func(t *testing.T, tx pgx.Tx, all int) error {
			zeros, instance := make([]int64, group), ""
			if err := tx.QueryRow(t.Context(), publishing["queryInstance"]).Scan(&instance); err != nil {
				return err
			}
			tag, err := tx.Exec(t.Context(), publishing["queryMove"], "", topics, campaigns(group, all), zeros, one, zeros,
				make([]bool, group), time.Minute, instance)
			return enough(err, int(tag.RowsAffected()), group)
		},
		"what is parked and due": func(t *testing.T, tx pgx.Tx, _ int) error {
			tag, err := tx.Exec(t.Context(), publishing["queryDue"], []string{"t"}, []string{"p"}, 16)
			return enough(err, int(tag.RowsAffected()), 16)
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
		"pairs that are behind": func(t *testing.T, tx pgx.Tx, all int) error {
			tag, err := tx.Exec(t.Context(), statements["queryStandings"], campaigns(group, all), "g")
			return enough(err, int(tag.RowsAffected()), group)
		},
		"due pairs": func(t *testing.T, tx pgx.Tx, all int) error {
			tag, err := tx.Exec(t.Context(), statements["queryDue"], campaigns(group, all), "g", []string{"p"})
			return enough(err, int(tag.RowsAffected()), group)
		},
		"move pairs": func(t *testing.T, tx pgx.Tx, all int) error {
			batch := &pgx.Batch{}
			batch.Queue("SET LOCAL enable_seqscan = off") // as in the projector's transaction
			failed.Move(batch, standings(campaigns(group, all)))
			return tx.SendBatch(t.Context(), batch).Close()
		},
		"finish pairs": func(t *testing.T, tx pgx.Tx, all int) error {
			batch := &pgx.Batch{}
			batch.Queue("SET LOCAL enable_seqscan = off") // as in the projector's transaction
			failed.Finish(batch, standings(campaigns(group, all)))
			return tx.SendBatch(t.Context(), batch).Close()
		},
		"defer a pair": func(t *testing.T, tx pgx.Tx, all int) error {
			batch, n := &pgx.Batch{}, 0
			failure := failed.Failure{
				Group: "g", Projection: "p", CampaignID: campaigns(group, all)[1], Seq: 1,
				Class: "transient", Code: "error",
			}
			failed.Defer(batch, failure, failed.Schedule{Attempts: 8, Waits: []time.Duration{time.Second}},
				func(failed.Outcome) { n++ })
			return enough(tx.SendBatch(t.Context(), batch).Close(), n, 1)
		},
	}
}

// standings returns a standing of each campaign after its first event.
func standings(ids []string) []failed.Standing {
	pairs := make([]failed.Standing, len(ids))
	for i, id := range ids {
		pairs[i] = failed.Standing{CampaignID: id, Projection: "p", NextSeq: 2}
	}
	return pairs
}

// enough checks that a call did the work whose cost is measured.
func enough(err error, got, want int) error {
	if err == nil && got != want {
		err = fmt.Errorf("it came to %d, not %d", got, want)
	}
	return err
}
