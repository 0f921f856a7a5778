package failed

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Standing is where a pair stands: before the event NextSeq.
type Standing struct {
	CampaignID string
	Projection string
	NextSeq    int64
	Failed     bool // it has failed at that event
	Reset      bool // the campaign's rows in the projection's tables are to be deleted first

	Wait time.Duration `db:"-"` // before it is due once it has been filed
}

func (s Standing) place() Place {
	return Place{NextSeq: s.NextSeq, Key: Key{Projection: s.Projection, CampaignID: s.CampaignID}}
}

// Standings queues a read of the pairs of campaigns on batch; nil: of those that a lease.ClaimAhead
// before it on the connection has claimed. visit gets them in no particular order.
func Standings(batch *pgx.Batch, group string, campaignIDs []string, visit func(*Standing)) {
	batch.Queue(queryStandings, campaignIDs, group).Query(func(rows pgx.Rows) error {
		standings, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[Standing])
		for _, p := range standings {
			visit(p)
		}
		return err
	})
}

// Due reads those pairs of campaigns that are due to be tried, for the projections named, in the
// order of campaign and projection.
func Due(
	ctx context.Context, db journal.Querier, group string, campaignIDs, projections []string,
) ([]*Standing, error) {
	return rows.All(ctx, db, pgx.RowToAddrOfStructByPos[Standing], "read the pairs that are due",
		queryDue, campaignIDs, group, projections)
}

// File queues the filing of pairs as rebuilding, each at its place. Those that are filed already
// stay as they are. The caller holds the campaigns' leases.
func File(batch *pgx.Batch, group string, standings []Standing) {
	campaigns, projections, seqs := columns(standings)
	resets, waits := make([]bool, len(standings)), make([]float64, len(standings))
	for i, s := range standings {
		resets[i], waits[i] = s.Reset, s.Wait.Seconds()
	}
	batch.Queue(queryFile, group, campaigns, projections, seqs, resets, waits)
}

// FileMoved files a projection that joins for the campaigns of its group that have moved without
// it, but for those that a rebuild has copied, up to limit of those after the cursor ("": from the
// first). It answers the last campaign it came to and how many it looked at: fewer than limit when
// it was the last page. The caller holds the registry's lock.
func FileMoved(
	ctx context.Context, tx pgx.Tx, group, projection, after string, limit int,
) (last string, n int64, err error) {
	if err := tx.QueryRow(ctx, queryFileMoved, group, projection, after, limit).Scan(&last, &n); err != nil {
		return "", 0, fmt.Errorf("file the campaigns that have moved: %w", err)
	}
	return last, n, nil
}

// Move queues the progress of pairs that have not caught up yet, each to its new place. One that
// had failed and has got past its event leaves a row 'recovered'. The caller holds the campaigns'
// leases.
func Move(batch *pgx.Batch, standings []Standing) {
	campaigns, projections, seqs := columns(standings)
	batch.Queue(queryMove, campaigns, projections, seqs)
}

// Finish queues the end of pairs that have caught up, as [Move] does.
func Finish(batch *pgx.Batch, standings []Standing) {
	campaigns, projections, _ := columns(standings)
	batch.Queue(queryFinish, campaigns, projections)
}

// Rename gives all pairs of a projection, and the log's records of what its policy skipped, to the
// projection of another name, which must have no pairs. Its cost grows with the number of these pairs.
// The caller holds the registry's lock. Work that is under way on a pair comes to nothing.
func Rename(ctx context.Context, tx pgx.Tx, group, from, to string) error {
	_, err := rows.Exec(ctx, tx, fmt.Sprintf("rename the pairs of projection %s", from), queryRename, group, from, to)
	return err
}

// Drop deletes pairs of a projection that workers no longer follow: up to limit dead ones, and as many
// others. It returns how many it found. Call it until it finds none.
func Drop(ctx context.Context, tx pgx.Tx, group, projection string, limit int) (n int64, err error) {
	return rows.One(ctx, tx, pgx.RowTo[int64], fmt.Sprintf("delete the pairs of projection %s", projection),
		queryDrop, group, projection, limit)
}
