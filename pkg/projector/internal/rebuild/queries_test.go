package rebuild

import (
	"testing"

	"github.com/tidemark-go/tidemark/internal/pgtest"
	"github.com/tidemark-go/tidemark/internal/sqltest"
)

func TestEveryStatementPrepares(t *testing.T) {
	t.Parallel()
	sqltest.Prepare(t, pgtest.New(t), "")
}
