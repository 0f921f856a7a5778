package replay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/function"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

const (
	// The statements of snapshots go by their primary key.
	queryFindSnapshot = `SELECT s.seq FROM tidemark.snapshots s
		WHERE s.campaign_id = $1 AND s.projection = $2 AND s.version = $3 AND s.seq <= $4 AND s.shape = $5
			AND s.left_out = ARRAY(SELECT k.seq FROM unnest($6::bigint[]) k (seq) WHERE k.seq <= s.seq ORDER BY k.seq)
		ORDER BY s.seq DESC LIMIT 1`
	queryKeepSnapshot = `INSERT INTO tidemark.snapshots (campaign_id, projection, version, seq, shape, left_out,
		table_names, rows)
		SELECT $1, $2, $3, $4, $5, ARRAY(SELECT k.seq FROM unnest($6::bigint[]) k (seq) WHERE k.seq <= $4 ORDER BY k.seq),
			$7, $8
		ON CONFLICT (campaign_id, projection, version, seq) DO UPDATE
			SET shape = EXCLUDED.shape, left_out = EXCLUDED.left_out, table_names = EXCLUDED.table_names, rows = EXCLUDED.rows,
			made_at = DEFAULT
		WHERE (snapshots.shape, snapshots.left_out) <> (EXCLUDED.shape, EXCLUDED.left_out)`

	// queryThinSnapshots deletes one of a campaign's snapshots if there are more than $4: the one
	// whose neighbours are nearest to each other, and never the latest, so that those left are spread
	// over the campaign. It reads the campaign's part of the primary key.
	queryThinSnapshots = `DELETE FROM tidemark.snapshots s WHERE (s.campaign_id, s.projection, s.version) = ($1, $2, $3)
		AND s.seq = (
			SELECT x.seq FROM (
				SELECT o.seq, lead(o.seq) OVER w - coalesce(lag(o.seq) OVER w, 0) AS gap, count(*) OVER () AS n
				FROM tidemark.snapshots o WHERE (o.campaign_id, o.projection, o.version) = ($1, $2, $3) WINDOW w AS (ORDER BY o.seq)
			) x WHERE x.n > $4 AND x.gap IS NOT NULL ORDER BY x.gap, x.seq LIMIT 1)`

	// QueryForgetSnapshots deletes all of a projection's.
	QueryForgetSnapshots = `DELETE FROM tidemark.snapshots WHERE projection = $1`
	// QueryForgetSomeSnapshots deletes up to $3 of a version's.
	QueryForgetSomeSnapshots = `DELETE FROM tidemark.snapshots s WHERE s.ctid = ANY (ARRAY (SELECT o.ctid
		FROM tidemark.snapshots o WHERE (o.projection, o.version) = ($1, $2) LIMIT $3))`

	// QueryOutlivedSnapshots steps from one version to the next along the index, and answers those
	// that are of no use any more: lower ones than the projection's that none of its tables are of,
	// and higher ones, which may be about to be registered, whose latest is older than a week; and
	// those of projections that are not registered.
	QueryOutlivedSnapshots = `WITH RECURSIVE versions AS (
			(SELECT s.projection, s.version FROM tidemark.snapshots s ORDER BY s.projection, s.version LIMIT 1)
			UNION ALL
			SELECT n.projection, n.version FROM versions v CROSS JOIN LATERAL (
				SELECT s.projection, s.version FROM tidemark.snapshots s
					WHERE (s.projection, s.version) > (v.projection, v.version) ORDER BY s.projection, s.version LIMIT 1) n
		)
		SELECT v.projection, v.version FROM versions v LEFT JOIN tidemark.projections l ON l.name = v.projection
		WHERE NOT EXISTS (SELECT FROM tidemark.projections r
			WHERE r.name IN (v.projection, v.projection || '~next', v.projection || '~previous') AND r.version = v.version)
			AND (l.name IS NULL OR v.version < l.version OR NOT EXISTS (
				SELECT FROM tidemark.snapshots s WHERE (s.projection, s.version) = (v.projection, v.version)
					AND s.made_at > clock_timestamp() - interval '7 days'))`

	// queryLongCampaigns walks the leases' primary key: campaigns with at least $3 events, and of
	// which $4 they have none up to their last multiple of $3.
	queryLongCampaigns = `SELECT l.campaign_id, coalesce(l.long, 0) FROM (
			SELECT l.campaign_id, CASE WHEN l.checkpoint >= $3 AND NOT EXISTS (
				SELECT FROM tidemark.snapshots s WHERE s.campaign_id = l.campaign_id AND s.projection = $4 AND s.version = $5
					AND s.seq = l.checkpoint / $3 * $3) THEN l.checkpoint / $3 * $3 END AS long
			FROM tidemark.leases l WHERE l.consumer_group = $1 AND l.campaign_id > $2 ORDER BY l.consumer_group, l.campaign_id
				LIMIT $6
		) l`

	// queryHasSequences says whether rows are numbered by something that a snapshot has not.
	queryHasSequences = `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'S')`

	// snapshotCampaigns is how many campaigns are looked at at once, snapshotRound how long a worker
	// rests when it has seen all.
	snapshotCampaigns = 1000
	snapshotRound     = time.Minute
)

// shape tells tables that were made by other statements apart.
func shape(k *registry.Projection) string {
	digest := sha256.Sum256([]byte(k.Described.Tables))
	return hex.EncodeToString(digest[:8])
}

// resume fills the tables, which are empty, with the latest snapshot up to event seq, and answers
// which event it is of; 0: there is none.
func (s *scratch) resume(ctx context.Context, campaignID string, seq int64, leftOut []int64) (int64, error) {
	var from int64
	err := s.Conn.QueryRow(ctx, queryFindSnapshot, campaignID, s.k.Described.Name, s.k.Described.Version, seq, shape(s.k),
		leftOut).Scan(&from)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for i, t := range s.tables {
		table := s.table(t.Name)
		// Rows of a composite type are put apart only once each, behind a function that answers many.
		_, err := s.Conn.Exec(ctx, fmt.Sprintf(`ALTER TABLE %[1]s DISABLE TRIGGER USER;
			INSERT INTO %[1]s (%[2]s) OVERRIDING SYSTEM VALUE SELECT %[2]s FROM (
				SELECT (x.r).* FROM (SELECT jsonb_array_elements_text(s.rows -> %[3]d)::%[1]s AS r FROM tidemark.snapshots s
					WHERE s.campaign_id = %[4]s AND s.projection = %[5]s AND s.version = %[6]d AND s.seq = %[7]d OFFSET 0) x
			) x;
			ALTER TABLE %[1]s ENABLE TRIGGER
				USER`, table, t.written(), i, function.Literal(campaignID), function.Literal(s.k.Described.Name),
			s.k.Described.Version, from), pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return 0, fmt.Errorf("put back the snapshot of table %s: %w", t.Name, err)
		}
	}
	return from, nil
}

// keep keeps the rows as a snapshot after event seq, in a transaction of its own.
func (s *scratch) keep(ctx context.Context, campaignID string, seq int64, leftOut []int64) error {
	if err := s.untouched(ctx); err != nil {
		return err
	}
	if err := s.unbounded(ctx); err != nil {
		return err
	}
	names, rows := make([]string, len(s.tables)), "["
	for i, t := range s.tables {
		var list string
		if err := s.Conn.QueryRow(ctx, fmt.Sprintf("SELECT coalesce(jsonb_agg(t::text), '[]')::text FROM %s t",
			s.table(t.Name))).Scan(&list); err != nil {
			return fmt.Errorf("read the table %s: %w", t.Name, err)
		}
		if names[i] = t.Name; i > 0 {
			rows += ","
		}
		rows += list
	}
	_, err := s.Applier.Cfg.Pool.Exec(ctx, queryKeepSnapshot, campaignID, s.k.Described.Name, s.k.Described.Version, seq,
		shape(s.k), leftOut, names, []byte(rows+"]"))
	if err != nil {
		return fmt.Errorf("keep a snapshot: %w", err)
	}
	return s.thin(ctx, campaignID)
}

// thin keeps the campaign's snapshots at the number allowed. It deletes one at a time: where the
// bound was lowered there are several to delete, and which is next depends on those that are left.
func (s *scratch) thin(ctx context.Context, campaignID string) error {
	for {
		tag, err := s.Applier.Cfg.Pool.Exec(ctx, queryThinSnapshots, campaignID, s.k.Described.Name, s.k.Described.Version,
			s.Applier.Cfg.SnapshotKeep)
		if err != nil {
			return fmt.Errorf("thin out snapshots: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
	}
}

// snapshotable says whether a snapshot is all there is to know: where rows are numbered by a sequence it is not.
func (s *scratch) snapshotable(ctx context.Context) (bool, error) {
	if slices.ContainsFunc(s.tables, func(t scratchTable) bool { return len(t.Numbered) > 0 }) || len(s.tables) == 0 {
		return false, nil
	}
	var numbered bool
	err := s.Conn.QueryRow(ctx, queryHasSequences, s.schema).Scan(&numbered)
	return !numbered, err
}

// KeepSnapshots makes the snapshots of long campaigns that are missing, for as long as the projector runs.
func (y *Replayer) KeepSnapshots(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		err := y.snapshotAll(ctx)
		if err != nil && ctx.Err() == nil {
			y.Cfg.Logger.WarnContext(ctx, "snapshots not made", "error", err)
			registry.Sleep(ctx, y.Backoff(failures))
			failures++
			continue
		}
		failures = 0
		registry.Sleep(ctx, snapshotRound)
	}
}

// snapshotAll looks at all campaigns once, from one at random on, so that replicas do not do the same.
func (y *Replayer) snapshotAll(ctx context.Context) error {
	first, err := lease.Some(ctx, y.Cfg.Pool, y.Cfg.ConsumerGroup)
	if err != nil {
		return err
	}
	for _, projection := range y.Names() {
		k := y.Newest(projection)
		for _, from := range []string{first, ""} {
			for cursor, more := from, true; more && ctx.Err() == nil; {
				if cursor, more, err = y.snapshotSome(ctx, k, cursor); err != nil {
					return err
				}
				more = more && (from != "" || cursor <= first)
			}
		}
	}
	return nil
}

// snapshotSome makes the snapshots of a page of campaigns.
func (y *Replayer) snapshotSome(
	ctx context.Context, k *registry.Projection, cursor string,
) (last string, more bool, err error) {
	rows, err := y.Cfg.Pool.Query(ctx, queryLongCampaigns, y.Cfg.ConsumerGroup, cursor, y.Cfg.SnapshotEvery,
		k.Described.Name, k.Described.Version, snapshotCampaigns)
	if err != nil {
		return "", false, err
	}
	long := map[string]int64{}
	n, id, seq := 0, "", int64(0)
	if _, err := pgx.ForEachRow(rows, []any{&id, &seq}, func() error {
		if n++; seq > 0 {
			long[id] = seq
		}
		last = max(last, id)
		return nil
	}); err != nil {
		return "", false, err
	}
	for id, seq := range long {
		err := y.travel(ctx, k.Described.Name, id, func(_ *scratch, to func(int64) error) error { return to(seq) }, seq)
		var failed *failure.ApplyError
		switch {
		case errors.As(err, &failed), errors.Is(err, ErrTouched): // what can be looked back on is seen by whoever looks
			y.Cfg.Logger.DebugContext(ctx, "snapshot not made", "projection", k.Described.Name, "campaign", id, "error", err)
		case err != nil:
			return "", false, err
		}
	}
	return last, n == snapshotCampaigns, nil
}
