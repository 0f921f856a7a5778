package projector

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// specOnly is a projection that has a Spec and cannot be applied.
type specOnly struct {
	projection.Projection
	spec projection.Spec
}

func (s specOnly) Spec() projection.Spec { return s.spec }

func TestAPolicyTakesWhatItLeavesOpenFromTheNextWiderOne(t *testing.T) {
	t.Parallel()
	types, err := catalogue.New(catalogue.EventType{Name: "moved", Aliases: []string{"walked"}})
	if err != nil {
		t.Fatal(err)
	}
	spec := projection.Spec{
		Name: "p", Version: 1, OnFailure: projection.Policy{Base: 2 * time.Second, Attempts: 3},
		OnFailureOf: map[string]projection.Policy{"moved": {Action: projection.ActionSkip, Attempts: 4}},
	}
	list, _, err := registry.Index([]projection.Projection{specOnly{spec: spec}}, types,
		projection.Policy{Max: time.Minute, Base: 9 * time.Second}.Or(projection.DefaultPolicy()), "public")
	if err != nil {
		t.Fatal(err)
	}
	wide := projection.Policy{Action: projection.ActionRetry, Attempts: 3, Base: 2 * time.Second, Max: time.Minute, Factor: 2}
	narrow := wide
	narrow.Action, narrow.Attempts = projection.ActionSkip, 4
	for eventType, want := range map[string]projection.Policy{"noted": wide, "moved": narrow, "walked": narrow} {
		if got := list[0].Policy(eventType); got != want {
			t.Errorf("for %s it is %+v, want %+v", eventType, got, want)
		}
	}
}

func TestNewRefusesPoliciesThatCannotBe(t *testing.T) {
	t.Parallel()
	_, err := New(Config{
		OnFailure: projection.Policy{Attempts: -1},
		Projections: []projection.Projection{specOnly{spec: projection.Spec{
			Name: "p", Version: 1, Types: []string{"moved"},
			OnFailure:   projection.Policy{Action: "explode", Base: time.Hour},
			OnFailureOf: map[string]projection.Policy{"noted": {Factor: 0.5}},
		}}},
	})
	for _, want := range []string{
		"OnFailure: attempts is -1: use 1 … 2147483647",
		`projection p: OnFailure: action "explode": use retry, dead, skip or pause`,
		"max is 5m0s: use at least base, which is 1h0m0s",
		"OnFailureOf noted: it does not want events of this type",
		"factor is 0.5: use 1 … 100",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q: %v", want, err)
		}
	}
}
