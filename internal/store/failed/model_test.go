package failed_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/test/support/bulk"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/rapidtest"
)

// row is the model's state of a failed campaign.
type row struct {
	seq      int64
	status   failed.Status
	attempts int
	due      bool
}

// machine holds the failed campaigns as the model and as the database have them.
type machine struct {
	t      *testing.T
	tx     pgx.Tx
	rows   map[failed.Key]row
	logged []string
}

const attempts = 3 // the failure that makes a campaign dead

// TestFailedCampaignsGoThroughTheirStatesAsTheModelDoes drives failures, recoveries and acts in random order.
// Each run is one transaction that is rolled back.
func TestFailedCampaignsGoThroughTheirStatesAsTheModelDoes(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	rapidtest.Check(t, 30, func(r *rapid.T) {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := tx.Rollback(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		m := &machine{t: t, tx: tx, rows: map[failed.Key]row{}}
		r.Repeat(map[string]func(*rapid.T){
			"fail":         m.fail,
			"recover":      m.recover,
			"requeue":      func(r *rapid.T) { m.act(r, "requeued") },
			"resolve":      func(r *rapid.T) { m.act(r, "resolved") },
			"requeue many": m.requeueMany,
			"":             m.check,
		})
		m.checkLog(r)
	})
}

func (m *machine) key(r *rapid.T) failed.Key {
	return failed.Key{
		Projection: rapid.SampledFrom([]string{"p", "q"}).Draw(r, "projection"),
		CampaignID: rapid.SampledFrom([]string{"a", "b"}).Draw(r, "campaign"),
	}
}

// fail is a worker's failed attempt, at the event where the campaign stands or at a first one.
func (m *machine) fail(r *rapid.T) {
	key, permanent := m.key(r), rapid.Bool().Draw(r, "permanent")
	now, known := m.rows[key]
	if !known {
		now.seq = 3
	}
	if known && !now.due {
		return // not due, so no worker retries it
	}
	batch := &pgx.Batch{}
	failed.Defer(batch, failed.Failure{
		Group: "g", Projection: key.Projection, Version: 1, CampaignID: key.CampaignID, Seq: now.seq, EventID: uuid.New(),
		EventType: "moved", Class: "transient", Code: "22012",
		Message: "division by zero", Fingerprint: "f", Worker: "w",
	}, failed.Schedule{Dead: permanent, Attempts: attempts, Waits: []time.Duration{time.Hour}},
		func(failed.Outcome) {})
	if err := m.tx.SendBatch(m.t.Context(), batch).Close(); err != nil {
		r.Fatal(err)
	}
	now.attempts++
	now.status, now.due = failed.Failed, false
	if permanent || now.attempts >= attempts {
		now.status = failed.Dead
	}
	m.rows[key] = now
	m.logged = append(m.logged, fmt.Sprint(now.status, key, now.seq))
}

// recover is a worker's successful attempt: the campaign advances by some events or catches up.
func (m *machine) recover(r *rapid.T) {
	key, more := m.key(r), rapid.Int64Range(0, 2).Draw(r, "events")
	now, known := m.rows[key]
	if !known || !now.due {
		return
	}
	batch := &pgx.Batch{}
	if more == 0 {
		failed.Finish(batch, []failed.Standing{{CampaignID: key.CampaignID, Projection: key.Projection}})
		delete(m.rows, key)
	} else {
		failed.Move(batch, []failed.Standing{{
			CampaignID: key.CampaignID, Projection: key.Projection,
			NextSeq: now.seq + more,
		}})
		m.rows[key] = row{seq: now.seq + more, status: failed.CatchingUp, due: true}
	}
	if err := m.tx.SendBatch(m.t.Context(), batch).Close(); err != nil {
		r.Fatal(err)
	}
	if now.status != failed.CatchingUp {
		m.logged = append(m.logged, fmt.Sprint("recovered", key, now.seq))
	}
}

// act is an operator's act on one campaign. It is refused if the campaign is not behind, is
// catching up, or stands at another event.
func (m *machine) act(r *rapid.T, act string) {
	key, seq := m.key(r), rapid.Int64Range(3, 5).Draw(r, "seq")
	now, known := m.rows[key]
	var want error
	switch {
	case !known:
		want = failed.ErrNotFound
	case now.status == failed.CatchingUp, act == "resolved" && seq != now.seq:
		want = failed.ErrConflict
	}
	err := pgx.BeginFunc(m.t.Context(), m.tx, func(tx pgx.Tx) error {
		switch ctx := m.t.Context(); act {
		case "requeued":
			return failed.Requeue(ctx, tx, key, operator())
		default:
			return failed.Resolve(ctx, tx, key, seq, operator())
		}
	})
	if !errors.Is(err, want) {
		r.Fatalf("%s %s: got error %v, want %v", act, key, err, want)
	}
	if err != nil {
		return
	}
	m.logged = append(m.logged, fmt.Sprint(act, key, now.seq))
	switch now.due = true; act {
	case "requeued":
		now.status, now.attempts = failed.Failed, 0
	default:
		now = row{seq: now.seq + 1, status: failed.CatchingUp, due: true}
	}
	m.rows[key] = now
}

// requeueMany requeues all campaigns with one status.
func (m *machine) requeueMany(r *rapid.T) {
	status := rapid.SampledFrom([]failed.Status{failed.Failed, failed.Dead}).Draw(r, "status")
	var keys []failed.Key
	err := pgx.BeginFunc(m.t.Context(), m.tx, func(tx pgx.Tx) (err error) {
		keys, err = bulk.Requeue(m.t.Context(), tx, failed.Filter{Status: []failed.Status{status}}, operator())
		return err
	})
	if err != nil {
		r.Fatal(err)
	}
	want := 0
	for key, now := range m.rows {
		if now.status != status {
			continue
		}
		want++
		if !slices.Contains(keys, key) {
			r.Fatalf("%s is %s and was not requeued", key, status)
		}
		m.rows[key] = row{seq: now.seq, status: failed.Failed, due: true}
		m.logged = append(m.logged, fmt.Sprint("requeued", key, now.seq))
	}
	if len(keys) != want {
		r.Fatalf("requeued %v, want %d", keys, want)
	}
}

// check compares the database with the model.
func (m *machine) check(r *rapid.T) {
	pairs, err := failed.List(m.t.Context(), m.tx, failed.Filter{})
	if err != nil {
		r.Fatal(err)
	}
	found := map[failed.Key]row{}
	for _, p := range pairs {
		found[p.Key] = row{seq: p.NextSeq, status: p.Status, attempts: p.Attempts, due: !p.NextAttemptAt.IsZero() &&
			time.Until(p.NextAttemptAt) < time.Minute}
		if (p.Status == failed.CatchingUp) != (p.Code == "") {
			r.Fatalf("%s is %s and has the error %q", p.Key, p.Status, p.Code)
		}
	}
	if !maps.Equal(found, m.rows) {
		r.Fatalf("the database has %v, the model %v", found, m.rows)
	}
}

// checkLog compares the failure log with the recorded acts.
func (m *machine) checkLog(r *rapid.T) {
	records, err := failed.History(m.t.Context(), m.tx, failed.LogFilter{Limit: 10_000})
	if err != nil {
		r.Fatal(err)
	}
	var logged []string
	for _, l := range records {
		logged = append(logged, fmt.Sprint(l.Act, failed.Key{Projection: l.Projection, CampaignID: l.CampaignID}, l.Seq))
	}
	want := slices.Sorted(slices.Values(m.logged)) // the model does not know the order of acts on several campaigns
	if slices.Sort(logged); !slices.Equal(logged, want) {
		r.Fatalf("the log says %q, the model %q", logged, want)
	}
}
