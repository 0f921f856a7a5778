package applies

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// poisonedAt is the event at which the fragile projection fails in a poisoned campaign: there is
// something before it, and much behind it.
const poisonedAt = 10

const (
	createWounds = `
		CREATE TABLE wounds (
			campaign_id  text COLLATE "C" NOT NULL,
			character_id text COLLATE "C" NOT NULL,
			damage       bigint NOT NULL,
			events       bigint NOT NULL,
			PRIMARY KEY (campaign_id, character_id)
		)`

	upsertWound = `
		INSERT INTO wounds (campaign_id, character_id, damage, events)
		VALUES ($1, $2, $3, 1)
		ON CONFLICT (campaign_id, character_id) DO UPDATE
		SET damage = wounds.damage + EXCLUDED.damage, events = wounds.events + 1`

	countWounds = `SELECT coalesce(sum(events), 0)::bigint FROM wounds`
	countStuck  = `SELECT count(*) FROM tidemark.deferred WHERE status IN ('dead', 'failed')`
	countEvents = `SELECT max(seq) FROM tidemark.journal WHERE campaign_id = (SELECT min(campaign_id)
		FROM tidemark.journal)`

	// spreadRetries lets as many retries fall due at each moment as there will be once they have gone on for long.
	spreadRetries = `UPDATE tidemark.deferred SET next_attempt_at = now() + random() * make_interval(secs => $1)
		WHERE status = 'failed'`
)

// poison is how many of a hundred campaigns hold an event that one of the two projections cannot apply, ever.
type poison struct {
	percent  int
	workload harness.Workload
	grouping Grouping
	retried  time.Duration // the wait between two attempts, of which there is no end; 0: the pairs are dead at once
	calm     bool          // in poisoned campaigns the projection has nothing to do from that event on, in place of failing
}

// poisoned spreads them evenly: no group has many more than the next.
func (p poison) poisoned(campaign int) bool { return campaign*37%100 < p.percent }

// campaigns is how many campaigns are poisoned.
func (p poison) campaigns() int {
	n := 0
	for i := range p.workload.Campaigns {
		if p.poisoned(i) {
			n++
		}
	}
	return n
}

// fragile is the same UPSERT as the healthy projection's, in a table of its own. In a poisoned
// campaign the database refuses one event.
func (p poison) fragile() projector.Projection {
	spec := projector.Spec{Name: "wounds", Version: 1, Tables: createWounds}
	if p.retried > 0 {
		spec.Classify = func(error) projector.Class { return projector.ClassTransient }
		spec.OnFailure = projector.Policy{Attempts: math.MaxInt32, Base: p.retried, Max: p.retried}
	}
	h := projector.NewHandlers(spec)
	projector.On(h, harness.EventType, func(
		_ context.Context, g *projector.Group, e journal.Event, d harness.DamageTaken,
	) error {
		campaign, err := strconv.Atoi(e.CampaignID[len(e.CampaignID)-7:])
		if err != nil {
			return fmt.Errorf("read the number of campaign %s: %w", e.CampaignID, err)
		}
		if e.Seq >= poisonedAt && p.poisoned(campaign) {
			if p.calm {
				return nil
			}
			if e.Seq == poisonedAt {
				g.Queue(upsertWound, e.CampaignID, nil, d.Damage)
				return nil
			}
		}
		g.Queue(upsertWound, e.CampaignID, d.CharacterID, d.Damage)
		return nil
	})
	return h
}

// Run lets a worker empty the queue and answers how many events of the healthy part it applied in a
// second: those of the healthy projection, and the fragile one's in campaigns that are not
// poisoned.
func (p poison) run(ctx context.Context, db *harness.Database) (float64, error) {
	took, err := p.drain(ctx, db)
	if err != nil {
		return 0, err
	}
	return float64(p.healthy()) / took.Seconds(), nil
}

// healthy is how many events the healthy part has.
func (p poison) healthy() int { return 2*p.workload.Total() - p.campaigns()*p.workload.Events }

// drain lets a worker empty the queue, and answers how long it took.
func (p poison) drain(ctx context.Context, db *harness.Database) (time.Duration, error) {
	pool, err := db.Pool(ctx, p.grouping.Connections+2)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	healthy, err := harness.GoHandler().Make()
	if err != nil {
		return 0, err
	}
	worker, err := projector.New(projector.Config{
		Pool: pool, ConsumerGroup: harness.ConsumerGroup, Projections: []projector.Projection{healthy, p.fragile()},
		Concurrency: p.grouping.Connections, ClaimCampaigns: p.grouping.Campaigns, GroupEvents: p.grouping.Events,
	})
	if err != nil {
		return 0, err
	}
	if err := worker.Register(ctx); err != nil {
		return 0, err
	}
	if _, err := pool.Exec(ctx, spreadRetries, p.retried.Seconds()); err != nil {
		return 0, fmt.Errorf("spread the retries: %w", err)
	}

	start := time.Now()
	if _, err := worker.Drain(ctx); err != nil {
		return 0, fmt.Errorf("drain: %w", err)
	}
	took := time.Since(start)

	all, poisoned := p.workload.Campaigns, p.campaigns()
	stuck := poisoned
	if p.calm {
		stuck = 0
	}
	var events int
	if err := pool.QueryRow(ctx, countEvents).Scan(&events); err != nil {
		return 0, fmt.Errorf("count the events of a campaign: %w", err)
	}
	for _, c := range []struct {
		query string
		want  int
	}{
		{harness.CountOutbox, 0},
		{harness.CountCharacters, all * events},
		{countWounds, (all-poisoned)*events + poisoned*(poisonedAt-1)},
		{countStuck, stuck},
	} {
		if err := harness.ExpectCount(ctx, pool, c.query, c.want); err != nil {
			return 0, err
		}
	}
	return took, nil
}

// MeasureIsolation compares a projection that fails in some campaigns with one that has nothing to do there, so that
// both sides read, apply and complete the same events.
func MeasureIsolation(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	w, g := harness.Workload{Campaigns: b.Scaled(3000), Events: 100}, denseGroups()
	template, err := b.Filled(ctx, w)
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))

	percents := []int{1, 20}
	var sides []harness.Side
	for _, percent := range percents {
		p := poison{percent: percent, workload: w, grouping: g}
		sides = append(sides, b.On(template, fmt.Sprintf("a projection fails in %d %% of campaigns", percent), p.run))
		p.calm = true
		sides = append(sides, b.On(template, fmt.Sprintf("it has nothing to do in %d %% of campaigns", percent), p.run))
	}
	samples, err := b.Interleave(ctx, "events/s", sides...)
	if err != nil {
		return nil, err
	}
	var figures []harness.Figure
	for i, percent := range percents {
		failing, calm := samples[2*i], samples[2*i+1]
		figures = append(figures, harness.AtLeast(0.9, harness.Figure{
			Name: fmt.Sprintf("isolation_%dpct", percent), Value: failing.Median(), Unit: "events/s", Ratio: failing.Over(calm),
			To: fmt.Sprintf("nothing to do where it fails, %d × %d events, two projections", w.Campaigns, w.Events),
		}))
	}
	return figures, nil
}

const (
	// steadyWait is how long a pair that has failed again waits: as long as after the fourth failure
	// by default, so that there are many retries.
	steadyWait = 10 * time.Second

	// steadyBefore is how many events each campaign has from when its pair failed.
	steadyBefore = 20
)

// MeasureSteady is about failures that are known: the pairs have failed long ago, and again and
// again, while new events come in for all campaigns.
func MeasureSteady(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	w, percents := harness.Workload{Campaigns: b.Scaled(3000), Events: 100}, []int{0, 20}
	sides := make([]harness.Side, len(percents))
	for i, percent := range percents {
		p := poison{percent: percent, workload: w, grouping: denseGroups(), retried: steadyWait}
		template, err := p.failed(ctx, b)
		if err != nil {
			return nil, err
		}
		defer template.Drop(context.WithoutCancel(ctx))
		sides[i] = b.On(template, fmt.Sprintf("%d %% of campaigns have failed", percent), p.run)
	}
	samples, err := b.Interleave(ctx, "events/s", sides...)
	if err != nil {
		return nil, err
	}
	return []harness.Figure{harness.AtLeast(0.9, harness.Figure{
		Name: fmt.Sprintf("isolation_steady_%dpct", percents[1]), Value: samples[1].Median(), Unit: "events/s",
		Ratio: samples[1].Over(samples[0]),
		To:    fmt.Sprintf("no campaign poisoned, %d × %d events, two projections", w.Campaigns, w.Events),
	})}, nil
}

// failed makes a database in which the poisoned campaigns have failed and new events wait.
func (p poison) failed(ctx context.Context, b *harness.Bench) (*harness.Database, error) {
	db, err := b.Filled(ctx, harness.Workload{Campaigns: p.workload.Campaigns, Events: steadyBefore})
	if err != nil {
		return nil, err
	}
	if _, err := p.drain(ctx, db); err != nil {
		return nil, err
	}
	pool, err := db.Pool(ctx, harness.FillConnections)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if err := p.workload.Fill(ctx, pool); err != nil {
		return nil, err
	}
	pool.Close()
	return db, db.Settle(ctx)
}
