package model_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/test/support/bulk"
)

func ada() failed.Act { return failed.Act{By: "ada", Reason: "the weather is better"} }

// behind returns the keys of all rows of failed, in order.
func (w *world) behind() []failed.Key {
	return slices.SortedFunc(maps.Keys(w.rows), func(a, b failed.Key) int {
		return cmp.Or(cmp.Compare(a.Projection, b.Projection), cmp.Compare(a.CampaignID, b.CampaignID))
	})
}

// actOnOne acts on one key, possibly one for which the act is refused.
func (m *machine) actOnOne(r *rapid.T, act string) {
	keys := append(m.behind(), failed.Key{Projection: ledger, CampaignID: "a"})
	key := rapid.SampledFrom(keys).Draw(r, "pair")
	now, known := m.rows[key]
	seq := now.next
	if act == "resolved" && rapid.IntRange(0, 4).Draw(r, "elsewhere") == 0 {
		seq++
	}
	var want error
	switch {
	case !known:
		want = failed.ErrNotFound
	case now.status == failed.CatchingUp, seq != now.next:
		want = failed.ErrConflict
	}
	err := m.tx(func(ctx context.Context, tx pgx.Tx) error {
		switch act {
		case "requeued":
			return failed.Requeue(ctx, tx, key, ada())
		default:
			return failed.Resolve(ctx, tx, key, max(seq, 1), ada())
		}
	})
	if !errors.Is(err, want) {
		r.Fatalf("%s %s: got error %v, want %v", act, key, err, want)
	}
	if err == nil {
		m.act(key, act)
	}
}

// requeueSeq requeues all rows of a campaign that wait at one event.
func (m *machine) requeueSeq(r *rapid.T) {
	id, seq := rapid.SampledFrom(campaigns()).Draw(r, "campaign"), int64(1)
	var there []int64
	for _, key := range m.behind() {
		if key.CampaignID == id {
			there = append(there, m.rows[key].next)
		}
	}
	if len(there) > 0 {
		seq = rapid.SampledFrom(there).Draw(r, "seq")
	}
	var want []failed.Key
	for _, key := range m.behind() {
		if now := m.rows[key]; key.CampaignID == id && now.next == seq && now.status != failed.CatchingUp {
			want = append(want, key)
		}
	}
	var got []failed.Key
	err := m.tx(func(ctx context.Context, tx pgx.Tx) (err error) {
		got, err = failed.RequeueSeq(ctx, tx, rapid.SampledFrom([]string{"", group}).Draw(r, "group"), id, seq, ada())
		return err
	})
	if !slices.Equal(got, want) || (err != nil) != (len(want) == 0) || err != nil &&
		!errors.Is(err, failed.ErrNotFound) {
		r.Fatalf("requeued %v before event %d of campaign %s, want %v: %v", got, seq, id, want, err)
	}
	for _, key := range want {
		m.act(key, "requeued")
	}
}

// act applies an act to a row of the model.
func (m *machine) act(key failed.Key, act string) {
	now := m.rows[key]
	m.note(act, key.Projection, key.CampaignID, now.next)
	now.when = due
	switch act {
	case "requeued":
		now.status, now.attempts = failed.Failed, 0
	case "resolved":
		m.resolved[key] = append(m.resolved[key], now.next)
		now = row{next: now.next + 1, status: failed.CatchingUp, when: due, reset: now.reset}
		m.release(key.CampaignID)
	}
	m.rows[key] = now
}

// unresolve takes back a resolution, or tries to take back one that does not exist.
func (m *machine) unresolve(r *rapid.T) {
	key := failed.Key{Projection: ledger, CampaignID: "a"}
	keys := slices.DeleteFunc(slices.SortedFunc(maps.Keys(m.resolved), func(a, b failed.Key) int {
		return cmp.Compare(a.String(), b.String())
	}), func(k failed.Key) bool { return len(m.resolved[k]) == 0 })
	if len(keys) > 0 {
		key = rapid.SampledFrom(keys).Draw(r, "pair")
	}
	seq := rapid.SampledFrom(append([]int64{1}, m.resolved[key]...)).Draw(r, "seq")
	var want error
	if !slices.Contains(m.resolved[key], seq) {
		want = failed.ErrNotResolved
	}
	err := m.tx(func(ctx context.Context, tx pgx.Tx) error { return failed.Unresolve(ctx, tx, key, seq, ada()) })
	if !errors.Is(err, want) {
		r.Fatalf("unresolve event %d for %s: got error %v, want %v", seq, key, err, want)
	}
	if err != nil {
		return
	}
	m.release(key.CampaignID)
	m.note("unresolved", key.Projection, key.CampaignID, seq)
	m.resolved[key] = slices.DeleteFunc(slices.Clone(m.resolved[key]), func(s int64) bool { return s == seq })
	if now, behind := m.rows[key]; !behind || now.next > seq {
		m.rows[key] = row{next: 1, status: failed.CatchingUp, when: due, reset: true}
		m.note("replayed", key.Projection, key.CampaignID, 1)
	}
}

// actOnMany acts on all rows of a projection, of a status, or on all.
func (m *machine) actOnMany(r *rapid.T, act string) {
	f := failed.Filter{Group: group}
	switch rapid.IntRange(0, 2).Draw(r, "filter") {
	case 0:
		f.Projection = rapid.SampledFrom(projectionNames()).Draw(r, "projection")
	case 1:
		f.Status = []failed.Status{rapid.SampledFrom([]failed.Status{failed.Failed, failed.Dead}).Draw(r, "status")}
	}
	if act == "requeued" {
		m.requeueAll(r, f)
		return
	}
	m.actOnAll(r, f, act, bulk.Resolve)
}

func (m *machine) requeueAll(r *rapid.T, f failed.Filter) {
	m.actOnAll(r, f, "requeued", bulk.Requeue)
}

func (m *machine) actOnAll(
	r *rapid.T, f failed.Filter, act string, do func(context.Context, pgx.Tx, failed.Filter,
		failed.Act) ([]failed.Key, error),
) {
	var got []failed.Key
	m.must(r, m.tx(func(ctx context.Context, tx pgx.Tx) (err error) {
		got, err = do(ctx, tx, f, ada())
		return err
	}))
	n := 0
	for _, key := range m.behind() {
		now := m.rows[key]
		if now.status == failed.CatchingUp || f.Projection != "" && key.Projection != f.Projection || f.Status != nil &&
			!slices.Contains(f.Status, now.status) {
			continue
		}
		n++
		if !slices.Contains(got, key) {
			r.Fatalf("%s %v, and left out %s", act, got, key)
		}
		m.act(key, act)
	}
	if n != len(got) {
		r.Fatalf("%s %v, want %d", act, got, n)
	}
}

// replay replays campaigns, for one projection or all, from scratch or from a given event.
func (m *machine) replay(r *rapid.T) {
	if len(m.events) == 0 {
		return
	}
	q := failed.ReplayRequest{
		Group:      group,
		Projection: rapid.SampledFrom(append(projectionNames(), "")).Draw(r, "projection"),
		Campaigns: rapid.SliceOfNDistinct(rapid.SampledFrom(m.ids()), 1, min(2, len(m.events)), rapid.ID).Draw(r,
			"campaigns"),
	}
	if rapid.Bool().Draw(r, "from an event on") {
		q.From = rapid.Int64Range(1, 8).Draw(r, "from")
	}
	m.must(r, m.tx(func(ctx context.Context, tx pgx.Tx) error {
		_, err := failed.Replay(ctx, tx, q, ada())
		return err
	}))
	m.replayed(q, q.Campaigns)
}

// replayAll replays all campaigns in small batches.
func (m *machine) replayAll(r *rapid.T) {
	q := failed.ReplayRequest{Group: group, Projection: rapid.SampledFrom(append(projectionNames(), "")).Draw(r,
		"projection")}
	if rapid.Bool().Draw(r, "from an event on") {
		q.From = rapid.Int64Range(1, 8).Draw(r, "from")
	}
	for cursor := ""; ; {
		m.must(r, m.tx(func(ctx context.Context, tx pgx.Tx) (err error) {
			_, cursor, err = failed.ReplayAll(ctx, tx, q, cursor, 2, ada())
			return err
		}))
		if cursor == "" {
			break
		}
	}
	m.replayed(q, slices.DeleteFunc(m.ids(), func(id string) bool { return m.campaigns[id].checkpoint == 0 }))
}

// replayed applies a replay to the model.
func (m *machine) replayed(q failed.ReplayRequest, campaigns []string) {
	for _, id := range campaigns {
		m.release(id)
		if m.campaigns[id].checkpoint < max(q.From, 1) {
			continue
		}
		for _, projection := range projectionNames() {
			if q.Projection != "" && q.Projection != projection {
				continue
			}
			key := failed.Key{Projection: projection, CampaignID: id}
			next := max(q.From, 1)
			old, is := m.rows[key]
			if is {
				next = min(next, old.next)
			}
			m.rows[key] = row{next: next, status: failed.CatchingUp, when: due, reset: q.From == 0 || old.reset}
			m.again[key] = m.again[key] || q.From > 0
			m.note("replayed", projection, id, next)
		}
	}
}
