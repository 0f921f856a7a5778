package model_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
)

// The three kinds of projection. Each keeps the trail of a campaign: the events it applied, in
// order, with repetitions.
const (
	ledger = "ledger" // handlers in Go
	sums   = "sums"   // an SQL file
	pages  = "pages"  // documents
)

func projectionNames() []string { return []string{ledger, pages, sums} }

// The types of events. A projection that cannot apply an optional event skips it. The ledger pauses
// if it cannot apply a vital one. pages subscribes to neither.
const (
	moved    = "moved"
	optional = "optional"
	vital    = "vital"
)

// attempts is the number of failures after which a campaign is dead.
const attempts = 3

// fault is the way in which a projection fails at an event.
type fault string

const (
	transient fault = "transient"
	permanent fault = "permanent"
	panics    fault = "panics"
)

func (f fault) dies() bool { return f == permanent || f == panics }

// spot is an event that a projection cannot apply.
type spot struct {
	failed.Key
	seq int64
}

// faults are the spots of all projections, for Go code and for the database.
type faults struct {
	mu     sync.Mutex
	spots  map[spot]fault
	outage int // the ledger call, from 1, that fails with an infrastructure error; 0: none
}

var errWeather = errors.New("the weather is bad")

func (f *faults) at(name string, e event.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.spots[spot{failed.Key{Projection: name, CampaignID: e.CampaignID}, e.Seq}] {
	case transient:
		return errWeather
	case permanent:
		return projection.Permanent(errWeather)
	case panics:
		panic("the roof came down")
	}
	return nil
}

// strike returns the infrastructure error once.
func (f *faults) strike() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.outage == 0 {
		return nil
	}
	if f.outage--; f.outage > 0 {
		return nil
	}
	return &failure.BrokenError{Err: &pgconn.PgError{Code: "08006", Message: "the connection is gone"}}
}

// schema has what the projections need besides their tables.
const schema = `
	CREATE TABLE faults (campaign_id text, seq bigint, kind text, PRIMARY KEY (campaign_id, seq));
	CREATE FUNCTION seq_unless_faulty(p_campaign text, p_seq bigint) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		found text := (SELECT f.kind FROM faults f WHERE f.campaign_id = p_campaign AND f.seq = p_seq);
	BEGIN
		IF found = 'transient' THEN
			RAISE EXCEPTION 'the weather is bad';
		ELSIF found IS NOT NULL THEN
			RAISE EXCEPTION 'the weather is bad' USING ERRCODE = '22012';
		END IF;
		RETURN p_seq;
	END $$`

const sumsFile = `-- projection: sums
-- version: 1
CREATE TABLE sums (campaign_id text PRIMARY KEY, trail text NOT NULL);
-- on: moved, vital
INSERT INTO sums (campaign_id, trail) VALUES (event.campaign_id,
	tidemark_views.seq_unless_faulty(event.campaign_id, event.seq))
ON CONFLICT (campaign_id) DO UPDATE SET trail = sums.trail || ' ' || EXCLUDED.trail;
-- on: optional
-- on failure: skip
INSERT INTO sums (campaign_id, trail) VALUES (event.campaign_id,
	tidemark_views.seq_unless_faulty(event.campaign_id, event.seq))
ON CONFLICT (campaign_id) DO UPDATE SET trail = sums.trail || ' ' || EXCLUDED.trail;
`

type page struct {
	Trail []int64 `json:"trail"`
}

func projections(t *testing.T, f *faults) []projection.Projection {
	t.Helper()
	handlers := &projection.Handlers{
		Name: ledger, Version: 1, Tables: `CREATE TABLE ledger (n bigint GENERATED ALWAYS AS IDENTITY, campaign_id text,
			seq bigint)`,
		OnFailureOf: map[string]projection.Policy{
			optional: {Action: projection.ActionSkip},
			vital:    {Action: projection.ActionPause},
		},
	}
	for _, of := range []string{moved, optional, vital} {
		handlers.On = append(handlers.On, projection.Handle(event.Type[struct{}](of), func(_ context.Context, g *projection.Group, e event.Event, _ struct{}) error {
			if err := f.strike(); err != nil {
				return err
			}
			g.Queue(`INSERT INTO ledger (campaign_id, seq) VALUES ($1, $2)`, e.CampaignID, e.Seq)
			return f.at(ledger, e)
		}))
	}
	file, err := sqlfile.Load(fstest.MapFS{"sums.sql": {Data: []byte(sumsFile)}}, "sums.sql")
	if err != nil {
		t.Fatal(err)
	}
	documents := projection.Document[page]{
		Name: pages, Version: 1, Types: []string{moved},
		Fold: func(p *page, e event.Event) error {
			p.Trail = append(p.Trail, e.Seq)
			return f.at(pages, e)
		},
	}
	return []projection.Projection{handlers, file, documents}
}

// set writes the faults of f to the database.
func (f *faults) set(ctx context.Context, pool *pgxpool.Pool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM faults`); err != nil {
			return err
		}
		for s, kind := range f.spots {
			if s.Projection != sums {
				continue
			}
			if _, err := tx.Exec(ctx, `INSERT INTO faults VALUES ($1, $2, $3)`, s.CampaignID, s.seq, string(kind)); err != nil {
				return err
			}
		}
		return nil
	})
}

// config configures all workers. Delays and leases outlast the test: time passes only in steps.
func config(pool *pgxpool.Pool, all []projection.Projection, events int) projector.Config {
	return projector.Config{
		Pool: pool, Projections: all, ConsumerGroup: group, GroupEvents: events, ClaimCampaigns: 3, Concurrency: 2,
		LeaseTTL: time.Hour, ApplyTimeout: 30 * time.Second,
		OnFailure: projection.Policy{Attempts: attempts, Base: time.Hour, Max: time.Hour},
	}
}

func worker(t *testing.T, cfg projector.Config) *projector.Projector {
	t.Helper()
	p, err := projector.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(fmt.Errorf("register: %w", err))
	}
	return p
}
