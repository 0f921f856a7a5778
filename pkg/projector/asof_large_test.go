package projector_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

type inflated struct {
	Text string `json:"text"`
}

func TestRowsThatMemoryShouldNotHoldAreRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p, err := projector.New(projector.Config{
		Pool: pool,
		Projections: []projector.Projection{projector.NewDocument(projector.Document[inflated]{
			Name: "inflated", Version: 1,
			Key: func(e journal.Event) (string, error) { return e.ID.String(), nil },
			Fold: func(d *inflated, _ journal.Event) error {
				d.Text = strings.Repeat("x", 12<<20)
				return nil
			},
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `SELECT tidemark.append('a',
		'[{"type": "x"}, {"type": "x"}, {"type": "x"}]')`); err != nil {
		t.Fatal(err)
	}
	for seq, want := range map[int64]error{2: nil, 3: replay.ErrStateTooLarge} {
		if _, err := p.AsOf(t.Context(), "inflated", "a", seq); !errors.Is(err, want) {
			t.Errorf("as of event %d: %v, want %v", seq, err, want)
		}
		if _, err := p.Diff(t.Context(), "inflated", "a", 0, seq); !errors.Is(err, want) {
			t.Errorf("what events 1 to %d changed: %v, want %v", seq, err, want)
		}
	}
}
