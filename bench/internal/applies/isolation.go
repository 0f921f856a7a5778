package applies

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// poisonedAt is the event at which the fragile projection fails in a poisoned campaign. Some events
// come before it, and many after it.
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
	countStuck  = `SELECT count(*) FROM tidemark.failed WHERE status IN ('dead', 'failed')`
	countEvents = `SELECT max(seq) FROM tidemark.journal WHERE campaign_id = (SELECT min(campaign_id)
		FROM tidemark.journal)`

	// spreadRetries spreads retries over time, as they are after a long run.
	spreadRetries = `UPDATE tidemark.failed SET next_attempt_at = now() + random() * make_interval(secs => $1)
		WHERE status = 'failed'`
)

// poison configures how many percent of the campaigns hold an event that one of two projections can
// never apply.
type poison struct {
	percent  int
	workload harness.Workload
	grouping Grouping
	retried  time.Duration // delay between attempts, which never end; 0: campaigns are dead at once
	calm     bool          // in poisoned campaigns the projection ignores events from there on instead of failing
}

// poisoned reports whether a campaign is poisoned. It spreads them evenly over the groups.
func (p poison) poisoned(campaign int) bool { return campaign*37%100 < p.percent }

// campaigns returns the number of poisoned campaigns.
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
func (p poison) fragile() projection.Projection {
	h := &projection.Handlers{Name: "wounds", Version: 1, Tables: createWounds}
	if p.retried > 0 {
		h.Classify = func(error) projection.Class { return projection.ClassTransient }
		h.OnFailure = projection.Policy{Attempts: math.MaxInt32, Base: p.retried, Max: p.retried}
	}
	h.On = append(h.On, projection.Handle(harness.EventType, func(
		_ context.Context, g *projection.Group, e event.Event, d harness.DamageTaken,
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
	}))
	return h
}

// run lets a worker empty the queue and returns how many healthy events it applied in a second: all
// events of the healthy projection, and those of the fragile one in campaigns that are not
// poisoned.
func (p poison) run(ctx context.Context, db *harness.Database) (float64, error) {
	took, err := p.drain(ctx, db)
	if err != nil {
		return 0, err
	}
	return float64(p.healthy()) / took.Seconds(), nil
}

// healthy returns the number of healthy events.
func (p poison) healthy() int { return 2*p.workload.Total() - p.campaigns()*p.workload.Events }

// drain lets a worker empty the queue and returns how long it took.
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
		Pool: pool, ConsumerGroup: harness.ConsumerGroup, Projections: []projection.Projection{healthy, p.fragile()},
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

// MeasureIsolation compares a projection that fails in some campaigns with one that ignores the
// same events. So both sides read, apply and complete the same number of events.
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
	// steadyWait is the delay between attempts: the default after the fourth failure, so that there
	// are many retries.
	steadyWait = 10 * time.Second

	// steadyBefore is the number of events of each campaign before its failure.
	steadyBefore = 20
)

// MeasureSteady measures the cost of known failures: the failed campaigns have failed many times,
// and new events arrive for all campaigns.
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

// failed creates a database with failed campaigns and a backlog of new events.
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
