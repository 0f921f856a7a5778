package model_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

var errDead = errors.New("this worker is dead")

// mortal is the network of a worker that can be cut off for good, so that none of its later calls
// gets through, not even the release of leases.
type mortal struct {
	name string
	pool *pgxpool.Pool
	mu   sync.Mutex
	dead bool
	last bool // the next write still gets through, but its answer is never read
	all  []net.Conn
}

// wire is one of its connections.
type wire struct {
	net.Conn
	m *mortal
}

func (c wire) Write(b []byte) (int, error) {
	c.m.mu.Lock()
	last := c.m.last
	c.m.mu.Unlock()
	n, err := c.Conn.Write(b)
	if last {
		c.m.die()
	}
	return n, err
}

func newMortal(t *testing.T, url, name string) *mortal {
	t.Helper()
	m := &mortal{name: name}
	cfg, err := pgxpool.ParseConfig(pgtest.UTF8(url))
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 5
	cfg.ConnConfig.RuntimeParams["application_name"] = name
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.dead {
			return nil, errDead
		}
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		m.all = append(m.all, conn)
		return wire{conn, m}, nil
	}
	if m.pool, err = pgxpool.NewWithConfig(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *mortal) die() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	for _, conn := range m.all {
		_ = conn.Close()
	}
}

// dieAfterNext lets the next write through, then cuts the network.
func (m *mortal) dieAfterNext() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = true
}

// bury waits until the server has noticed, too.
func (m *mortal) bury(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	m.pool.Close()
	tally.Eventually(t, "the server ends the connections of "+m.name, tally.Holds(pool, `SELECT NOT EXISTS (SELECT
		FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1)`, m.name))
}

// answerless is an extra step: the COMMIT is sent, and its answer never read.
const answerless kind.Step = "answerless"

func deaths() []kind.Step {
	return []kind.Step{
		kind.StepClaimed, kind.StepRead, kind.StepApplied, answerless,
		kind.StepDeferring, kind.StepCommitted,
	}
}

// at calls do once, when a worker reaches a step for the n-th time.
func at(step kind.Step, n int, do func()) func(kind.Step) {
	var mu sync.Mutex
	return func(s kind.Step) {
		mu.Lock()
		if s != step {
			mu.Unlock()
			return
		}
		n--
		now := n == 0
		mu.Unlock()
		if now {
			do()
		}
	}
}
