package api

import (
	"testing"

	"github.com/tidemark-go/tidemark/internal/projector/classify"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// TestConstantsOfTheEnginesHaveThePublicValues compares constants that documentation shows with those of the
// engines.
func TestConstantsOfTheEnginesHaveThePublicValues(t *testing.T) {
	t.Parallel()
	for public, engine := range map[any]any{
		string(projection.ClassInfrastructure): classify.Infrastructure,
		string(projection.ClassTransient):      classify.Transient,
		string(projection.ClassPermanent):      classify.Permanent,
		string(projection.ClassLock):           classify.Lock,
		erasure.EventType:                      feed.Notice,
		publisher.Connections:                  ledger.Connections,
	} {
		if public != engine {
			t.Errorf("%v is %v in the engine", public, engine)
		}
	}
}
