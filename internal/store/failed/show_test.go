package failed_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestShowingAPair(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	appendEvents(t, pool, "c", `{"by": 1}`, `{"by": 2}`)
	key := fail(t, pool, failed.Dead, "p", "c", 2)
	fail(t, pool, failed.Dead, "q", "c", 2)
	for range 2 {
		if err := in(t, pool, func(ctx context.Context, tx pgx.Tx) error {
			return failed.Requeue(ctx, tx, key, operator())
		}); err != nil {
			t.Fatal(err)
		}
	}
	d, err := failed.Show(t.Context(), pool, key)
	if err != nil {
		t.Fatal(err)
	}
	if d.Key != key || d.Group != "g" || d.Version != 3 || d.NextSeq != 2 || d.Status != failed.Failed ||
		d.NextAttemptAt.IsZero() || d.EventID == nil || d.EventType != "moved" ||
		d.Class != "permanent" || d.Code != "22012" || d.Message != "division by zero at c" ||
		d.Fingerprint != "f00f00f00f00" || d.FirstFailedAt == nil || d.LastFailedAt == nil ||
		d.Worker != "w" || d.Stack != "main.go:7" {
		t.Errorf("got %+v", d)
	}
	if d.Event == nil || d.Event.Seq != 2 || string(d.Event.Payload) != `{"by": 2}` {
		t.Errorf("got event %+v", d.Event)
	}
	if len(d.History) != 2 || d.History[0].ID <= d.History[1].ID || d.History[0].Act != "requeued" ||
		d.History[0].Actor != "ada" || d.History[0].Projection != "p" {
		t.Errorf("got history %+v", d.History)
	}
	if d.History[0].Attempt != 0 || d.History[1].Attempt != 8 {
		t.Errorf("the log does not keep the attempts before: %+v", d.History)
	}
}

func TestShowingAPairThatStandsBeyondTheJournal(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	key := rebuild(t, pool, "p", "c", 3)
	d, err := failed.Show(t.Context(), pool, key)
	if err != nil || d.Event != nil || d.EventID != nil || d.FirstFailedAt != nil || len(d.History) > 0 {
		t.Errorf("got %+v, %v", d, err)
	}
}

func TestShowingNoPair(t *testing.T) {
	t.Parallel()
	_, err := failed.Show(t.Context(), pgtest.New(t), failed.Key{Projection: "p", CampaignID: "c"})
	if !errors.Is(err, failed.ErrNotFound) {
		t.Errorf("got error %v", err)
	}
}

func TestHistoryGoesBackPageByPage(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `INSERT INTO tidemark.failure_log (act, consumer_group, projection, campaign_id, seq, fingerprint, actor)
		SELECT CASE WHEN i % 2 = 0 THEN 'failed' ELSE 'requeued' END, 'g', 'p' || i % 3, 'c' || i % 2, i, 'f' || i % 2, CASE
			WHEN i % 2 = 1 THEN 'ada' END FROM generate_series(1, 30) i`)
	for name, c := range map[string]struct {
		f    failed.LogFilter
		want int
	}{
		"all":        {failed.LogFilter{}, 30},
		"group":      {failed.LogFilter{Group: "h"}, 0},
		"projection": {failed.LogFilter{Projection: "p1"}, 10},
		"pair":       {failed.LogFilter{Projection: "p1", CampaignID: "c0"}, 5},
		"actor":      {failed.LogFilter{Actor: "ada"}, 15},
		"print":      {failed.LogFilter{Fingerprint: "f0"}, 15},
		"acts":       {failed.LogFilter{Acts: []string{"requeued", "dead"}}, 15},
	} {
		n, last := 0, int64(1<<62)
		for c.f.Limit = 4; ; {
			page, err := failed.History(t.Context(), pool, c.f)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page {
				if r.ID >= last {
					t.Fatalf("%s: record %d comes after %d", name, r.ID, last)
				}
				n, last = n+1, r.ID
			}
			if len(page) < c.f.Limit {
				break
			}
			c.f.Before = last
		}
		if n != c.want {
			t.Errorf("%s: got %d records, want %d", name, n, c.want)
		}
	}
	for _, f := range []failed.LogFilter{{Acts: []string{"undone"}}, {Limit: -1}, {Before: -1}, {Actor: "\x00"}} {
		if _, err := failed.History(t.Context(), pool, f); err == nil {
			t.Errorf("%+v is not refused", f)
		}
	}
}
