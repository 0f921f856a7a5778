package projector_test

import (
	"errors"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

func TestAPoolOfAnotherEncodingIsRefused(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	for name, projections := range map[string][]projection.Projection{
		"by campaign": tally.Both(), "across campaigns": tally.Across(1, nil),
	} {
		t.Run(name, func(t *testing.T) {
			p, err := projector.New(projector.Config{
				Pool: tally.Pool(t, pgtest.With(address, "client_encoding", "LATIN1"), "wrong", 4), Projections: projections,
			})
			if err != nil {
				t.Fatal(err)
			}
			var encoding *event.EncodingError
			if err := p.Run(t.Context()); !errors.As(err, &encoding) || encoding.Encoding != "LATIN1" {
				t.Errorf("got %v", err)
			}
		})
	}
}
