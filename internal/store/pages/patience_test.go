package pages

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/test/support/heavy"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/unreadable"
)

func TestAReadThatItsLimitEndsIsRepeatedForOneEventWithMoreTime(t *testing.T) {
	t.Parallel()
	p := NewPatience(time.Second)
	expect := func(when string, after int64, events int, limit time.Duration) {
		t.Helper()
		if most, allowed := p.Next(after, 800); most != events || allowed != limit {
			t.Errorf("%s: the next read after %d is of %d events within %s, want %d within %s", when, after, most, allowed,
				events, limit)
		}
	}
	done := func(after int64, err error, slow bool) {
		t.Helper()
		if got := p.Done(after, err); got != slow {
			t.Errorf("%v is too slow: %t", err, got)
		}
	}
	expect("at first", 7, 800, time.Second)
	done(7, errors.New("away"), false)
	expect("after another error", 7, 800, time.Second)
	done(7, fmt.Errorf("read: %w", context.DeadlineExceeded), true)
	expect("once too slow", 7, 1, 4*time.Second)
	expect("elsewhere", 8, 1, 4*time.Second)
	done(7, fmt.Errorf("read: %w", &pgconn.PgError{Code: "57014"}), true)
	expect("twice too slow", 7, 1, 16*time.Second)
	expect("elsewhere", 8, 1, 4*time.Second)
	if longest := p.Longest(); longest != 16*time.Second {
		t.Errorf("the longest limit is %s", longest)
	}
	for range 20 {
		done(7, context.DeadlineExceeded, true)
	}
	expect("always too slow", 7, 1, time.Hour)
	done(7, nil, false)
	expect("read", 7, 1, 4*time.Second)
	for range 4 {
		done(8, nil, false)
	}
	expect("after some reads that went well", 8, 3, time.Second)
	for range 8 {
		done(8, nil, false)
	}
	if longest := p.Longest(); longest != time.Second {
		t.Errorf("the longest limit is %s", longest)
	}
	expect("after reads that went well", 8, 800, time.Second)
	for after := range int64(1000) {
		done(after, context.DeadlineExceeded, true)
	}
	if len(p.ended) > mostPlaces {
		t.Errorf("it knows %d places", len(p.ended))
	}
}

// TestARepeatedReadOutlastsTheTimeoutOfTheSession reads an event that takes longer than that, and one that
// cannot be read.
func TestARepeatedReadOutlastsTheTimeoutOfTheSession(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `SELECT tidemark.append('oak', '[{"type": "noted"}]')`); err != nil {
		t.Fatal(err)
	}
	unreadable.Write(t, pool, "oak", "noted", unreadable.Damaged)
	heavy.Make(t, pool, "oak", 1, 1500*time.Millisecond)
	heavy.Limit(t, pool, time.Second)
	floor, err := feed.Floor(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	w := event.Window{Floor: floor, Events: 10, Bytes: Bytes}
	if _, err := ReadPage(t.Context(), pool, nil, w, 0); feed.SQLState(err) != "57014" {
		t.Errorf("the first read ends with %v", err)
	}
	page, err := ReadPage(t.Context(), pool, nil, w, 5*time.Minute)
	if err != nil || len(page.Events) != 2 || page.Events[0].Unreadable() != nil || page.Events[1].Unreadable() == nil {
		t.Errorf("the repeated read brings %+v, %v", page.Events, err)
	}
}
