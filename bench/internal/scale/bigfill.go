package scale

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
)

const (
	bigPerCampaign = 100
	bigChunk       = 100_000 // events in one statement
	bigDiskBytes   = 700     // of disk that a filled event takes, with WAL and a margin
	bigDiskSpare   = 10 << 30

	// Some campaigns have many events and most have few. The names of those that grow together are
	// spread over the index. Positions, ids and their order are as tidemark.append makes them.
	fillBig = `
		WITH drawn AS MATERIALIZED (
			SELECT n, ((random() ^ 2 * $2::bigint)::bigint * 7919) % $2::bigint AS c FROM generate_series(1, $1) AS n
		), campaigns AS MATERIALIZED (
			SELECT d.c, i.id, coalesce((SELECT j.seq FROM tidemark.journal j WHERE j.campaign_id = i.id
				ORDER BY j.seq DESC LIMIT 1), 0) AS head
			FROM (SELECT DISTINCT c FROM drawn) AS d
			CROSS JOIN LATERAL (SELECT CASE $3 WHEN 'uuid' THEN md5(d.c::text)::uuid::text
				ELSE 'campaign-' || lpad(d.c::text, 7, '0') END COLLATE "C" AS id) AS i
		), numbered AS (
			SELECT e.*, nextval('tidemark.journal_position') AS position, clock_timestamp() AS at
			FROM (
				SELECT d.n, c.id, c.head + row_number() OVER (PARTITION BY d.c ORDER BY d.n) AS seq
				FROM drawn d JOIN campaigns c USING (c) ORDER BY d.n OFFSET 0
			) AS e
		)
		INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload,
			payload_bytes, occurred_at, recorded_at)
		SELECT n.id, n.seq, n.position, CASE WHEN $4 THEN gen_random_uuid()
				ELSE tidemark.made_id((date_part('epoch', n.at) * 1000)::bigint, 1, substr(gen_random_uuid()::text, 20, 4)
					|| lpad(to_hex(n.position), 12, '0')) END,
			$5, 1, 'projection_and_replay', jsonb_build_object('character_id', 'character-' || n.seq % 10,
				'damage', n.seq % 17 + 1, 'source', left(repeat('a goblin with a rusty spoon, ', 12),
				150 + (random() * 100)::integer)), 300, n.at, n.at
		FROM numbered n ORDER BY n.position`

	countBig = `SELECT last_value, EXISTS (SELECT FROM tidemark.leases) FROM tidemark.journal_position`

	fillBigLeases = `
		INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
		SELECT g.name, c.id, 'earlier', 1, '-infinity', c.head
		FROM (
			WITH RECURSIVE walk AS (
				(SELECT j.campaign_id FROM tidemark.journal j ORDER BY j.campaign_id LIMIT 1)
				UNION ALL
				SELECT (SELECT j.campaign_id FROM tidemark.journal j WHERE j.campaign_id > w.campaign_id
					ORDER BY j.campaign_id LIMIT 1) FROM walk w WHERE w.campaign_id IS NOT NULL
			)
			SELECT w.campaign_id AS id, (SELECT j.seq FROM tidemark.journal j WHERE j.campaign_id = w.campaign_id
				ORDER BY j.seq DESC LIMIT 1) AS head FROM walk w WHERE w.campaign_id IS NOT NULL
		) AS c CROSS JOIN unnest($1::text[]) AS g (name)
		ON CONFLICT DO NOTHING`
	fillBigOutbox = `
		INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
		SELECT $1, campaign_id, checkpoint, now(), 1 FROM tidemark.leases WHERE consumer_group = $1
		ORDER BY campaign_id LIMIT 10000 ON CONFLICT DO NOTHING`
)

// errUnfilled is the error of a journal that has to grow further in another run.
var errUnfilled = errors.New("run again to fill the journal further")

// bigJournal is a journal of many events, whose campaigns have grown side by side.
type bigJournal struct {
	events  int
	ids     string // of campaigns: "short" or "uuid"
	given   bool   // event ids are random ones of the caller
	kept    string // the database's name, if it stays for the next run
	fillFor time.Duration
}

func (j bigJournal) campaigns() int { return max(1, j.events/bigPerCampaign) }

// affordable returns how many of the events the disk takes, with what an earlier run has kept.
func affordable(ctx context.Context, b *harness.Bench, events int, kept string) (int, error) {
	dir, err := b.Server.DataDirectory(ctx)
	if err != nil {
		return 0, err
	}
	filled, err := b.Server.Size(ctx, kept)
	if err != nil {
		return 0, err
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		b.Logf("%s is not on this machine: is there room for %d GB?", dir, events*bigDiskBytes>>30)
		return events, nil
	}
	room := (int(disk.Bavail)*int(disk.Bsize) + filled - bigDiskSpare) / bigDiskBytes
	if room < events {
		b.Logf("the disk takes %d of the %d events", max(0, room), events)
	}
	if room < 1 {
		return 0, fmt.Errorf("the disk of %s has less than %d GB free", dir, bigDiskSpare>>30)
	}
	return min(events, room), nil
}

// open returns the filled database. One that an earlier run has filled keeps its events.
func (j *bigJournal) open(ctx context.Context, b *harness.Bench) (*harness.Database, error) {
	create := b.Migrated
	if j.kept != "" {
		create = func(ctx context.Context) (*harness.Database, error) { return b.MigratedAs(ctx, j.kept) }
	}
	db, err := create(ctx)
	if err != nil {
		return nil, err
	}
	pool, err := db.Pool(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	start := time.Now()
	var filled int
	var finished bool
	if err := pool.QueryRow(ctx, countBig).Scan(&filled, &finished); err != nil {
		return nil, fmt.Errorf("fill the journal: %w", err)
	}
	if finished {
		j.events = filled
		return db, nil
	}
	for filled < j.events && (j.kept == "" || time.Since(start) < j.fillFor) {
		n := min(bigChunk, j.events-filled)
		if _, err := pool.Exec(ctx, fillBig, n, j.campaigns(), j.ids, j.given, harness.EventType); err != nil {
			return nil, fmt.Errorf("fill the journal: %w", err)
		}
		filled += n
	}
	b.Logf("%d of %d events after %s", filled, j.events, time.Since(start).Round(time.Second))
	if filled < j.events {
		return db, errUnfilled
	}
	return db, j.finish(ctx, pool, db)
}

func (j bigJournal) finish(ctx context.Context, pool *pgxpool.Pool, db *harness.Database) error {
	if _, err := pool.Exec(ctx, fillBigLeases, []string{harness.ConsumerGroup, bigQueue}); err != nil {
		return fmt.Errorf("fill the leases: %w", err)
	}
	if _, err := pool.Exec(ctx, fillBigOutbox, bigQueue); err != nil {
		return fmt.Errorf("fill the outbox: %w", err)
	}
	return db.Settle(ctx)
}
