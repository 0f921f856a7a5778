package web_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestListsReadNoMoreThanTheyShow lists a campaign of 16 events of half a MiB each. It counts the
// bytes read from the database.
func TestListsReadNoMoreThanTheyShow(t *testing.T) {
	t.Parallel()
	var read atomic.Int64
	cfg := pgtest.New(t).Config()
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &countedConn{conn, &read}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	const events, bytes = 16, 512 << 10
	payload, err := json.Marshal(map[string]string{"text": strings.Repeat("x", bytes)})
	if err != nil {
		t.Fatal(err)
	}
	for range events {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(t.Context(), tx, "large", journal.Any, event.Event{Type: "written", Payload: payload})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s := serveOn(t, pool, admin.Config{}, nil)
	for _, list := range []struct {
		path string
		role auth.Role
		most int64
	}{
		{"/api/v1/campaigns/large/events?limit=1000", auth.Viewer, 256 << 10},
		{"/api/v1/campaigns/large/events?limit=1000", auth.Operator, 6 << 20},
		{"/api/v1/events?type=written&limit=1000", auth.Viewer, 256 << 10},
		{"/api/v1/events?type=written&limit=1000", auth.Operator, 6 << 20},
		{"/campaign?id=large", auth.Viewer, 1 << 20}, // the page shows or hides the last event
		{"/campaign?id=large", auth.Operator, 1 << 20},
	} {
		before := read.Load()
		response, body := s.call(t, list.role, http.MethodGet, list.path, "", nil)
		if response.StatusCode != http.StatusOK || !strings.Contains(body, "written") {
			t.Errorf("%s for %s is answered %s", list.path, list.role, response.Status)
		}
		if n := read.Load() - before; n > list.most {
			t.Errorf("%s for %s reads %d KiB from the database, at most %d are shown", list.path, list.role, n>>10,
				list.most>>10)
		}
	}
}

type countedConn struct {
	net.Conn
	read *atomic.Int64
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	return n, err
}
