package projection

import (
	"testing"

	"github.com/tidemark-go/tidemark/test/sqltest"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestEveryStatementPrepares(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `CREATE TABLE documents (campaign_id text COLLATE "C", key text COLLATE "C",
		doc jsonb NOT NULL, PRIMARY KEY (campaign_id, key))`); err != nil {
		t.Fatal(err)
	}
	sqltest.Prepare(t, pool, "documents")
}
