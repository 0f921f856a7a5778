package projector_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// picky is a projection that lists what it applies and fails on demand.
type picky struct {
	spec projection.Spec
	fail atomic.Pointer[func(g *projection.Group, e event.Event, m moved) error]
}

func newPicky(change func(*projection.Spec)) *picky {
	p := &picky{spec: projection.Spec{
		Name: "picky", Version: 1, Types: []string{"moved", "noted"},
		Tables: `CREATE TABLE picky (campaign_id text, seq bigint, n bigint GENERATED ALWAYS AS IDENTITY,
			by int CHECK (by < 1000), PRIMARY KEY (campaign_id, seq))`,
	}}
	if change != nil {
		change(&p.spec)
	}
	p.heal()
	return p
}

func (p *picky) failWith(fail func(g *projection.Group, e event.Event, m moved) error) *picky {
	p.fail.Store(&fail)
	return p
}

func (p *picky) heal() {
	p.failWith(func(*projection.Group, event.Event, moved) error { return nil })
}

func (p *picky) Spec() projection.Spec { return p.spec }

func (p *picky) Apply(_ context.Context, g *projection.Group) error {
	for _, e := range g.Events {
		g.At(e)
		m, err := event.Decode[moved](e)
		if err == nil {
			err = (*p.fail.Load())(g, e, m)
		}
		if err != nil {
			return err
		}
		g.Queue(`INSERT INTO picky (campaign_id, seq, by) VALUES ($1, $2, $3)`, e.CampaignID, e.Seq, m.By)
	}
	return nil
}

// slow is a policy whose waits outlast any test. A test makes retries due itself.
func slow(action projection.Action) projection.Policy {
	return projection.Policy{Action: action, Base: time.Hour, Max: time.Hour}
}

func workerOf(
	t *testing.T, pool *pgxpool.Pool, change func(*projector.Config), projections ...projection.Projection,
) *projector.Projector {
	t.Helper()
	cfg := projector.Config{Pool: pool, Projections: projections, OnFailure: slow("")}
	if change != nil {
		change(&cfg)
	}
	p, err := projector.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// execModes returns the ways to send statements. The first is the default, the others suit poolers.
func execModes() []pgx.QueryExecMode {
	return []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	}
}

// inMode returns a pool on the same database that sends statements in the given mode; 0: the
// default.
func inMode(t *testing.T, pool *pgxpool.Pool, mode pgx.QueryExecMode) *pgxpool.Pool {
	t.Helper()
	config := pool.Config()
	setMode(config, cmp.Or(mode, pgx.QueryExecModeCacheStatement))
	in, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Close)
	return in
}

// setMode sets a mode, and the formats of the modes that get results as text (docs/guides/append.md).
func setMode(config *pgxpool.Config, mode pgx.QueryExecMode) {
	config.ConnConfig.DefaultQueryExecMode = mode
	if mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol {
		params := config.ConnConfig.RuntimeParams
		params["datestyle"], params["intervalstyle"], params["standard_conforming_strings"] = "ISO", "postgres", "on"
	}
}

func drain(t *testing.T, p *projector.Projector) {
	t.Helper()
	if _, err := p.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// drainAll drains until the queue is empty. An interrupted claim may have left a lease, which must
// expire first.
func drainAll(t *testing.T, pool *pgxpool.Pool, p *projector.Projector) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for query[int](t, pool, `SELECT count(*) FROM tidemark.outbox`) > 0 && time.Now().Before(deadline) {
		drain(t, p)
	}
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// retry makes all failed campaigns due that have a retry left, and drains.
func retry(t *testing.T, pool *pgxpool.Pool, p *projector.Projector) {
	t.Helper()
	exec(t, pool, `UPDATE tidemark.failed SET next_attempt_at = now() WHERE next_attempt_at < 'infinity'`)
	drain(t, p)
}

func expectText(t *testing.T, pool *pgxpool.Pool, what, want, sql string, args ...any) {
	t.Helper()
	if got := query[string](t, pool, `SELECT coalesce((`+sql+`), '')`, args...); got != want {
		t.Errorf("%s: %s\nwant: %s", what, got, want)
	}
}

func expectPairs(t *testing.T, pool *pgxpool.Pool, want string) {
	t.Helper()
	expectText(t, pool, "pairs", want, `SELECT string_agg(concat_ws(' ', campaign_id, projection, next_seq, status,
		attempt_count, error_class, error_code,
		CASE WHEN next_attempt_at = 'infinity' THEN 'never' END), ', ' ORDER BY campaign_id, projection)
			FROM tidemark.failed`)
}

func expectLog(t *testing.T, pool *pgxpool.Pool, want string) {
	t.Helper()
	expectText(t, pool, "log", want, `SELECT string_agg(concat_ws(' ', act, seq, attempt), ', ' ORDER BY id)
		FROM tidemark.failure_log`)
}

func expectApplied(t *testing.T, pool *pgxpool.Pool, campaign, want string) {
	t.Helper()
	expectText(t, pool, "applied of "+campaign, want, `SELECT string_agg(seq::text, ' ' ORDER BY n) FROM picky
		WHERE campaign_id = $1`, campaign)
}

// refuseBy is an upcaster that refuses payloads with a field by.
func refuseBy(payload json.RawMessage) (json.RawMessage, error) {
	if bytes.Contains(payload, []byte(`"by"`)) {
		return nil, errors.New("by is not of this version")
	}
	return payload, nil
}

// moves returns events of type moved.
func moves(by ...int) []event.Event {
	events := make([]event.Event, len(by))
	for i, b := range by {
		events[i] = event.Event{Type: "moved", Payload: fmt.Appendf(nil, `{"by": %d}`, b)}
	}
	return events
}

func failNegative(_ *projection.Group, _ event.Event, m moved) error {
	if m.By < 0 {
		return errPassing
	}
	return nil
}

type projectionFunc struct {
	spec  projection.Spec
	apply func(*projection.Group) error
}

func (f projectionFunc) Spec() projection.Spec { return f.spec }

func (f projectionFunc) Apply(_ context.Context, g *projection.Group) error { return f.apply(g) }
