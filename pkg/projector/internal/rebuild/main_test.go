package rebuild

import (
	"testing"

	"github.com/tidemark-go/tidemark/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
