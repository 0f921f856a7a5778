package feed_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestIDHashIsWhatPostgresComputes(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	ids := []uuid.UUID{uuid.Nil, uuid.Max}
	for range 50 {
		ids = append(ids, uuid.New())
	}
	for _, id := range ids {
		var want int64
		if err := pool.QueryRow(t.Context(), `SELECT uuid_hash_extended($1, 0)`, [16]byte(id)).Scan(&want); err != nil {
			t.Fatal(err)
		}
		if got := feed.IDHash(id); got != want {
			t.Errorf("IDHash(%s) = %d, Postgres says %d", id, got, want)
		}
	}
}
