package operator

import (
	"errors"
	"testing"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator/param"
)

// TestAnEmptyValueDoesNotWidenAnAct expects a refusal of an empty list element and of a missing
// group.
func TestAnEmptyValueDoesNotWidenAnAct(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]map[string][]string{
		"verifyProjection": {"projection": {"scores"}, "campaigns": {""}},
		"replayCampaign":   {"campaign": {"oak"}},
		"republish":        {"topic": {"t"}, "publisher": {"p"}, "campaign": {"oak"}},
	} {
		act, ok := ActNamed(name)
		if !ok {
			t.Fatalf("there is no act %s", name)
		}
		_, err := act.Input(func(param string) ([]string, bool) { values, ok := given[param]; return values, ok })
		var refused *param.Error
		if !errors.As(err, &refused) || !errors.Is(err, admin.ErrInvalid) {
			t.Errorf("%s takes %v: %v", name, given, err)
		}
	}
}
