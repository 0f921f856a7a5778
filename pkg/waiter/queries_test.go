package waiter_test

import (
	"testing"

	"github.com/tidemark-go/tidemark/test/sqltest"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestEveryStatementPreparesOnTheMigratedSchema(t *testing.T) {
	t.Parallel()
	sqltest.Prepare(t, pgtest.New(t), "")
}
