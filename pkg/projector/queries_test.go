package projector_test

import (
	"testing"

	"github.com/tidemark-go/tidemark/internal/pgtest"
	"github.com/tidemark-go/tidemark/internal/sqltest"
)

func TestEveryStatementPreparesOnTheMigratedSchema(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const documents = `CREATE TABLE documents (campaign_id text COLLATE "C", key text COLLATE "C", doc jsonb NOT NULL, PRIMARY KEY (campaign_id, key));
		CREATE FUNCTION documents(text[], bigint[], bigint[]) RETURNS void LANGUAGE sql RETURN NULL`
	if _, err := pool.Exec(t.Context(), documents); err != nil {
		t.Fatal(err)
	}
	sqltest.Prepare(t, pool, "documents")
}
