package feed_test

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const (
	largeEvents = 16
	largeBytes  = 512 << 10
	listBytes   = 2 << 20
)

// large creates a campaign of 16 events of half a MiB each. It returns a connection and the number
// of bytes read from it.
func large(t *testing.T) (conn *pgx.Conn, read *atomic.Int64) {
	t.Helper()
	pool := pgtest.New(t)
	payload, err := json.Marshal(map[string]string{"text": strings.Repeat("x", largeBytes)})
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for range largeEvents {
			if _, err := (journal.Journal{}).Append(t.Context(), tx, "large", journal.Any,
				event.Event{Type: "written", Payload: payload}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return counting(t, pool)
}

func counting(t *testing.T, pool *pgxpool.Pool) (*pgx.Conn, *atomic.Int64) {
	t.Helper()
	read := &atomic.Int64{}
	cfg := pool.Config().ConnConfig
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &countingConn{conn, read}, err
	}
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn, read
}

type countingConn struct {
	net.Conn
	read *atomic.Int64
}

func (c *countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	return n, err
}

func TestListsAreBoundedInBytesAndLeaveOutWhatIsHidden(t *testing.T) {
	t.Parallel()
	conn, read := large(t)
	for name, list := range map[string]func(from int64, l feed.List) ([]event.Event, bool, error){
		"of a campaign": func(from int64, l feed.List) ([]event.Event, bool, error) {
			return feed.ListCampaign(t.Context(), conn, "large", from, l)
		},
		"of a query": func(from int64, l feed.List) ([]event.Event, bool, error) {
			events, _, more, err := feed.ListMatches(t.Context(), conn, event.Types("written"), from, l)
			return events, more, err
		},
	} {
		before := read.Load()
		events, more, err := list(1, feed.List{Events: 1000, Bare: true})
		if err != nil || more || len(events) != largeEvents {
			t.Errorf("%s, without payloads: %d events, more %v, %v", name, len(events), more, err)
		}
		for _, e := range events {
			if e.Payload != nil || e.Metadata != nil || e.Type != "written" {
				t.Errorf("%s, without payloads: event %d has a payload, or no type", name, e.Seq)
			}
		}
		if n := read.Load() - before; n > 64<<10 {
			t.Errorf("%s, without payloads: %d bytes were read", name, n)
		}
		from, pages := int64(1), 0
		for more := true; more; pages++ {
			before := read.Load()
			if events, more, err = list(from, feed.List{Events: 1000, Bytes: listBytes}); err != nil {
				t.Fatal(err)
			}
			if n := read.Load() - before; n > listBytes+2*largeBytes {
				t.Errorf("%s: page %d took %d bytes, the bound is %d", name, pages, n, listBytes)
			}
			if len(events) > 0 {
				from = events[len(events)-1].Seq + 1 // seq and position are equal here
			}
		}
		if from != largeEvents+1 || pages < 4 {
			t.Errorf("%s: %d pages came to event %d of %d", name, pages, from-1, largeEvents)
		}
	}
}

func TestStreamsHoldFewLargeEventsAtOnce(t *testing.T) {
	t.Parallel()
	conn, read := large(t)
	for name, stream := range map[string]func(yield func(event.Event, error) bool){
		"ReadCampaign": feed.ReadCampaign(t.Context(), conn, "large", 0),
		"ReadAll":      feed.ReadAll(t.Context(), conn, event.Cursor{}),
	} {
		before, n := read.Load(), 0
		for _, err := range stream {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 1 && read.Load()-before > largeEvents*largeBytes*3/4 {
				t.Errorf("%s read %d bytes before its first event", name, read.Load()-before)
			}
		}
		if n != largeEvents {
			t.Errorf("%s answers %d events of %d", name, n, largeEvents)
		}
	}
}
