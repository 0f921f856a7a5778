package ledger

import (
	"testing"

	"github.com/tidemark-go/tidemark/internal/pgtest"
	"github.com/tidemark-go/tidemark/internal/sqltest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestEveryStatementPreparesOnTheMigratedSchema(t *testing.T) {
	t.Parallel()
	sqltest.Prepare(t, pgtest.New(t), "")
}
