package pages

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

func TestTheLagTileIsThatOfWhatIsFurthestBehind(t *testing.T) {
	t.Parallel()
	pair := func(state string, lag time.Duration) publications.Publication {
		return publications.Publication{
			Key: publications.Key{Topic: "t", Publisher: "p"}, Status: state, Behind: 3, Lag: lag,
			Errors: 1,
		}
	}
	for name, tt := range map[string]struct {
		publishers []publications.Publication
		lags       []status.Lag
		tone       string
	}{
		"nothing behind":                {nil, nil, "ok"},
		"a publisher a little behind":   {[]publications.Publication{pair("ACTIVE", time.Second)}, nil, "ok"},
		"a publisher 21 s behind":       {[]publications.Publication{pair("ACTIVE", 21*time.Second)}, nil, "warn"},
		"a publisher 21 minutes behind": {[]publications.Publication{pair("ACTIVE", 21*time.Minute)}, nil, "bad"},
		"one that has failed":           {[]publications.Publication{pair("FAILED", 21*time.Minute)}, nil, "bad"},
		"one that is paused":            {[]publications.Publication{pair("PAUSED", 21*time.Minute)}, nil, "ok"},
		"a projection": {nil, []status.Lag{{Behind: outbox.Behind{
			Projection: "p", Events: 48_344,
			Age: time.Hour,
		}}}, "bad"},
		"tables that were replaced": {nil, []status.Lag{{Behind: outbox.Behind{
			Projection: "p~previous", Events: 5,
			Age: time.Hour,
		}}}, "ok"},
	} {
		page := &overviewPage{Status: &status.Status{Publishers: tt.publishers, Lag: tt.lags}}
		if tile := tiles(page)[0]; tile.Tone != tt.tone {
			t.Errorf("%s: the tile is %q (%s, %s), want %q", name, tile.Tone, tile.Value, tile.Note, tt.tone)
		}
	}
}

func TestAnActThatTookTooLongMayBeDoneInPart(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("erase: %w", context.DeadlineExceeded)
	if got := (&Pages{}).explain(t.Context(), err); !strings.Contains(got, "a part may be done") {
		t.Errorf("a person reads %q", got)
	}
}

func TestTimeToEmptyIsTold(t *testing.T) {
	t.Parallel()
	behind := func(events int64, d *status.Drain) status.Lag {
		return status.Lag{Behind: outbox.Behind{Group: "default", Events: events}, Drain: d}
	}
	soon, late := 90*time.Second, 2*time.Hour
	for want, lags := range map[string][]status.Lag{
		"empty":         {behind(0, nil)},
		"not known yet": {behind(5, nil)},
		"not draining":  {behind(5, &status.Drain{Empty: &soon}), behind(5, &status.Drain{})},
		"2 h":           {behind(5, &status.Drain{Empty: &late}), behind(5, &status.Drain{Empty: &soon})},
	} {
		if got := slowest(lags); got != want {
			t.Errorf("%+v is empty in %q, want %q", lags, got, want)
		}
	}
}

func TestTheOverviewSumsTheQueueUp(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 13, 45, 0, 0, time.UTC)
	worker := func(applied int64) []status.Worker {
		return []status.Worker{{Worker: lease.Worker{EventsApplied: applied}}}
	}
	s := &status.Status{
		At: at, Queue: []outbox.GroupReport{{Pending: 4, Processing: 2, Dead: 1}}, Workers: worker(250),
		Lag: []status.Lag{
			{Behind: outbox.Behind{Group: "default", Events: 6, Age: time.Minute}},
			{Behind: outbox.Behind{Group: "default", Projection: "heroes", Events: 60}},
		},
	}
	before := &status.Status{At: at.Add(-10 * time.Second), Workers: worker(200)}
	figures := tiles(&overviewPage{Status: s, Empty: slowest(s.Lag), Speed: speed(before, s)})
	for i, want := range []string{
		"1 min: 6 events behind", "not known yet: 6 events wait", "none: nothing waits for a worker",
		"1: campaigns that wait for an operator", "0: alive, 5 events a second",
	} {
		if got := figures[i].Value + ": " + figures[i].Note; got != want {
			t.Errorf("%s is %q, want %q", figures[i].Label, got, want)
		}
	}
	if got := speed(nil, s); got != "" {
		t.Errorf("without an earlier look workers are %q", got)
	}
}
