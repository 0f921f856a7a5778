package tabletop

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// LoadConfig configures a [Load].
type LoadConfig struct {
	Pool      *pgxpool.Pool
	Generator *Generator
	Rate      float64 // events a second; zero: no limit
	Lanes     int     // concurrent appends; zero: 4
}

// Load appends the decisions of a [Generator], each in a transaction of its own. Several run at the
// same time, but the decisions of one campaign run in order. Event ids repeat with the seed, so a
// load that ran before appends nothing the second time.
type Load struct {
	config   LoadConfig
	journal  journal.Journal
	appended atomic.Int64
}

const (
	laneDecisions = 64               // decisions made ahead of the appends, for each lane
	finishWithin  = 20 * time.Second // time for outstanding decisions when the load ends
)

// NewLoad returns a load that has not started.
func NewLoad(config LoadConfig) (*Load, error) {
	if config.Pool == nil || config.Generator == nil {
		return nil, errors.New("tabletop load: it needs a pool and a generator")
	}
	if config.Rate < 0 || config.Lanes < 0 {
		return nil, fmt.Errorf("tabletop load: rate %g and lanes %d must not be negative", config.Rate, config.Lanes)
	}
	if config.Lanes == 0 {
		config.Lanes = 4
	}
	catalogue, err := Catalogue()
	if err != nil {
		return nil, err
	}
	return &Load{config: config, journal: journal.Journal{Catalogue: catalogue}}, nil
}

// Appended returns how many events have been committed so far. It is safe to call while Run runs.
func (l *Load) Appended() int64 { return l.appended.Load() }

// Run appends until ctx is cancelled, finishes the outstanding decisions and returns nil. It
// returns the first error.
func (l *Load) Run(ctx context.Context) error {
	finishing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()

	group, appending := errgroup.WithContext(finishing)
	lanes := make([]chan Decision, l.config.Lanes)
	for i := range lanes {
		lane := make(chan Decision, laneDecisions)
		lanes[i] = lane
		group.Go(func() error {
			for decision := range lane {
				if err := l.append(appending, decision); err != nil {
					return fmt.Errorf("append to campaign %s: %w", decision.CampaignID, err)
				}
			}
			return nil
		})
	}
	l.decide(ctx, appending, lanes)
	defer time.AfterFunc(finishWithin, cancel).Stop()
	return group.Wait()
}

// decide fills the lanes at the configured rate until ctx is cancelled or a lane has failed, then
// closes them.
func (l *Load) decide(ctx, appending context.Context, lanes []chan Decision) {
	defer func() {
		for _, lane := range lanes {
			close(lane)
		}
	}()
	seed := maphash.MakeSeed()
	begun, decided := time.Now(), 0
	for ctx.Err() == nil {
		decision := l.config.Generator.Next()
		select {
		case lanes[maphash.String(seed, decision.CampaignID)%uint64(len(lanes))] <- decision:
		case <-ctx.Done():
			return
		case <-appending.Done():
			return
		}
		decided += len(decision.Events)
		if l.config.Rate > 0 {
			due := begun.Add(time.Duration(float64(decided) / l.config.Rate * float64(time.Second)))
			pause(ctx, time.Until(due))
		}
	}
}

func (l *Load) append(ctx context.Context, d Decision) error {
	var appended []journal.Appended
	err := pgx.BeginFunc(ctx, l.config.Pool, func(tx pgx.Tx) (err error) {
		appended, err = l.journal.Append(ctx, tx, d.CampaignID, d.Expect, d.Events...)
		return err
	})
	if err != nil {
		return err
	}
	for _, event := range appended {
		if !event.Duplicate {
			l.appended.Add(1)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
