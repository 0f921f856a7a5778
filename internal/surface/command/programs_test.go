package command

import (
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// TestTheProofSaysWhichWorkersKeepNone runs a worker of SQL files alone in a group that also has a
// projection in Go.
func TestTheProofSaysWhichWorkersKeepNone(t *testing.T) {
	t.Parallel()
	pool, _ := played(t)
	other, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{
		projection.Document[int]{
			Name: "counts", Version: 1, Types: []string{"scored"},
			Fold: func(n *int, _ event.Event) error { *n++; return nil },
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	drained(t, other)
	got := execute(t, pool.Config().ConnString(), true, "projection verify counts --proof"+projectionFiles)
	const want = "For 3 campaigns only the number of events is known: the worker that applied them has only SQL " +
		"files and no TIDEMARK_PROOF."
	if got.code != cli.ExitOK || !strings.Contains(got.out+got.err, want) {
		t.Errorf("exit code %d, want %q: %s%s", got.code, want, got.out, got.err)
	}
}
