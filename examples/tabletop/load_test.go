package tabletop_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/examples/tabletop"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestLoadAppendsWhatTheGeneratorDecidesInOrder(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	load := runLoad(t, pool, 9, 0, 500)

	tables := map[string]*referee{}
	var events int64
	for e, err := range journal.ReadAll(t.Context(), pool, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if tables[e.CampaignID] == nil {
			tables[e.CampaignID] = newReferee()
		}
		if err := tables[e.CampaignID].judge(e); err != nil {
			t.Fatalf("campaign %s, event %d (%s): %v", e.CampaignID, e.Seq, e.Type, err)
		}
		if want := intentOf(e.Type); e.Intent != want {
			t.Fatalf("a %s has the intent %s, wanted %s", e.Type, e.Intent, want)
		}
		events++
	}
	for campaign, table := range tables {
		if err := table.endOfDecision(); err != nil {
			t.Errorf("campaign %s ends in the middle of a decision: %v", campaign, err)
		}
	}
	if events != load.Appended() {
		t.Errorf("the load says it appended %d events, the journal holds %d", load.Appended(), events)
	}
}

func TestLoadThatRanBeforeAppendsNothingTheSecondTime(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	first := runLoad(t, pool, 9, 0, 300)
	second := runLoad(t, pool, 9, 0, 1) // repeats the existing events until it reaches a new one

	var events int64
	ids := map[uuid.UUID]bool{}
	for e, err := range journal.ReadAll(t.Context(), pool, 0) {
		if err != nil {
			t.Fatal(err)
		}
		events++
		ids[e.ID] = true
	}
	if events != first.Appended()+second.Appended() || int64(len(ids)) != events {
		t.Errorf("the first run appended %d events, the second %d more; the journal holds %d, with %d ids",
			first.Appended(), second.Appended(), events, len(ids))
	}
}

func TestLoadKeepsToItsRate(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	load := runLoad(t, pgtest.New(t), 9, 400, 200)
	if spent := time.Since(begun).Seconds(); float64(load.Appended()) > 400*spent+30 {
		t.Errorf("%d events in %.2f s, at 400 a second", load.Appended(), spent)
	}
}

// runLoad runs a load of 50 tables until it has appended the given number of events.
func runLoad(t *testing.T, pool *pgxpool.Pool, seed uint64, rate float64, events int64) *tabletop.Load {
	t.Helper()
	load, err := tabletop.NewLoad(tabletop.LoadConfig{
		Pool: pool, Rate: rate, Generator: tabletop.NewGenerator(tabletop.GeneratorConfig{Seed: seed, Campaigns: 50}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- load.Run(ctx) }()
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	for load.Appended() < events && ctx.Err() == nil {
		<-ticks.C
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if load.Appended() < events {
		t.Fatalf("after three minutes %d events are appended, wanted %d", load.Appended(), events)
	}
	return load
}

func intentOf(eventType string) event.Intent {
	switch eventType {
	case tabletop.DiceRolledType:
		return event.ReplayOnly
	case tabletop.NoteAddedType:
		return event.AuditOnly
	}
	return event.ProjectionAndReplay
}
