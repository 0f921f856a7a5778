package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// ErrLost is returned by the transaction of a [Keeper.Advance] if a lease is no longer held: it
// expired and was taken over, or its checkpoint has moved. Roll the transaction back.
var ErrLost = errors.New("lease lost")

// stateLost is the SQLSTATE that tidemark.advance raises.
const stateLost = "TM010"

// Lease is the ownership of one campaign in one consumer group until it expires.
type Lease struct {
	CampaignID string
	Generation int64 // the fencing token: +1 at each acquisition
	Checkpoint int64 // the last seq applied

	Suspect *Suspect `db:"-"` // set if processes died with it at this checkpoint; see [Keeper.Survived]
}

// DB runs statements: a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx.
type DB interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// Keeper acquires and keeps the leases of one owner in one consumer group. It holds only its
// settings, and is safe for concurrent use.
type Keeper struct {
	Group string
	Owner string        // unique to a run of a process: never reused after a restart
	TTL   time.Duration // a lease not renewed for this long may be taken over
	Knows string        // JSON: the versions of projections that the program has, by name; "": none

	Statements string // JSON: hashes of the statements of its SQL files, by name/version; "": none
}

// Claimed is the outcome of a claim.
type Claimed struct {
	Leases []Lease   // in order of campaign id
	Cursor string    // where the next claim starts; empty after a full round
	Retry  time.Time // the earliest expiry of a lease in the way, or the earliest due retry; zero: unknown
	Dead   int64     // rows of the outbox: met in its index by a claim around it, or that vacuum has yet to remove
	Recent Recent    // where the next [Keeper.ClaimRecent] starts

	crashed []string // campaigns that may be suspects
}

// Suspicious reports whether processes may have died on some of the campaigns. See [Keeper.Suspects].
func (c Claimed) Suspicious() bool { return len(c.crashed) > 0 }

// Recent is where [Keeper.ClaimRecent] looks for work: in the newest events if it is zero.
type Recent struct {
	Since int64    // events after this position
	Known []string // campaigns that may have work
	Turn  int      // so many other campaigns to look at in turn
	After string   // the last one that was looked at
}

// Claim leases up to limit campaigns that have work in the outbox and no live lease, from just
// after cursor around the outbox. With wait above zero it first asks appends to notify for that
// long ([Wait]).
func (k Keeper) Claim(ctx context.Context, db DB, cursor string, limit int, wait time.Duration) (Claimed, error) {
	return k.claim(ctx, db, wait, queryClaim, k.Group, k.Owner, cursor, limit, k.TTL)
}

// ClaimRecent is a [Keeper.Claim] that looks only at the campaigns of recent events and those known
// to have work, and at a few others in turn. It does not meet dead rows of the outbox. Work that is
// older, or was filed without an event, is found when it is its campaign's turn.
func (k Keeper) ClaimRecent(ctx context.Context, db DB, in Recent, limit int, wait time.Duration) (Claimed, error) {
	return k.claim(ctx, db, wait, queryClaimRecent, k.Group, k.Owner, in.Since, in.Known, in.After, in.Turn, limit, k.TTL)
}

func (k Keeper) claim(ctx context.Context, db DB, wait time.Duration, query string, args ...any) (Claimed, error) {
	batch := &pgx.Batch{}
	if wait > 0 {
		batch.Queue(queryWait, wait.Milliseconds())
	}
	var claimed Claimed
	batch.Queue(query, args...).QueryRow(func(row pgx.Row) error {
		return claimed.scan(row)
	})
	if err := db.SendBatch(ctx, batch).Close(); err != nil {
		return Claimed{}, fmt.Errorf("claim campaigns: %w", err)
	}
	if err := k.Suspects(ctx, db, claimed); err != nil {
		return Claimed{}, err
	}
	return claimed, nil
}

// ClaimAhead queues a claim on batch; visit gets the result. Statements queued after it that name
// no campaigns use the claimed ones. Put it between BEGIN and COMMIT to commit it by itself. Call
// [Keeper.Suspects] for campaigns on which processes died.
func (k Keeper) ClaimAhead(batch *pgx.Batch, cursor string, limit int, wait time.Duration, visit func(Claimed)) {
	if wait > 0 {
		batch.Queue(queryWait, wait.Milliseconds())
	}
	batch.Queue(queryClaimAhead, k.Group, k.Owner, cursor, limit, k.TTL).QueryRow(func(row pgx.Row) error {
		var claimed Claimed
		var kept string
		if err := claimed.scan(row, &kept, &kept); err != nil {
			return fmt.Errorf("claim campaigns: %w", err)
		}
		visit(claimed)
		return nil
	})
}

func (c *Claimed) scan(row pgx.Row, more ...any) error {
	var ids []string
	var generations, checkpoints []int64
	var retry *time.Time
	columns := []any{
		&ids, &generations, &checkpoints, &c.Cursor, &retry, &c.crashed, &c.Dead, &c.Recent.Since, &c.Recent.Known,
		&c.Recent.After,
	}
	if err := row.Scan(append(columns, more...)...); err != nil {
		return err
	}
	c.Leases = make([]Lease, len(ids))
	for i, id := range ids {
		c.Leases[i] = Lease{CampaignID: id, Generation: generations[i], Checkpoint: checkpoints[i]}
	}
	if retry != nil {
		c.Retry = *retry
	}
	return nil
}

// ClaimBehind leases up to limit failed campaigns whose retry is due, for one of projections.
func (k Keeper) ClaimBehind(ctx context.Context, db DB, projections []string, limit int) (Claimed, error) {
	var claimed Claimed
	row := db.QueryRow(ctx, queryClaimBehind, k.Group, k.Owner, projections, limit, k.TTL)
	if err := claimed.scan(row); err != nil {
		return Claimed{}, fmt.Errorf("claim what is behind: %w", err)
	}
	return claimed, k.Suspects(ctx, db, claimed)
}

// Step is a transaction's change to one lease: it moves the checkpoint or leaves it (To equal to
// From), and keeps or releases the lease.
type Step struct {
	CampaignID string
	Generation int64
	From, To   int64
	Release    bool

	Events int64  // number of events applied
	Hash   *int64 // of their ids: uuid_hash_extended(id, 0), XORed; nil: unknown, from then on for the whole campaign
}

// Advance queues the fence on batch. Each lease still held gets its new checkpoint and is released
// or renewed. If one is lost, the statement fails with an error that matches [ErrLost] (see
// [Error]). Advance must be the transaction's last statement.
func (k Keeper) Advance(batch *pgx.Batch, steps []Step) {
	ids := make([]string, len(steps))
	n := len(steps)
	numbers, hashes := make([]int64, 4*n), make([]*int64, n)
	generations, from, to, events := numbers[:n], numbers[n:2*n], numbers[2*n:3*n], numbers[3*n:]
	release := make([]bool, len(steps))
	for i, s := range steps {
		ids[i], generations[i], from[i], to[i], release[i] = s.CampaignID, s.Generation, s.From, s.To, s.Release
		events[i], hashes[i] = s.Events, s.Hash
	}
	batch.Queue(queryAdvance, k.Group, k.Owner, ids, generations, from, to, release, k.TTL, events, hashes)
}

// Renew renews leases and returns those still held.
func (k Keeper) Renew(ctx context.Context, db DB, leases []Lease) ([]Lease, error) {
	ids, generations := split(leases)
	held, err := rows.All(ctx, db, pgx.RowTo[string], "renew leases",
		queryRenew, k.Group, k.Owner, ids, generations, k.TTL)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(leases), func(l Lease) bool {
		return !slices.Contains(held, l.CampaignID)
	}), nil
}

// Release releases leases without moving their checkpoints. It leaves leases of other owners alone.
func (k Keeper) Release(ctx context.Context, db DB, leases []Lease) error {
	if len(leases) == 0 {
		return nil
	}
	ids, generations := split(leases)
	return rows.Do(ctx, db, "release leases", queryRelease, k.Group, k.Owner, ids, generations)
}

// Error makes a lost lease's database error match [ErrLost]. It returns other errors unchanged.
func Error(err error) error {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == stateLost {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}

func split(leases []Lease) (ids []string, generations []int64) {
	ids, generations = make([]string, len(leases)), make([]int64, len(leases))
	for i, l := range leases {
		ids[i], generations[i] = l.CampaignID, l.Generation
	}
	return ids, generations
}

// TakeOver queues on batch the acquisition of campaigns for a transaction that does their work
// itself and ends with [Keeper.Advance], releasing them. The former holder fails at its fence.
// Paused campaigns are left out and, unless wait is set, also those that are held or that another
// transaction is writing. Name each campaign once. taken gets the leases.
func (k Keeper) TakeOver(batch *pgx.Batch, campaignIDs []string, wait bool, taken func([]Lease)) {
	batch.Queue(queryTakeOver, k.Group, k.Owner, campaignIDs, wait, k.TTL).Query(func(rows pgx.Rows) error {
		leases, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Lease])
		if err == nil {
			taken(leases)
		}
		return err
	})
}

// StillHeld returns the campaigns whose owner, generation and checkpoint are as the caller knows
// them. It omits leases that are being written. It is a hint only; the fence decides.
func (k Keeper) StillHeld(ctx context.Context, db DB, leases []Lease) ([]string, error) {
	ids, generations := split(leases)
	checkpoints := make([]int64, len(leases))
	for i, l := range leases {
		checkpoints[i] = l.Checkpoint
	}
	return rows.All(ctx, db, pgx.RowTo[string], "look which leases are held",
		queryStillHeld, k.Group, k.Owner, ids, generations, checkpoints)
}

// Fence takes campaigns from their holders, for a transaction that changes data the holders relied
// on, such as the place of a failed campaign. Work under way fails with [ErrLost] and runs again
// after tx commits. Until then claims skip the campaigns. Paused campaigns stay paused.
//
// Call it once in tx, with all campaigns, before writing or locking rows of tidemark.failed.
// Workers lock a group's leases first, in the order of campaign_id; another order may deadlock with
// them.
func Fence(ctx context.Context, tx pgx.Tx, group string, campaignIDs []string) error {
	if len(campaignIDs) == 0 {
		return nil
	}
	return rows.Do(ctx, tx, fmt.Sprintf("fence %d campaigns of group %s", len(campaignIDs), group),
		queryFence, group, campaignIDs)
}

const ownerPaused = "paused"

// Pause takes a campaign's lease from its holder for d from the start of tx, or until [Resume] if d
// is zero. Until then no worker can claim the campaign. Work under way fails with [ErrLost].
func Pause(ctx context.Context, tx pgx.Tx, group, campaignID string, d time.Duration) error {
	var lasts *time.Duration
	if d > 0 {
		lasts = &d
	}
	return rows.Do(ctx, tx, fmt.Sprintf("pause campaign %q of group %s", campaignID, group),
		queryPause, group, campaignID, ownerPaused, lasts)
}

// Resume releases a paused campaign. It leaves a worker's lease alone.
func Resume(ctx context.Context, tx pgx.Tx, group, campaignID string) error {
	return rows.Do(ctx, tx, fmt.Sprintf("resume campaign %q of group %s", campaignID, group),
		queryUnpause, group, campaignID, ownerPaused)
}
