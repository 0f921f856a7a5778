package tidemarktest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/scheduled"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

const (
	// applyTimeout limits Apply. A test has no backlog for which it is short.
	applyTimeout = time.Minute
	// heldTimeout is how long Apply waits for transactions that hold events or due appends back.
	heldTimeout = 10 * time.Second
	heldEvery   = 10 * time.Millisecond
)

// Apply applies all events of the journal to the projections of cfg, and makes the appends that are due: reactions
// of processes, which it then applies too, and scheduled ones. It returns when nothing is left. Timers of a later
// time stay; journal.Reschedule moves them.
//
// Of cfg only Pool and Projections are required, and Catalogue if the program has one. The test fails if a
// projection cannot apply an event, an append is refused, or an open transaction holds one up for 10 s. To test how
// a projection fails, use a projector.
func Apply(t testing.TB, cfg projector.Config) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), applyTimeout)
	defer cancel()
	if err := apply(ctx, cfg); err != nil {
		t.Fatalf("apply projections: %v", err)
	}
}

func apply(ctx context.Context, cfg projector.Config) error {
	cfg.NoListen = true
	p, err := projector.New(cfg)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(heldTimeout)
	for {
		applied, err := p.Drain(ctx)
		if err != nil {
			return err
		}
		if err := failures(ctx, cfg); err != nil {
			return err
		}
		fired, err := scheduled.Fire(ctx, cfg.Pool, scheduled.Look{})
		if err != nil {
			return err
		}
		switch held, err := isHeld(ctx, cfg.Pool, fired); {
		case err != nil:
			return err
		case fired.Refused > 0:
			return refused(ctx, cfg.Pool)
		case fired.Appends > 0 || fired.More || applied > 0 && held:
			deadline = time.Now().Add(heldTimeout)
			continue
		case !held:
			return nil
		case time.Now().After(deadline):
			return errors.New("an open transaction holds events or due appends back: end it before Apply")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(heldEvery):
		}
	}
}

// isHeld reports whether open transactions hold back events that are committed, or appends that are due.
func isHeld(ctx context.Context, pool *pgxpool.Pool, fired scheduled.Fired) (held bool, err error) {
	if fired.Held > 0 || len(fired.Busy) > 0 {
		return true, nil
	}
	if err := pool.QueryRow(ctx, queryHeld).Scan(&held); err != nil {
		return false, fmt.Errorf("look what is left: %w", err)
	}
	return held, nil
}

// failures returns an error if a projection could not apply an event.
func failures(ctx context.Context, cfg projector.Config) error {
	entries, err := outbox.List(ctx, cfg.Pool, outbox.Filter{Status: outbox.Failed})
	if err != nil {
		return err
	}
	dead, err := outbox.List(ctx, cfg.Pool, outbox.Filter{Status: outbox.Dead})
	if err != nil {
		return err
	}
	across := map[string]bool{}
	for _, p := range cfg.Projections {
		spec := p.Spec()
		across[spec.Name] = spec.Across()
	}
	var errs []error
	for _, e := range append(entries, dead...) {
		place := fmt.Sprintf("event %d of campaign %q", e.Seq, e.CampaignID)
		if across[e.Projection] {
			place = fmt.Sprintf("the event at position %d, key %q", e.Seq, e.CampaignID)
		}
		errs = append(errs, fmt.Errorf("projection %s cannot apply %s (%s): %s", e.Projection, place, e.EventType, e.Error))
	}
	return errors.Join(errs...)
}

// refused returns the reasons why due appends were refused.
func refused(ctx context.Context, pool *pgxpool.Pool) error {
	appends, err := scheduled.List(ctx, pool, scheduled.Filter{Refused: true, Limit: 10})
	if err != nil {
		return err
	}
	var errs []error
	for _, a := range appends {
		errs = append(errs, fmt.Errorf("an append to campaign %q that was due is refused: %s", a.CampaignID, a.Error))
	}
	return errors.Join(errs...)
}
