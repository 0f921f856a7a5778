package publisher

import (
	"errors"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// An error met while a campaign drains counts against the event only if the event caused it.
func TestACampaignThatIsBroughtBackMeetsAnOutage(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	for name, test := range map[string]struct {
		says, health error
		blamed, down bool
	}{
		"an outage, at a sink that answers": {Outage(down), nil, false, true},
		"a wish to be left alone":           {RetryAfter(down, 1), nil, false, true},
		"a failure of a sink that is well":  {down, nil, true, false},
		"a failure of a sink that is down":  {down, down, false, true},
		"a refusal for good, whatever it says": {
			&BatchError{Failures: []Failure{{Err: down, Permanent: true}}}, down, true,
			false,
		},
		"a refusal for now, at one that is out": {&BatchError{Failures: []Failure{{Err: down}}}, down, false, true},
	} {
		r, key := alone(t, checked{sinkFunc(func([]Event) error { return test.says }), test.health})
		p := claimed(r, key, 0)
		s := &sender{to: &p.to, trusted: func() bool { return true }}
		c := &returning{ctx: t.Context()}
		if r.drainer.sendRest(t.Context(), s, c, []Event{{Event: event.Event{CampaignID: "a", Seq: 4, Position: 9}}}) ||
			c.blamed != test.blamed || c.down != test.down {
			t.Errorf("%s: the event is blamed: %t, want %t; the sink counts as down: %t, want %t", name, c.blamed, test.blamed,
				c.down, test.down)
		}
	}
}
