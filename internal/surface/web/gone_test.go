package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/web"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// lines sends each line of a log to a channel.
type lines chan string

func (l lines) Write(b []byte) (int, error) { l <- string(b); return len(b), nil }

func TestARequestThatNobodyWaitsForIsNoFault(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	said := make(lines, 1000)
	s := serveOn(t, pool, admin.Config{}, func(c *web.Config) {
		c.Logger = slog.New(slog.NewJSONHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for path, table := range map[string]string{
		"/audit": "tidemark.operator_log", "/api/v1/workers": "tidemark.workers",
		"/api/v1/me": "tidemark.tokens",
	} {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE"); err != nil {
				return err
			}
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(s.base, "http://"))
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer %s\r\n\r\n", path,
				s.tokens[auth.Viewer]); err != nil {
				return err
			}
			for waits := false; !waits; {
				if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = $1::regclass AND NOT granted)",
					table).Scan(&waits); err != nil {
					return err
				}
			}
			if err := conn.Close(); err != nil {
				return err
			}
			for {
				var line struct {
					Level, Msg, Path string
					Status           int
				}
				select {
				case text := <-said:
					if err := json.Unmarshal([]byte(text), &line); err != nil {
						return err
					}
				case <-ctx.Done():
					return ctx.Err()
				}
				if line.Path != path && line.Level == "DEBUG" {
					continue
				}
				if line.Level != "DEBUG" || line.Msg == "request" && line.Status != 499 {
					t.Errorf("of %s, whose client has left, the log says %+v", path, line)
				}
				if line.Msg == "request" {
					return nil
				}
			}
		})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	if response, body := s.call(t, auth.Viewer, http.MethodGet, "/campaigns", "",
		nil); response.StatusCode != http.StatusOK {
		t.Errorf("afterwards the page is answered %s\n%s", response.Status, body)
	}
}
