package acts

import (
	"errors"
	"slices"
	"strings"
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
		act, ok := Named(name)
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

// TestWhatHasToBeTypedIsAskedFor holds Confirms against the acts: where it is false, nothing asks for what Do wants.
func TestWhatHasToBeTypedIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, act := range All() {
		in, err := param.Read(act.input, act.Params, func(name string) ([]string, bool) {
			i := slices.IndexFunc(act.Params, func(p param.Param) bool { return p.Name == name })
			given := act.Params[i].Required || name == "position"
			one := "1"
			switch act.Params[i].Type {
			case param.Duration:
				one = "1h"
			case param.Time:
				one = "2026-01-31T12:00:00Z"
			}
			return map[bool][]string{true: {one}}[given], given
		})
		if err != nil {
			t.Errorf("%s: %v", act.Name, err)
			continue
		}
		typed := act.Typed(in) != "" || strings.Contains(act.Name, "Many")
		if typed != act.Confirms {
			t.Errorf("%s asks for %q, Confirms is %t", act.Name, act.Typed(in), act.Confirms)
		}
	}
}
