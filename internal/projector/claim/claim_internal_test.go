package claim

import (
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/lease"
)

func TestTheWayToClaimFollowsFromThePast(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	found := make([]lease.Lease, 1)
	for name, test := range map[string]struct {
		past            past
		woken, draining bool
		want            way
	}{
		"at first":                        {past{}, false, false, around},
		"woken":                           {past{}, true, false, ahead},
		"dead rows, and work":             {past{around: now, dead: freeDead + 1}, true, false, recent},
		"dead rows, idle of late":         {past{around: now, dead: freeDead + 1, idle: now.Add(-aroundIdle / 2)}, false, false, recent},
		"dead rows, idle for long":        {past{around: now, dead: freeDead + 1, idle: now.Add(-aroundIdle)}, true, false, ahead},
		"idle, but it took long":          {past{around: now.Add(1), dead: freeDead + 1, idle: now.Add(-aroundIdle)}, true, false, recent},
		"few dead rows, but it took long": {past{around: now.Add(1)}, false, false, recent},
		"few dead rows, time to look":     {past{around: now}, false, false, around},
		"draining":                        {past{around: now.Add(1), dead: freeDead + 1}, false, true, around},
	} {
		if got, reason := test.past.choose(test.woken, test.draining, now); got != test.want || reason == "" {
			t.Errorf("%s: claims %q because %q, want %q", name, got, reason, test.want)
		}
	}

	var p past
	p.note(around, lease.Claimed{Dead: freeDead + freeDeadEach, Leases: found, Cursor: "k"}, now, now.Add(time.Second))
	if !p.around.IsZero() || p.cursor != "k" {
		t.Errorf("few dead rows for what was found: %+v", p)
	}
	p.note(around, lease.Claimed{Dead: freeDead + freeDeadEach + 1, Leases: found}, now, now.Add(time.Second))
	if want := now.Add(time.Second + aroundShare*time.Second); p.around != want || p.dead == 0 {
		t.Errorf("the next claim around is at %s, want %s", p.around, want)
	}
	p.note(recent, lease.Claimed{Dead: 7}, now, now)
	if p.dead != 7 || p.idle != now {
		t.Errorf("after a claim from recent events that found nothing: %+v", p)
	}
	p.note(recent, lease.Claimed{Leases: found}, now, now)
	if !p.idle.IsZero() {
		t.Errorf("idle although it has found work: %+v", p)
	}
}

func TestTurnsOfOtherCampaignsAreRare(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	var p past
	for i, test := range []struct {
		after time.Duration
		want  int
	}{{0, turnSize}, {turnEvery - 1, 0}, {turnEvery, turnSize}, {turnEvery + 1, 0}} {
		if p.takeTurn(now.Add(test.after)); p.recent.Turn != test.want {
			t.Errorf("claim %d looks at %d others, want %d", i, p.recent.Turn, test.want)
		}
	}
}

func TestAppendsAreAskedToNotifyBeforeAWait(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		rhythm rhythm
		woken  bool
		want   bool
	}{
		"at first":                        {rhythm{calm: true}, false, true},
		"there is more to claim":          {rhythm{}, false, false},
		"the last request still holds":    {rhythm{calm: true, quiet: now}, false, false},
		"asked a moment ago":              {rhythm{calm: true, announced: now.Add(-announceEvery)}, false, false},
		"woken, the request still holds":  {rhythm{calm: true, named: now.Add(-awakeAfter / 3)}, true, false},
		"woken, the request ends soon":    {rhythm{calm: true, named: now.Add(-awakeAfter / 2)}, true, true},
		"not woken, the request is named": {rhythm{calm: true, named: now}, false, true},
	} {
		test.rhythm.poll = time.Second
		if got := test.rhythm.ask(test.woken, now); (got > 0) != test.want || test.want && (got != 2*time.Second ||
			test.rhythm.quiet != now.Add(time.Second) || test.rhythm.announced != now) {
			t.Errorf("%s: asks for %s, %+v", name, got, test.rhythm)
		}
	}
}

func TestAClaimFollowsAtOnceWhileThereIsMore(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		rhythm       rhythm
		n            int
		ahead, again bool
		want         bool
		idle         int
	}{
		"nothing":                        {rhythm{calm: true, idle: 4}, 0, false, false, false, 4},
		"nothing, appends will notify":   {rhythm{calm: true, quiet: now.Add(1)}, 0, false, false, false, announcedIdle},
		"one was in the way":             {rhythm{calm: true, idle: 4}, 0, false, true, true, 0},
		"some, and not all around":       {rhythm{idle: 4}, 1, true, false, true, 0},
		"some, all around":               {rhythm{calm: true, quiet: now.Add(1), idle: 4}, 1, false, false, false, busyIdle},
		"some, and appends not asked":    {rhythm{calm: true, idle: 4}, 1, false, false, true, 0},
		"all that woke it, read at once": {rhythm{calm: true, idle: 4}, 1, true, false, false, busyIdle},
	} {
		if got := test.rhythm.goesOn(test.n, test.ahead, test.again, now); got != test.want || test.rhythm.idle != test.idle {
			t.Errorf("%s: goes on: %v, waits from %d; want %v, %d", name, got, test.rhythm.idle, test.want, test.idle)
		}
	}
}
