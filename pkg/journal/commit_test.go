package journal_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// deaf is a connection that loses the answer to a COMMIT, as long as some are to be lost.
type deaf struct {
	net.Conn
	lose      *atomic.Int32
	committed atomic.Bool
}

func (d *deaf) Write(b []byte) (int, error) {
	if bytes.Contains(bytes.ToLower(b), []byte("commit\x00")) && d.lose.Add(-1) >= 0 {
		d.committed.Store(true)
	}
	return d.Conn.Write(b)
}

func (d *deaf) Read(b []byte) (int, error) {
	n, err := d.Conn.Read(b)
	if d.committed.Load() { // the server has answered
		return 0, errors.Join(io.ErrUnexpectedEOF, d.Close())
	}
	return n, err
}

// deafPool returns a pool of connections that together lose the answers to the next COMMITs.
func deafPool(t *testing.T, lose *atomic.Int32) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(pgtest.UTF8(pgtest.URL(t)))
	if err != nil {
		t.Fatal(err)
	}
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &deaf{Conn: conn, lose: lose}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func TestCommitAppendsOnceThoughItsAnswersAreLost(t *testing.T) {
	t.Parallel()
	var lose atomic.Int32
	pool := deafPool(t, &lose)
	lose.Store(3)
	places, err := journal.Journal{}.Commit(t.Context(), pool,
		journal.Batch{CampaignID: "a", Expect: journal.Exactly(0), Events: []event.Event{{Type: "x"}, {Type: "y"}}},
		journal.Batch{CampaignID: "b", Events: []event.Event{{Type: "z"}}})
	if err != nil || lose.Load() >= 0 {
		t.Fatalf("%v, and %d answers are still to be lost", err, lose.Load())
	}
	var got []string
	for e, err := range journal.ReadAll(t.Context(), pool, 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.CampaignID+" "+e.Type)
		if p := places[len(got)-1]; p.CampaignID != e.CampaignID || p.Seq != e.Seq || p.ID != e.ID || !p.Duplicate {
			t.Errorf("place %+v is not that of %+v", p, e)
		}
	}
	if want := []string{"a x", "a y", "b z"}; len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("the journal has %q", got)
	}
}

func TestCommitReturnsARefusalAtOnceAndAppendsNothing(t *testing.T) {
	t.Parallel()
	var lose atomic.Int32
	pool := deafPool(t, &lose)
	commits := lose.Load()
	_, err := journal.Journal{}.Commit(t.Context(), pool,
		journal.Batch{CampaignID: "a", Events: []event.Event{{Type: "x"}}},
		journal.Batch{CampaignID: "b", Expect: journal.Exactly(7), Events: []event.Event{{Type: "z"}}})
	if !errors.Is(err, journal.ErrVersionConflict) || lose.Load() != commits {
		t.Errorf("got %v after %d commits", err, commits-lose.Load())
	}
	var invalid *journal.InvalidEventError
	if _, err := (journal.Journal{}).Commit(t.Context(), pool, journal.Batch{CampaignID: "a", Events: []event.Event{{}}}); !errors.As(err, &invalid) {
		t.Errorf("got %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (journal.Journal{}).Commit(ended, pool, journal.Batch{CampaignID: "a", Events: []event.Event{{Type: "x"}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if places, err := (journal.Journal{}).Commit(t.Context(), pool); err != nil || len(places) != 0 {
		t.Errorf("without events: %v, %v", places, err)
	}
	for e, err := range journal.ReadAll(t.Context(), pool, 0) {
		t.Errorf("%+v was appended, %v", e, err)
	}
}
