package projector_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// deafConn loses the answer to a COMMIT while deaf is set.
type deafConn struct {
	net.Conn
	deaf *atomic.Bool
}

func (c *deafConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if bytes.Contains(b[:n], []byte("COMMIT\x00")) && c.deaf.CompareAndSwap(true, false) {
		_ = c.Close()
		return 0, errors.New("the answer is lost")
	}
	return n, err
}

// TestACommitWithoutAnAnswerIsNotAppliedAgain loses the answers of commits that happen.
func TestACommitWithoutAnAnswerIsNotAppliedAgain(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var deaf atomic.Bool
	cfg := pool.Config()
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &deafConn{Conn: conn, deaf: &deaf}, err
	}
	lossy, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lossy.Close)
	s := &scores{}
	loses := make(chan bool, 1)
	p := workerOf(t, lossy, func(c *projector.Config) {
		c.PollInterval, c.NoListen = 100*time.Millisecond, true
		c.OnStep = func(step kind.Step) {
			if step == kind.StepApplied && len(loses) > 0 {
				deaf.Store(<-loses)
			}
		}
	}, s.projections()[:1]...)
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()
	for i := range 3 {
		loses <- true
		score(t, pool, "game", scored{"ann", 5})
		score(t, pool, "game", scored{"ann", 7})
		within(t, "both are applied", func() bool {
			return query[bool](t, pool, `SELECT coalesce(max((doc ->> 'games')::int) >= $1, false) FROM tidemark_views.board`, 2*i+2)
		})
		if len(loses) > 0 || deaf.Load() {
			t.Fatal("no answer was lost")
		}
	}
	stop()
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	expectText(t, pool, "games", "6 36", `SELECT concat_ws(' ', doc ->> 'games', doc ->> 'total') FROM tidemark_views.board`)
	expectText(t, pool, "proof", "true", `SELECT (r.applied = 6 AND r.applied_hash = (SELECT bit_xor(uuid_hash_extended(event_id, 0))
		FROM tidemark.journal))::text FROM tidemark.readers r`)
}

// TestAHolderThatHasLostItsPlaceChangesNothing takes the place away while a group is applied.
func TestAHolderThatHasLostItsPlaceChangesNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	s := &scores{}
	zombie := workerOf(t, pool, func(c *projector.Config) {
		c.OnStep = func(step kind.Step) {
			if step == kind.StepApplied {
				exec(t, pool, `UPDATE tidemark.readers SET generation = generation + 1, expires_at = '-infinity'
					WHERE expires_at > '-infinity'`)
			}
		}
	}, s.projections()[:1]...)
	score(t, pool, "game", scored{"ann", 5})
	if _, err := zombie.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectText(t, pool, "after the zombie", "0 0 0", `SELECT concat_ws(' ', r.position, r.applied, (SELECT count(*)
		FROM tidemark_views.board)) FROM tidemark.readers r`)
	drain(t, workerOf(t, pool, nil, s.projections()...))
	expectScores(t, pool, nil)
}
