package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// OperationKind is a kind of operation.
type OperationKind string

// The kinds of operations, with what their items are.
const (
	OpRequeue       OperationKind = "requeue"        // failed campaigns
	OpResolve       OperationKind = "resolve"        // failed campaigns
	OpRetryParked   OperationKind = "retry_parked"   // parked events
	OpResolveParked OperationKind = "resolve_parked" // parked events
	OpReplay        OperationKind = "replay"         // all campaigns of a group
	OpRepairGaps    OperationKind = "repair_gaps"    // of a group
	OpVerify        OperationKind = "verify"         // a projection
	OpRepublish     OperationKind = "republish"      // a slice of a campaign to a publisher
	OpRollback      OperationKind = "rollback"       // a projection, to the tables that a rebuild replaced
)

// OperationKinds returns all kinds of operations.
func OperationKinds() []OperationKind {
	return []OperationKind{
		OpRequeue, OpResolve, OpRetryParked, OpResolveParked, OpReplay, OpRepairGaps,
		OpVerify, OpRepublish, OpRollback,
	}
}

// OperationStates returns all states of operations.
func OperationStates() []string { return []string{"running", "done", "aborted", "failed"} }

// Operation is work that workers do in batches.
type Operation struct {
	ID        int64           `json:"id"`
	Kind      OperationKind   `json:"kind"`
	Request   json.RawMessage `json:"request"` // parameters
	By        string          `json:"by"`
	Reason    string          `json:"reason"`
	State     string          `json:"state"`   // "running", "done", "aborted" or "failed"
	Total     int64           `json:"total"`   // items; 0: unknown
	Done      int64           `json:"done"`    //
	Skipped   int64           `json:"skipped"` // changed in the meantime, or locked
	Failed    int64           `json:"failed"`
	Progress  json.RawMessage `json:"progress"` // by kind; null: none yet
	Error     string          `json:"error"`    // why it failed
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
	EndedAt   *time.Time      `json:"ended_at"`
	EndedBy   string          `json:"ended_by"` // who aborted it

	// Since is set for requeues and retries, once they are done; else nil.
	Since *Since `json:"since" db:"-"`
}

// Item is one thing that an operation changes.
type Item struct {
	Ord        int64  `json:"ord"` // position, from 1
	CampaignID string `json:"campaign_id"`
	Subject    string `json:"subject"` // a projection, or topic/publisher
	Seq        int64  `json:"seq"`
	Outcome    string `json:"outcome"` // "done", "skipped" or "failed"; "": not done yet
	Detail     string `json:"detail"`
}

// OperationFilter chooses operations. Empty fields match all.
type OperationFilter struct {
	State  string
	Kind   OperationKind
	Before int64 // only smaller ids; 0: all
	Limit  int   // default 50
}

// Operations lists operations, newest first.
func (a *Acts) Operations(ctx context.Context, f OperationFilter) ([]Operation, error) {
	all, err := rows.All(ctx, a.cfg.Pool, pgx.RowToStructByPos[Operation], "list operations", queryOperations, f.State,
		f.Kind, f.Before, cmp.Or(f.Limit, 50))
	for i := range all {
		if o := &all[i]; err == nil && o.Kind.Retries() && o.State == "done" {
			o.Since, err = a.since(ctx, o, sinceListed)
		}
	}
	return all, err
}

// Operation returns one operation with its [Since], or [ErrNotFound].
func (a *Acts) Operation(ctx context.Context, id int64) (*Operation, error) {
	o, err := readOperation(ctx, a.cfg.Pool, id)
	if err == nil && o.Kind.Retries() {
		o.Since, err = a.since(ctx, o, sinceItems)
	}
	return o, err
}

func readOperation(ctx context.Context, db event.Querier, id int64) (*Operation, error) {
	what := fmt.Sprintf("operation %d", id)
	o, err := rows.One(ctx, db, pgx.RowToAddrOfStructByPos[Operation], what, queryOperation, id)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return o, err
}

// Items lists up to limit (0: 100) items of an operation, in order, after position after.
func (a *Acts) Items(ctx context.Context, id, after int64, limit int) ([]Item, error) {
	return rows.All(ctx, a.cfg.Pool, pgx.RowToStructByPos[Item], fmt.Sprintf("items of operation %d", id), queryItems, id,
		after, cmp.Or(limit, 100))
}

// Abort ends an operation after its current batch. What is done stays done. Errors: [ErrNotFound], and
// [ErrChanged] if it has ended.
func Abort(ctx context.Context, tx pgx.Tx, r Request, id int64) (*Operation, error) {
	tag, err := tx.Exec(ctx, queryAbort, id, r.Who.Name)
	if err != nil {
		return nil, err
	}
	o, err := readOperation(ctx, tx, id)
	if err == nil && tag.RowsAffected() == 0 {
		err = fmt.Errorf("operation %d is %s: %w", id, o.State, ErrChanged)
	}
	return o, err
}

const (
	sinceItems  = 10_000 // of a single operation
	sinceListed = 1000   // of each operation in a list
)

// Since is the outcome of the retries that an operation started. The operation ends before they do.
type Since struct {
	LookedAt    int64 `json:"looked_at"`    // items checked: the first 10,000 that are done; in a list 1,000
	Passed      int64 `json:"passed"`       // succeeded
	Waiting     int64 `json:"waiting"`      // not tried yet
	FailedAgain int64 `json:"failed_again"` // at the same event
}

// Retries reports whether the operation only queues its items for a retry.
func (k OperationKind) Retries() bool { return k == OpRequeue || k == OpRetryParked }

func (a *Acts) since(ctx context.Context, o *Operation, most int) (*Since, error) {
	items, err := rows.All(ctx, a.cfg.Pool, pgx.RowToStructByPos[Item], fmt.Sprintf("operation %d", o.ID), queryDone, o.ID,
		most)
	if err != nil {
		return nil, err
	}
	s := &Since{LookedAt: int64(len(items))}
	if o.Kind == OpRequeue {
		s.Passed, s.FailedAgain, err = failed.CountOutcomes(ctx, a.cfg.Pool, placesOf(items))
	} else {
		s.Passed, s.FailedAgain, err = publications.CountOutcomes(ctx, a.cfg.Pool, parkedOf(items))
	}
	s.Waiting = s.LookedAt - s.Passed - s.FailedAgain
	return s, err
}
