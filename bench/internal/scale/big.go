package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

const (
	bigSmall   = 1_000_000
	bigQueue   = "queue" // a group whose work waits while others' is done
	bigAppends = 3 * time.Second
	bigWarmUp  = time.Second
	bigApplied = 20_000 // events
	bigActive  = 1000   // campaigns that these are for, on both sides
	bigLooks   = 100
	bigPage    = 500

	// The projection has nothing to do with the events that were filled.
	caughtUp   = `DELETE FROM tidemark.failed`
	sizesOfBig = `
		SELECT c.relname, pg_relation_size(c.oid)::float8 / p.last_value
		FROM tidemark.journal_position p CROSS JOIN pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid
		WHERE coalesce(i.indrelid, c.oid) = 'tidemark.journal'::regclass ORDER BY c.relkind DESC, c.relname`
	payloadOfBig = `SELECT avg(pg_column_size(payload))::float8 FROM (
		SELECT payload FROM tidemark.journal ORDER BY position LIMIT 100000) AS j`
	campaignsOfBig = `SELECT campaign_id, checkpoint FROM tidemark.leases WHERE consumer_group = $1`
	walPosition    = `SELECT pg_current_wal_flush_lsn()::text`
	walSince       = `SELECT sum(record_size)::float8, sum(fpi_size)::float8
		FROM pg_get_wal_stats($1::text::pg_lsn, pg_current_wal_flush_lsn())`
)

// bigSide is one journal under measurement.
type bigSide struct {
	b         *harness.Bench
	pool      *pgxpool.Pool
	worker    *projector.Projector
	queue     *claimer
	campaigns []campaignHead
	payload   event.Event
	cursor    int64 // of the relay from the start
}

type campaignHead struct {
	ID   string
	Head int64
}

// bigFigures are the operations in the order in which a round measures them.
var bigFigures = []struct {
	name, unit string
	limit      float64
	run        func(*bigSide, context.Context) (float64, error)
}{
	{"big_append_p50", "ms", 1.3, (*bigSide).appendP50},
	{"big_wal", "bytes", 1.1, (*bigSide).wal},
	{"big_apply", "µs", 1.3, (*bigSide).apply},
	{"big_claim", "ms", 1.3, (*bigSide).claim},
	{"big_status", "ms", 1.3, (*bigSide).status},
	{"big_gaps", "µs", 1.3, (*bigSide).gaps},
	{"big_as_of", "ms", 1.3, (*bigSide).asOf},
	{"big_find", "ms", 2, (*bigSide).find}, // events of the past: few of the large journal's are in a cache
	{"big_relay_head", "ms", 1.3, (*bigSide).relayHead},
	{"big_relay_start", "ms", 1.3, (*bigSide).relayStart},
}

func openBig(ctx context.Context, b *harness.Bench, db *harness.Database) (_ *bigSide, err error) {
	s := &bigSide{b: b}
	if err := db.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_walinspect SCHEMA public"); err != nil {
		return nil, err
	}
	if s.pool, err = db.Pool(ctx, 6); err != nil {
		return nil, err
	}
	code, err := harness.GoHandler().Make()
	if err != nil {
		return nil, err
	}
	s.worker, err = projector.New(projector.Config{
		Pool: s.pool, ConsumerGroup: harness.ConsumerGroup, Projections: []projection.Projection{code}, Concurrency: 2,
	})
	if err != nil {
		return nil, err
	}
	if err := s.worker.Register(ctx); err != nil {
		return nil, err
	}
	if err := db.Exec(ctx, caughtUp, "VACUUM ANALYZE tidemark.failed"); err != nil {
		return nil, err
	}
	rows, err := s.pool.Query(ctx, campaignsOfBig, harness.ConsumerGroup)
	if err != nil {
		return nil, fmt.Errorf("list the campaigns: %w", err)
	}
	if s.campaigns, err = pgx.CollectRows(rows, pgx.RowToStructByPos[campaignHead]); err != nil {
		return nil, fmt.Errorf("list the campaigns: %w", err)
	}
	rand.Shuffle(len(s.campaigns), func(i, k int) { s.campaigns[i], s.campaigns[k] = s.campaigns[k], s.campaigns[i] })
	conn, err := db.Connect(ctx)
	if err != nil {
		return nil, err
	}
	s.queue = &claimer{conn: conn, keeper: lease.Keeper{Group: bigQueue, Owner: "bench", TTL: 30 * time.Second}}
	// As long as those that were filled: shorter ones would go into holes of old pages.
	damage := harness.DamageAt(1)
	damage.Source = strings.Repeat(damage.Source, 8)
	payload, err := json.Marshal(damage)
	s.payload = event.Event{Type: harness.EventType, Payload: payload}
	return s, err
}

func (s *bigSide) close(ctx context.Context) {
	_ = s.queue.conn.Close(ctx)
	s.pool.Close()
}

func (s *bigSide) any() campaignHead { return s.campaigns[rand.IntN(len(s.campaigns))] }

// median returns the median time of run, in milliseconds, after a tenth of the times for warming up.
func median(times int, run func() error) (float64, error) {
	var samples harness.Samples
	for i := range times + times/10 {
		start := time.Now()
		if err := run(); err != nil {
			return 0, err
		}
		if i >= times/10 {
			samples = append(samples, float64(time.Since(start).Nanoseconds())/1e6)
		}
	}
	return samples.Median(), nil
}

func (s *bigSide) append(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(ctx, tx, s.any().ID, journal.Any, s.payload)
		return err
	})
}

func (s *bigSide) appendP50(ctx context.Context) (float64, error) {
	var samples harness.Samples
	from := time.Now().Add(s.b.ScaledTime(bigWarmUp))
	for until := from.Add(s.b.ScaledTime(bigAppends)); ; {
		start := time.Now()
		if start.After(until) {
			return samples.Median(), nil
		}
		if err := s.append(ctx); err != nil {
			return 0, err
		}
		if start.After(from) {
			samples = append(samples, float64(time.Since(start).Nanoseconds())/1e6)
		}
	}
}

// wal returns the bytes of WAL for an append. It logs the bytes of full pages, which depend on the
// time since the last checkpoint.
func (s *bigSide) wal(ctx context.Context) (float64, error) {
	appends := s.b.Scaled(bigApplied) / 4
	var from string
	var records, pages float64
	err := s.pool.QueryRow(ctx, walPosition).Scan(&from)
	for range appends {
		if err == nil {
			err = s.append(ctx)
		}
	}
	if err == nil {
		err = s.pool.QueryRow(ctx, walSince, from).Scan(&records, &pages)
	}
	if err != nil {
		return 0, fmt.Errorf("measure the WAL: %w", err)
	}
	s.b.Logf("  full pages: %.0f bytes of WAL an append", pages/float64(appends))
	return records / float64(appends), nil
}

// apply returns the time for each event, in microseconds, after a turn that applies what other
// figures have appended, and reads the campaigns' rows.
func (s *bigSide) apply(ctx context.Context) (each float64, err error) {
	for range 2 {
		if each, err = s.applyOnce(ctx); err != nil {
			return 0, err
		}
	}
	return each, nil
}

func (s *bigSide) applyOnce(ctx context.Context) (float64, error) {
	for range s.b.Scaled(bigApplied) / 1000 {
		batches := make([]journal.Batch, 100)
		for i := range batches {
			batches[i] = journal.Batch{CampaignID: s.campaigns[rand.IntN(bigActive)].ID}
			for range 10 {
				batches[i].Events = append(batches[i].Events, s.payload)
			}
		}
		if err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.AppendAll(ctx, tx, batches...)
			return err
		}); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	applied, err := s.worker.Drain(ctx)
	if err == nil && applied == 0 {
		err = errors.New("nothing was applied")
	}
	return float64(time.Since(start).Nanoseconds()) / 1000 / float64(applied), err
}

func (s *bigSide) claim(ctx context.Context) (float64, error) {
	if _, err := s.queue.claims(ctx, claimsToWarm); err != nil {
		return 0, err
	}
	return s.queue.claims(ctx, claimsPerRound)
}

func (s *bigSide) status(ctx context.Context) (float64, error) {
	reader := &status.Reader{Pool: s.pool, Timeout: time.Minute}
	return median(statusPerRound, func() error {
		read, err := reader.Read(ctx)
		if err != nil {
			return err
		}
		for section, err := range read.Unread {
			return fmt.Errorf("status: %s: %w", section, err)
		}
		return nil
	})
}

func (s *bigSide) gaps(ctx context.Context) (float64, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return 0, fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	start := time.Now()
	done, err := outbox.Repair{Group: harness.ConsumerGroup, By: "bench", Chunk: gapChunk}.Run(ctx, conn.Conn())
	if err == nil && (done.Campaigns < len(s.campaigns) || done.Gaps != 0) {
		err = fmt.Errorf("gaps: looked at %d campaigns of %d and found %d gaps where there are none", done.Campaigns,
			len(s.campaigns), done.Gaps)
	}
	return float64(time.Since(start).Nanoseconds()) / 1000 / float64(len(s.campaigns)), err
}

// asOf looks at campaigns of like length on both sides.
func (s *bigSide) asOf(ctx context.Context) (float64, error) {
	return median(bigLooks, func() error {
		c := s.any()
		for c.Head < bigPerCampaign/2 || c.Head > bigPerCampaign {
			c = s.any()
		}
		_, err := s.worker.AsOf(ctx, "characters", c.ID, bigPerCampaign/2)
		return err
	})
}

func (s *bigSide) find(ctx context.Context) (float64, error) {
	return median(bigLooks, func() error {
		c := s.any()
		e, err := feed.Get(ctx, s.pool, c.ID, 1+rand.Int64N(c.Head))
		if err != nil {
			return err
		}
		_, err = feed.Find(ctx, s.pool, c.ID, e.ID)
		return err
	})
}

// relayHead reads the last events of the journal, as a relay does that is up to date.
func (s *bigSide) relayHead(ctx context.Context) (float64, error) {
	return median(bigLooks, func() error {
		floor, _, _, err := feed.Progress(ctx, s.pool)
		if err != nil {
			return err
		}
		return s.page(ctx, floor-bigPage, floor)
	})
}

// relayStart goes on through the journal from its first event.
func (s *bigSide) relayStart(ctx context.Context) (float64, error) {
	return median(bigLooks, func() error {
		floor, _, _, err := feed.Progress(ctx, s.pool)
		if err != nil {
			return err
		}
		s.cursor += bigPage
		return s.page(ctx, s.cursor-bigPage, floor)
	})
}

func (s *bigSide) page(ctx context.Context, after, floor int64) error {
	events, _, err := feed.ReadWindow(ctx, s.pool, event.Window{
		After: after, Floor: floor, Events: bigPage, Bytes: 4 << 20, Small: true,
	})
	if err == nil && len(events) != bigPage {
		err = fmt.Errorf("relay: %d of %d events after position %d", len(events), bigPage, after)
	}
	return err
}

// sizes logs the bytes of an event by table and index, and returns those beside the payload.
func (j bigJournal) sizes(ctx context.Context, b *harness.Bench, db *harness.Database) (beside float64, err error) {
	conn, err := db.Connect(ctx)
	if err != nil {
		return 0, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var payload float64
	if err := conn.QueryRow(ctx, payloadOfBig).Scan(&payload); err != nil {
		return 0, fmt.Errorf("measure the payloads: %w", err)
	}
	b.Logf("%d events, campaigns' ids %s, ids of events %s", j.events, j.ids,
		map[bool]string{false: "made", true: "given"}[j.given])
	b.Logf("  %-28s %6.1f bytes an event", "payload", payload)
	rows, err := conn.Query(ctx, sizesOfBig)
	if err != nil {
		return 0, fmt.Errorf("measure the journal: %w", err)
	}
	var name string
	var size float64
	_, err = pgx.ForEachRow(rows, []any{&name, &size}, func() error {
		b.Logf("  %-28s %6.1f bytes an event", name, size)
		beside += size
		return nil
	})
	beside -= payload
	b.Logf("  %-28s %6.1f bytes an event", "beside the payload", beside)
	return beside, err
}

func besideFigure(name string, beside, most float64) harness.Figure {
	return harness.AtMost(1, harness.Figure{
		Name: name, Value: beside, Unit: "bytes", Ratio: beside / most,
		To: fmt.Sprintf("%.0f bytes of journal and indexes an event beside its payload", most),
	})
}

// MeasureBigBytes fills journals of a million events whose ids are longer than in [MeasureBig].
func MeasureBigBytes(ctx context.Context, b *harness.Bench) (figures []harness.Figure, err error) {
	for _, f := range []struct {
		name string
		most float64
		bigJournal
	}{
		{"big_bytes_uuid", 300, bigJournal{events: b.Scaled(bigSmall), ids: "uuid"}},
		{"big_bytes_given", 275, bigJournal{events: b.Scaled(bigSmall), ids: "short", given: true}},
	} {
		db, err := f.open(ctx, b)
		if err != nil {
			return nil, err
		}
		beside, err := f.sizes(ctx, b, db)
		if err := errors.Join(err, db.Drop(context.WithoutCancel(ctx))); err != nil {
			return nil, err
		}
		figures = append(figures, besideFigure(f.name, beside, f.most))
	}
	return figures, nil
}

// MeasureBig compares a journal of many events with one of a million.
func MeasureBig(ctx context.Context, b *harness.Bench) (figures []harness.Figure, err error) {
	small := bigJournal{events: b.Scaled(bigSmall), ids: "short", fillFor: b.BigFillFor}
	large := small
	if b.BigFillFor > 0 {
		large.kept, small.kept = "tidemark_big", "tidemark_big_small"
	}
	if large.events, err = affordable(ctx, b, b.Scaled(b.BigEvents), large.kept); err != nil {
		return nil, err
	}
	var opened []*bigSide
	for _, j := range []*bigJournal{&large, &small} {
		db, err := j.open(ctx, b)
		if err != nil && !errors.Is(err, errUnfilled) {
			return nil, err
		}
		if j.kept == "" {
			defer db.Drop(context.WithoutCancel(ctx))
		}
		if err != nil {
			b.Logf("%s", err)
			return figures, nil
		}
		beside, err := j.sizes(ctx, b, db)
		if err != nil {
			return nil, err
		}
		if j == &large {
			figures = append(figures, besideFigure("big_bytes", beside, 250))
		}
		side, err := openBig(ctx, b, db)
		if err != nil {
			return nil, err
		}
		defer side.close(context.WithoutCancel(ctx))
		opened = append(opened, side)
	}
	for _, f := range bigFigures {
		var sides []harness.Side
		for i, j := range []bigJournal{large, small} {
			sides = append(sides, harness.Side{
				Name: fmt.Sprintf("%s, %d events", f.name, j.events),
				Run:  func(ctx context.Context) (float64, error) { return f.run(opened[i], ctx) },
			})
		}
		samples, err := b.Interleave(ctx, f.unit, sides...)
		if err != nil {
			return nil, err
		}
		figures = append(figures, harness.AtMost(f.limit, harness.Figure{
			Name: f.name, Value: samples[0].Median(), Unit: f.unit, Ratio: samples[0].Over(samples[1]),
			To: fmt.Sprintf("%d events, the value with %d", small.events, large.events),
		}))
	}
	return figures, nil
}
