package failed_test

import (
	"testing"

	"github.com/tidemark-go/tidemark/test/sqltest"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestEveryStatementPreparesOnTheMigratedSchema(t *testing.T) {
	t.Parallel()
	sqltest.Prepare(t, pgtest.New(t), "tidemark.failed")
}
