// Package waiter waits until projections have applied events.
//
// One [Waiter] asks for all waits of a process, in one statement on one connection. Workers notify it
// at the end of a group, and only while a program waits (docs/adr/0013). The package writes nothing but
// the sequence tidemark.awaited, through tidemark.await.
//
// Stability: as of version 1, no function changes its meaning.
package waiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/notified"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Waiter waits for projections. All waits share one connection.
//
// There is no function that takes a pool instead: what the waits of a pool share would have to be a
// variable of the package, and nobody could end it.
type Waiter struct {
	loop notified.Loop

	mu     sync.Mutex
	calls  map[*call]struct{}
	ended  bool
	within time.Duration // until the next look, if no notification comes
	looked time.Time     // when workers were last asked to notify
	soon   bool          // a look is about to begin

	history string // of the journal, as of the last look
}

const (
	soonest = 20 * time.Millisecond // the first look without a notification, for commits just before a wait
	latest  = time.Second           // the longest time between looks

	// patience is how long a wait lets the notification of its event come first, while workers notify. A
	// look at once would delay the worker's commit, on a machine with few cores by a fifth.
	patience = 2 * time.Millisecond
	notify   = 3 * latest // workers notify for so long after a look
)

// ErrStopped is returned by [Waiter.Wait] once [Waiter.Run] has ended.
var ErrStopped = errors.New("the waiter has stopped")

// event is what a projection is asked for.
type event struct {
	journal.Token
	projection string
}

// call is one [Waiter.Wait].
type call struct {
	left    []event
	history string // of the journal, as of the first look; "": it is still to come
	done    chan struct{}
	err     error
}

// New returns a waiter for the database of the pool, of which it uses the settings and no connection.
// A nil logger discards.
func New(pool *pgxpool.Pool, logger *slog.Logger) *Waiter {
	logger = cmp.Or(logger, slog.New(slog.DiscardHandler))
	w := &Waiter{calls: map[*call]struct{}{}}
	w.loop = notified.Loop{Pool: pool, Logger: redact.Logger(logger), Channel: lease.ChannelApplied, Step: w.step}
	return w
}

// Run answers waits until ctx ends. Waits that are still open then return [ErrStopped].
func (w *Waiter) Run(ctx context.Context) error {
	w.loop.Run(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for c := range w.calls {
		w.answer(c, ErrStopped)
	}
	return nil
}

// Wait returns once the projections have applied the token's event, so that their rows show it, or
// when ctx ends. Commit the append first. While [Waiter.Run] does not run, it waits.
//
// Errors: [journal.ErrInvalidToken], a [*NotAppliedError] as soon as one of the projections will not
// apply the event without help, [ErrStopped], and one that wraps the error of ctx and names what is
// missing.
func (w *Waiter) Wait(ctx context.Context, token string, projections ...string) error {
	t, err := journal.ParseToken(token)
	switch {
	case err != nil:
		return err
	case len(projections) == 0:
		return errors.New("wait for projections: none is named")
	}
	c := &call{done: make(chan struct{})}
	for _, p := range projections {
		c.left = append(c.left, event{t, p})
	}
	if !w.enter(c) {
		return ErrStopped
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, open := w.calls[c]; !open {
		return c.err
	}
	delete(w.calls, c)
	return fmt.Errorf("projection %s has not applied event %d of campaign %q: %w", c.left[0].projection, t.Seq,
		t.CampaignID, ctx.Err())
}

func (w *Waiter) enter(c *call) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return false
	}
	w.calls[c] = struct{}{}
	w.within = soonest
	switch {
	case time.Since(w.looked) > latest:
		w.loop.Poke() // perhaps no worker notifies
	case !w.soon:
		w.soon = true
		time.AfterFunc(patience, w.loop.Poke)
	}
	return true
}

// step looks once for all calls.
func (w *Waiter) step(ctx context.Context, conn *pgx.Conn, _ string) (time.Duration, error) {
	w.mu.Lock()
	w.soon = false
	asked := map[event]int{}
	var events []event
	for c := range w.calls {
		for _, e := range c.left {
			if _, there := asked[e]; !there {
				asked[e] = len(events)
				events = append(events, e)
			}
		}
	}
	before := w.history
	w.mu.Unlock()
	if len(events) == 0 {
		return 0, nil
	}
	places, now, err := look(ctx, conn, events, before)
	if err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked, w.history = time.Now(), now.history
	for c := range w.calls {
		var refused error
		lost := c.history != "" && c.history != now.history
		c.left = slices.DeleteFunc(c.left, func(e event) bool {
			i, there := asked[e]
			if !there {
				return false
			}
			p := places[i]
			if lost && e.Position > now.shared || p.ID != nil && *p.ID != e.EventID {
				p.State = Replaced
			}
			if refused == nil {
				refused = p.refusal(e)
			}
			return p.State == applied
		})
		if refused != nil || len(c.left) == 0 {
			w.answer(c, refused)
		} else if _, there := asked[c.left[0]]; there {
			c.history = now.history
		}
	}
	within := w.within
	w.within = min(2*within, latest)
	return within, nil
}

// answer ends a call. The caller has locked the waiter.
func (w *Waiter) answer(c *call, err error) {
	delete(w.calls, c)
	c.err = err
	close(c.done)
}
