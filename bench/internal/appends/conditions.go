package appends

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

const (
	conditionClients = 8
	conditionFor     = 3 * time.Second
	conditionWarmUp  = 500 * time.Millisecond
	conditionChecks  = 500 // timed checks of each size
	fewConditioned   = 10_000
	manyConditioned  = 10_000_000

	// The check of a condition, as a SERIALIZABLE transaction does it by itself.
	countMatches = `SELECT count(*) FROM tidemark.event_tags WHERE tag = $1 AND event_type = $2 AND position > $3`

	// A condition reads only tags unless it fails, so the journal stays empty. The key is created
	// after the rows, which is faster.
	dropTagsKey = `ALTER TABLE tidemark.event_tags DROP CONSTRAINT event_tags_pkey`
	fillTags    = `
		INSERT INTO tidemark.event_tags (tag, event_type, position)
		SELECT CASE WHEN p % 2 = 0 THEN 'tenant=1' ELSE 'account=' || (p % 100003) END, CASE WHEN p % 3 = 0 THEN 'deposited'
			ELSE 'withdrawn' END, p FROM generate_series(1, $1::bigint) AS p`
	addTagsKey = `ALTER TABLE tidemark.event_tags ADD CONSTRAINT event_tags_pkey PRIMARY KEY (tag, event_type, position)`

	checkCondition = `SELECT "position" FROM tidemark.query_matches($1::jsonb, $2, $3, 1)`
)

// account is a tag on which a client decides. The client knows its events up to after.
type account struct {
	client int
	tag    string
	after  int64
}

func (a *account) query() event.Query { return event.Tagged([]string{a.tag}, harness.EventType) }

func (a *account) event(call int) (event.Event, error) {
	payload, err := harness.DamagePayload(call)
	return event.Event{
		CampaignID: harness.CampaignID(a.client*harness.AppendCampaigns + call%harness.AppendCampaigns),
		Type:       harness.EventType, Tags: []string{a.tag}, Payload: payload,
	}, err
}

// decision appends the next event of an account. It returns false if another append got ahead.
type decision func(ctx context.Context, pool *pgxpool.Pool, a *account, call int) (bool, error)

func decideNothing(ctx context.Context, pool *pgxpool.Pool, a *account, call int) (bool, error) {
	e, err := a.event(call)
	if err != nil {
		return false, err
	}
	return true, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(ctx, tx, e.CampaignID, journal.Any, e)
		return err
	})
}

func decideByCondition(ctx context.Context, pool *pgxpool.Pool, a *account, call int) (bool, error) {
	e, err := a.event(call)
	if err != nil {
		return false, err
	}
	var place journal.Appended
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		places, err := journal.Journal{}.AppendIf(ctx, tx, []event.Event{e},
			journal.Condition{FailIfMatch: a.query(), After: a.after})
		if err == nil {
			place = places[0]
		}
		return err
	})
	if errors.Is(err, journal.ErrConditionFailed) {
		return false, a.catchUp(ctx, pool)
	}
	if err == nil {
		a.after = place.Position
	}
	return true, err
}

// decideInTurn is decideByCondition with the retry that applications use after a conflict.
func decideInTurn(ctx context.Context, pool *pgxpool.Pool, a *account, call int) (bool, error) {
	e, err := a.event(call)
	if err != nil {
		return false, err
	}
	again := false
	places, err := journal.Journal{}.CommitIf(ctx, pool,
		func(ctx context.Context, db event.Querier) ([]event.Event, journal.Condition, error) {
			if again {
				if err := a.catchUp(ctx, db); err != nil {
					return nil, journal.Condition{}, err
				}
			}
			again = true
			return []event.Event{e}, journal.Condition{FailIfMatch: a.query(), After: a.after}, nil
		})
	if err == nil {
		a.after = places[0].Position
	}
	return true, err
}

func decideSerializable(ctx context.Context, pool *pgxpool.Pool, a *account, call int) (bool, error) {
	e, err := a.event(call)
	if err != nil {
		return false, err
	}
	var place journal.Appended
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
		var matches int
		if err := tx.QueryRow(ctx, countMatches, a.tag, harness.EventType, a.after).Scan(&matches); err != nil {
			return err
		}
		if matches > 0 {
			return journal.ErrConditionFailed
		}
		places, err := journal.Journal{}.Append(ctx, tx, e.CampaignID, journal.Any, e)
		if err == nil {
			place = places[0]
		}
		return err
	})
	var pgErr *pgconn.PgError
	if errors.Is(err, journal.ErrConditionFailed) || errors.As(err, &pgErr) && pgErr.Code == "40001" {
		return false, a.catchUp(ctx, pool)
	}
	if err == nil {
		a.after = place.Position
	}
	return true, err
}

// catchUp reads events that others have appended.
func (a *account) catchUp(ctx context.Context, db event.Querier) error {
	events, err := journal.Read(ctx, db, a.query(), a.after+1, pageOfAccount)
	if len(events) > 0 {
		a.after = events[len(events)-1].Position
	}
	return err
}

const pageOfAccount = 1000

// conditionRun runs clients that decide and append, each on a tag of its own or all on one.
type conditionRun struct {
	hot    bool
	length time.Duration
	decide decision
}

// run returns the events committed in a second.
func (r conditionRun) run(ctx context.Context, db *harness.Database) (float64, error) {
	pool, err := db.Pool(ctx, conditionClients)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	var counted atomic.Int64
	from := time.Now().Add(conditionWarmUp)
	until := from.Add(r.length)
	group, groupCtx := errgroup.WithContext(ctx)
	for client := range conditionClients {
		group.Go(func() error {
			a := &account{client: client, tag: fmt.Sprintf("account=%d", client)}
			if r.hot {
				a.tag = "account=hot"
			}
			for call := 0; ; call++ {
				done, err := r.decide(groupCtx, pool, a, call)
				if err != nil {
					return err
				}
				switch now := time.Now(); {
				case now.After(until):
					return nil
				case done && now.After(from):
					counted.Add(1)
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return 0, fmt.Errorf("append on conditions: %w", err)
	}
	return float64(counted.Load()) / r.length.Seconds(), nil
}

// tagged returns a side that checks conditions over the given number of tagged events. Its value is
// the time of a check in milliseconds.
func tagged(
	ctx context.Context, b *harness.Bench, template *harness.Database, events int,
) (harness.Side, func(), error) {
	db, err := b.Server.Clone(ctx, template.Name)
	if err != nil {
		return harness.Side{}, nil, err
	}
	drop := func() { db.Drop(context.WithoutCancel(ctx)) }
	start := time.Now()
	conn, err := db.Connect(ctx)
	if err != nil {
		drop()
		return harness.Side{}, nil, fmt.Errorf("connect: %w", err)
	}
	closeDB := func() {
		conn.Close(context.WithoutCancel(ctx))
		drop()
	}
	for _, statement := range []struct {
		sql  string
		args []any
	}{{dropTagsKey, nil}, {fillTags, []any{events}}, {addTagsKey, nil}} {
		if _, err := conn.Exec(ctx, statement.sql, statement.args...); err != nil {
			closeDB()
			return harness.Side{}, nil, fmt.Errorf("fill the tags: %w", err)
		}
	}
	if err := db.Settle(ctx); err != nil {
		closeDB()
		return harness.Side{}, nil, err
	}
	b.Logf("%d events have tags after %s", events, time.Since(start).Round(time.Millisecond))
	run := func(ctx context.Context) (float64, error) {
		var times harness.Samples
		for n := range 2 * conditionChecks {
			// One item reads all of a large tag, the other a small tag. Both start at the first
			// event, and neither matches.
			query := fmt.Sprintf(`{"items": [{"types": ["closed"], "tags": ["tenant=1"]}, {"types": ["opened", "closed"], "tags": ["account=%d"]}]}`, rand.IntN(100003))
			begin := time.Now()
			tag, err := conn.Exec(ctx, checkCondition, query, 0, int64(1)<<62)
			if err != nil {
				return 0, fmt.Errorf("check a condition: %w", err)
			}
			if tag.RowsAffected() != 0 {
				return 0, fmt.Errorf("check a condition: %s fails", query)
			}
			if n >= conditionChecks { // the first half warms up
				times = append(times, float64(time.Since(begin).Microseconds())/1000)
			}
		}
		return times.Median(), nil
	}
	return harness.Side{Name: fmt.Sprintf("a condition over %d events", events), Run: run}, closeDB, nil
}

func MeasureConditions(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	template, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))

	var figures []harness.Figure
	for _, f := range []struct {
		name, to string
		hot      bool
		limit    float64
		decide   decision
		against  decision
	}{
		{
			"condition_unrelated", "the same appends without a condition, unrelated tags, 8 clients", false, 0.7,
			decideByCondition, decideNothing,
		},
		{
			"condition_hot", "SERIALIZABLE doing the same check, one hot tag, 8 clients", true, 0.6, decideInTurn,
			decideSerializable,
		},
	} {
		side := func(name string, decide decision) harness.Side {
			return b.On(template, name, conditionRun{f.hot, b.ScaledTime(conditionFor), decide}.run)
		}
		samples, err := b.Interleave(ctx, "events/s", side(f.name, f.decide), side("against", f.against))
		if err != nil {
			return nil, err
		}
		figures = append(figures, harness.AtLeast(f.limit, harness.Figure{
			Name: f.name, Value: samples[0].Median(), Unit: "events/s",
			Ratio: samples[0].Over(samples[1]), To: f.to,
		}))
	}
	return figures, nil
}

// MeasureConditionSize measures a look-up that finds nothing among many events.
func MeasureConditionSize(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	template, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))

	many, closeMany, err := tagged(ctx, b, template, b.Scaled(manyConditioned))
	if err != nil {
		return nil, err
	}
	defer closeMany()
	few, closeFew, err := tagged(ctx, b, template, fewConditioned)
	if err != nil {
		return nil, err
	}
	defer closeFew()
	samples, err := b.Interleave(ctx, "ms", many, few)
	if err != nil {
		return nil, err
	}
	return []harness.Figure{harness.AtMost(2, harness.Figure{
		Name: "condition_ten_million", Value: samples[0].Median(), Unit: "ms", Ratio: samples[0].Over(samples[1]),
		To: fmt.Sprintf("a condition over %d events", fewConditioned),
	})}, nil
}
