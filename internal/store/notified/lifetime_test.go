package notified_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/notified"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestAConnectionEndsAfterThePoolsLifetimeAndTheNextOneFollows(t *testing.T) {
	t.Parallel()
	cfg, err := pgxpool.ParseConfig(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConnLifetime = 50 * time.Millisecond
	prepared := 0
	cfg.AfterConnect = func(context.Context, *pgx.Conn) error {
		prepared++
		return nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	connections := 0
	notified.Listen(ctx, pool, func(err error, _ time.Duration) { t.Error(err) },
		func(ctx context.Context, conn *pgx.Conn, works func()) error {
			works()
			if connections++; connections == 3 {
				stop()
			}
			_, err := conn.WaitForNotification(ctx)
			return err
		}, "news")
	if connections != 3 || prepared != 3 {
		t.Errorf("there were %d connections, %d of them prepared as the pool's are", connections, prepared)
	}
}
