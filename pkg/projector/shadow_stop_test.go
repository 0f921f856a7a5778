package projector

import (
	"bytes"
	"context"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const countCrashes = `SELECT count(*) FROM tidemark.crashes`

// interrupted is a connection that calls back when the answer to the first INSERT into
// tidemark.crashes is there, and loses it should that have ended the patience of its reader.
type interrupted struct {
	net.Conn

	answered func()
	sent     int // requests with the statement: the first one asks what its parameters are
	late     chan struct{}
	once     sync.Once
}

func (c *interrupted) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("INSERT INTO tidemark.crashes")) {
		c.sent++
	}
	return c.Conn.Write(b)
}

func (c *interrupted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.sent != 2 {
		return n, err
	}
	c.sent++
	c.answered()
	select {
	case <-c.late:
		return 0, os.ErrDeadlineExceeded
	case <-time.After(100 * time.Millisecond): // it waits on
		return n, err
	}
}

func (c *interrupted) SetDeadline(at time.Time) error {
	if !at.IsZero() {
		c.once.Do(func() { close(c.late) })
	}
	return c.Conn.SetDeadline(at)
}

func TestAShadowThatIsStoppedAsItNamesWhatItTriesIsNotTakenForDead(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	noteIn(t, pool, "c", 2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var once sync.Once
	named := 0
	cfg, err := pgxpool.ParseConfig(pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // each request has its statement
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &interrupted{Conn: conn, late: make(chan struct{}), answered: func() {
			once.Do(func() {
				named = number(t, pool, countCrashes)
				stop()
			})
		}}, nil
	}
	wired, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer wired.Close()
	shadow, err := New(Config{Pool: wired, Projections: []Projection{shadowed()}, Mode: ModeShadowOnly})
	if err != nil {
		t.Fatal(err)
	}
	if err := shadow.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if named != 1 {
		t.Fatalf("it had named %d campaigns when it was stopped, want 1", named)
	}
	if left := number(t, pool, countCrashes); left != 0 {
		t.Errorf("%d campaigns have cost a process, want none", left)
	}
}
