package projector

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/pkg/deferred"
	"github.com/tidemark-go/tidemark/pkg/journal"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/failure"
)

func drawPolicy(t *rapid.T) Policy {
	base := time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(48*time.Hour)).Draw(t, "base"))
	p := Policy{
		Action: ActionRetry, Attempts: rapid.IntRange(1, 100).Draw(t, "attempts"), Base: base,
		Max:    base + time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "max")),
		Factor: rapid.Float64Range(1, 100).Draw(t, "factor"), Jitter: rapid.Float64Range(-1, 0.999).Draw(t, "jitter"),
	}
	if err := checkPolicy(p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAWaitIsTheLesserOfItsPowerAndTheMostGiveOrTakeTheJitter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, random := drawPolicy(t), rapid.Float64Range(0, 1).Draw(t, "random")
		waits := p.waits(random)
		if len(waits) == 0 || len(waits) > mostWaits {
			t.Fatalf("%d waits", len(waits))
		}
		jitter := max(p.Jitter, 0)
		for n, wait := range waits {
			ideal := min(float64(p.Base)*math.Pow(p.Factor, float64(n)), float64(p.Max))
			if low, high := ideal*(1-jitter)-2, ideal*(1+jitter)+2; float64(wait) < low || float64(wait) > high {
				t.Fatalf("wait %d is %v, want %v … %v", n+1, wait, time.Duration(low), time.Duration(high))
			}
			if n > 0 && wait < waits[n-1] {
				t.Fatalf("wait %d is %v, less than the one before, %v", n+1, wait, waits[n-1])
			}
		}
	})
}

func TestTheLastWaitGoesForAllFurtherFailures(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		waits := p.waits(0.5)
		if last := waits[len(waits)-1]; len(waits) < mostWaits && p.Factor > 1 && last != p.Max {
			t.Fatalf("the last of %d waits is %v, not the longest, %v", len(waits), last, p.Max)
		}
	})
}

func TestTheDefaultWaitsDoubleFromASecondToFiveMinutes(t *testing.T) {
	t.Parallel()
	var got []string
	for _, wait := range defaultPolicy.waits(0.5) {
		got = append(got, wait.String())
	}
	if want := "1s 2s 4s 8s 16s 32s 1m4s 2m8s 4m16s 5m0s"; strings.Join(got, " ") != want {
		t.Errorf("waits are %s, want %s", strings.Join(got, " "), want)
	}
	if low, high := defaultPolicy.waits(0)[9], defaultPolicy.waits(1)[9]; low != 270*time.Second || high != 330*time.Second {
		t.Errorf("the longest wait is %v … %v, want five minutes give or take a tenth", low, high)
	}
}

func TestSecondChancesDoubleFromAnHourToADay(t *testing.T) {
	t.Parallel()
	var got []string
	for _, wait := range completeChances(SecondChances{Count: 7}).waits() {
		got = append(got, wait.String())
	}
	if want := "1h0m0s 2h0m0s 4h0m0s 8h0m0s 16h0m0s 24h0m0s 24h0m0s"; strings.Join(got, " ") != want {
		t.Errorf("they come after %s, want %s", strings.Join(got, " "), want)
	}
	if n := len(completeChances(SecondChances{}).waits()); n != 0 {
		t.Errorf("there are %d by default", n)
	}
}

// specOnly is a projection that is never applied.
type specOnly struct {
	Projection
	spec Spec
}

func (s specOnly) Spec() Spec { return s.spec }

func TestAPolicyTakesWhatItLeavesOpenFromTheNextWiderOne(t *testing.T) {
	t.Parallel()
	catalogue, err := journal.NewCatalogue(journal.EventType{Name: "moved", Aliases: []string{"walked"}})
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{
		Name: "p", Version: 1, OnFailure: Policy{Base: 2 * time.Second, Attempts: 3},
		OnFailureOf: map[string]Policy{"moved": {Action: ActionSkip, Attempts: 4}},
	}
	list, _, err := index([]Projection{specOnly{spec: spec}}, catalogue, completePolicy(Policy{Max: time.Minute, Base: 9 * time.Second}, defaultPolicy), "public")
	if err != nil {
		t.Fatal(err)
	}
	wide := Policy{Action: ActionRetry, Attempts: 3, Base: 2 * time.Second, Max: time.Minute, Factor: 2, Jitter: 0.1}
	narrow := wide
	narrow.Action, narrow.Attempts = ActionSkip, 4
	for eventType, want := range map[string]Policy{"noted": wide, "moved": narrow, "walked": narrow} {
		if got := list[0].policy(eventType); got != want {
			t.Errorf("for %s it is %+v, want %+v", eventType, got, want)
		}
	}
}

func TestNewRefusesPoliciesThatCannotBe(t *testing.T) {
	t.Parallel()
	_, err := New(Config{
		OnFailure: Policy{Attempts: -1},
		Projections: []Projection{specOnly{spec: Spec{
			Name: "p", Version: 1, Types: []string{"moved"},
			OnFailure:     Policy{Action: "explode", Base: time.Hour, Jitter: 1},
			OnFailureOf:   map[string]Policy{"noted": {Factor: 0.5}},
			SecondChances: SecondChances{Count: 1001, Base: time.Hour, Max: time.Minute},
		}}},
	})
	for _, want := range []string{
		"OnFailure: attempts is -1: use 1 … 2147483647",
		`projection p: OnFailure: action "explode": use retry, dead, skip or pause`,
		"max is 5m0s: use at least base, which is 1h0m0s",
		"jitter is 1: use a part below 1",
		"OnFailureOf noted: it does not want events of this type",
		"factor is 0.5: use 1 … 100",
		"second chances: count is 1001: use 0 … 1000",
		"second chances: max is 1m0s: use at least base, which is 1h0m0s",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q: %v", want, err)
		}
	}
}

func TestOneThatEndsItsProcessGetsNoSecondChance(t *testing.T) {
	t.Parallel()
	p, chances := Policy{Action: ActionRetry, Attempts: 8}, completeChances(SecondChances{Count: 3})
	for code, want := range map[string]int{failure.CodeCrash: 0, "panic": 3} {
		s := schedule(p, deferred.Failure{Class: string(ClassPermanent), Code: code}, chances, 0.5)
		if !s.Dead || len(s.Chances) != want {
			t.Errorf("code %s: dead %t with %d chances, want %d", code, s.Dead, len(s.Chances), want)
		}
	}
}
