package session_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestASessionThatDoesNotKeepUTF8IsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(context.Context, *pgx.Conn) error
		refused bool
	}{
		"the URL's encoding": {nil, false}, // it is replaced
		"one that something has changed since": {func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SET client_encoding = LATIN1")
			return err
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := pgxpool.ParseConfig(pgtest.With(pgtest.URL(t), "client_encoding", "LATIN1"))
			if err != nil {
				t.Fatal(err)
			}
			cfg.AfterConnect = c.change
			pool, err := session.Open(t.Context(), cfg)
			if err == nil {
				pool.Close()
			}
			var encoding *event.EncodingError
			if refused := errors.As(err, &encoding) && encoding.Encoding == "LATIN1"; refused != c.refused ||
				!refused && err != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}
