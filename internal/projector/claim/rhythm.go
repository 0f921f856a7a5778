package claim

import (
	"math/rand/v2"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
)

const (
	// announceEvery is the shortest time between requests for notifications, and so between notifications.
	announceEvery = 4 * time.Millisecond

	// announcedIdle is where waits start if a notification would end them: 8 ms. busyIdle is where
	// they start after a claim that found work: 2 ms, for events appended during the request.
	announcedIdle = 3
	busyIdle      = 1
)

// rhythm is when to claim again, and when to ask appends to notify.
type rhythm struct {
	poll  time.Duration // the longest wait
	idle  int           // claims in a row without work, about: see wait
	calm  bool          // the last claim came all around
	woken bool          // a notification has ended the last wait

	announced time.Time // when appends were last asked to notify
	quiet     time.Time // when to ask them again
	named     time.Time // when a notification first named the last request
}

// takeWoken reports whether a notification has ended the last wait, once.
func (r *rhythm) takeWoken() (woken bool) {
	woken, r.woken = r.woken, false
	return woken
}

// ask returns for how long the next claim asks appends to notify, or 0. A claim first asks appends to notify and
// then looks, so appends that it misses notify. A worker just woken does not ask: its last request is valid until
// awakeAfter is over.
func (r *rhythm) ask(woken bool, now time.Time) time.Duration {
	stands := woken && now.Sub(r.named) < awakeAfter/2
	if !r.calm || stands || !now.After(r.quiet) || now.Sub(r.announced) <= announceEvery {
		return 0
	}
	r.announced, r.quiet = now, now.Add(r.poll)
	return 2 * r.poll
}

// failed notes a claim that has failed, perhaps before it has asked.
func (r *rhythm) failed() { r.quiet = time.Time{} }

// goesOn reports whether to claim again at once after a claim that has found n campaigns. Otherwise it sets where
// the wait begins. again: a campaign that was in the way is free now.
func (r *rhythm) goesOn(n int, ahead, again bool, now time.Time) bool {
	switch {
	case again, n > 0 && (!r.calm || !ahead && now.After(r.quiet)):
		r.idle = 0
		return true
	case n > 0:
		r.idle = busyIdle
	case now.Before(r.quiet):
		r.idle = max(r.idle, announcedIdle)
	}
	return false
}

// wait returns how long to wait: milliseconds at first, then longer each time, up to the poll interval.
func (r *rhythm) wait() time.Duration {
	wait := min(time.Millisecond<<min(r.idle, 20), r.poll)
	return time.Duration(float64(wait) * (0.75 + rand.Float64()/2))
}

// awoke notes what has ended a wait.
func (r *rhythm) awoke(by registry.Awoken, now time.Time) {
	switch by {
	case registry.Notified:
		r.woken, r.idle, r.quiet = true, 0, time.Time{} // the listener ends the wait
		if !r.named.After(r.announced) {
			r.named = now
		}
	case registry.Elapsed:
		r.idle++
	case registry.Finished:
	}
}
