package failed

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Standing is the place of a failed campaign: the next event is NextSeq.
type Standing struct {
	CampaignID string
	Projection string
	NextSeq    int64
	Failed     bool // it has failed at that event
	Reset      bool // delete the campaign's rows in the projection's tables first

	Wait time.Duration `db:"-"` // time until it is due, once filed
}

func (s Standing) place() Place {
	return Place{NextSeq: s.NextSeq, Key: Key{Projection: s.Projection, CampaignID: s.CampaignID}}
}

// Standings queues on batch a read of the failed campaigns among campaignIDs, in no particular
// order. nil means the campaigns that an earlier lease.ClaimAhead on the connection claimed.
func Standings(batch *pgx.Batch, group string, campaignIDs []string, visit func(*Standing)) {
	batch.Queue(queryStandings, campaignIDs, group).Query(func(rows pgx.Rows) error {
		standings, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[Standing])
		for _, p := range standings {
			visit(p)
		}
		return err
	})
}

// Due returns the named projections' failed campaigns whose retry is due, ordered by campaign and projection.
func Due(
	ctx context.Context, db event.Querier, group string, campaignIDs, projections []string,
) ([]*Standing, error) {
	return rows.All(ctx, db, pgx.RowToAddrOfStructByPos[Standing], "read the failed campaigns that are due",
		queryDue, campaignIDs, group, projections)
}

// Keys returns the keys of a projection across campaigns that are behind, up to limit of them.
func Keys(ctx context.Context, db event.Querier, group, projection string, limit int) ([]*Standing, error) {
	return rows.All(ctx, db, pgx.RowToAddrOfStructByPos[Standing], "read the keys that are behind",
		queryKeys, group, projection, limit)
}

// DueKey is a key of a projection across campaigns that is due.
type DueKey struct {
	Standing
	At time.Time
}

// DueKeys returns up to limit keys of a projection across campaigns that are due, the oldest first.
// after is the last one of the page before; zero: the first page.
func DueKeys(
	ctx context.Context, db event.Querier, group, projection string, after DueKey, limit int,
) ([]*DueKey, error) {
	return rows.All(ctx, db, pgx.RowToAddrOfStructByPos[DueKey], "read the keys that are due",
		queryDueKeys, group, projection, after.At, after.CampaignID, limit)
}

// Resolved visits the events of a projection across campaigns that operators have resolved.
func Resolved(
	ctx context.Context, db event.Querier, projection string, visit func(key string, position int64),
) error {
	var key string
	var position int64
	return rows.Each(ctx, db, []any{&key, &position}, func() { visit(key, position) }, "read the resolved events",
		queryResolvedKeys, base(projection))
}

// File queues the filing of campaigns as catching up, each at its place. Existing rows stay as they
// are. The caller holds the campaigns' leases.
func File(batch *pgx.Batch, group string, standings []Standing) {
	campaigns, projections, seqs := columns(standings)
	resets, waits := make([]bool, len(standings)), make([]float64, len(standings))
	for i, s := range standings {
		resets[i], waits[i] = s.Reset, s.Wait.Seconds()
	}
	batch.Queue(queryFile, group, campaigns, projections, seqs, resets, waits)
}

// FileMoved files a joining projection for campaigns that have moved without it and that a rebuild
// has not copied, up to limit after the cursor ("": from the first). It returns the last campaign
// read and how many it read; fewer than limit means the last page. The caller holds the registry's
// lock.
func FileMoved(
	ctx context.Context, tx pgx.Tx, group, projection, after string, limit int,
) (last string, n int64, err error) {
	defer rows.Explain(&err, "file the campaigns that have moved")
	err = tx.QueryRow(ctx, queryFileMoved, group, projection, after, limit).Scan(&last, &n)
	return last, n, err
}

// Move queues the progress of campaigns that have not caught up yet, each to its new place. A
// failed campaign that passed its event leaves a row 'recovered'. With Reset a campaign's rows are
// still to be deleted. The caller holds the leases.
func Move(batch *pgx.Batch, standings []Standing) {
	campaigns, projections, seqs := columns(standings)
	resets := slice.Of(standings, func(s Standing) bool { return s.Reset })
	batch.Queue(queryMove, campaigns, projections, seqs, resets)
}

// Finish queues the removal of campaigns that have caught up; otherwise it is like [Move].
func Finish(batch *pgx.Batch, standings []Standing) {
	campaigns, projections, _ := columns(standings)
	batch.Queue(queryFinish, campaigns, projections)
}

// Rename gives a projection's failed campaigns, and the log's records of skipped events, to another
// name, which must have no failed campaigns. Its cost grows with their number. The caller holds the
// registry's lock. Work under way on these campaigns is lost.
func Rename(ctx context.Context, tx pgx.Tx, group, from, to string) error {
	return rows.Do(ctx, tx, fmt.Sprintf("rename the failed campaigns of projection %s", from),
		queryRename, group, from, to)
}

// Drop deletes failed campaigns of a projection that workers no longer apply: up to limit dead
// ones, and up to limit others. It returns how many it found. Call it until it finds none.
func Drop(ctx context.Context, tx pgx.Tx, group, projection string, limit int) (n int64, err error) {
	return rows.One(ctx, tx, pgx.RowTo[int64], fmt.Sprintf("delete the failed campaigns of projection %s", projection),
		queryDrop, group, projection, limit)
}
