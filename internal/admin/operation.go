package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// OperationKind is what workers do in an operation.
type OperationKind string

// The kinds of operations.
const (
	OpRequeue       OperationKind = "requeue"        // failed campaigns
	OpResolve       OperationKind = "resolve"        // failed campaigns
	OpRetryParked   OperationKind = "retry_parked"   // parked events
	OpResolveParked OperationKind = "resolve_parked" // parked events
	OpReplay        OperationKind = "replay"         // all campaigns of a group
	OpRepairGaps    OperationKind = "repair_gaps"    // of a group
	OpVerify        OperationKind = "verify"         // a projection
	OpRepublish     OperationKind = "republish"      // a slice of a campaign to a publisher
	OpRollback      OperationKind = "rollback"       // a projection to the tables that a rebuild has replaced
)

// OperationKinds answers all kinds.
func OperationKinds() []OperationKind {
	return []OperationKind{
		OpRequeue, OpResolve, OpRetryParked, OpResolveParked, OpReplay, OpRepairGaps,
		OpVerify, OpRepublish, OpRollback,
	}
}

// OperationStates answers all states that an operation may have.
func OperationStates() []string { return []string{"running", "done", "aborted", "failed"} }

// Operation is something that workers do bit by bit.
type Operation struct {
	ID        int64           `json:"id"`
	Kind      OperationKind   `json:"kind"`
	Request   json.RawMessage `json:"request"` // what was asked for
	By        string          `json:"by"`
	Reason    string          `json:"reason"`
	State     string          `json:"state"`   // "running", "done", "aborted" or "failed"
	Total     int64           `json:"total"`   // items; 0: not known yet
	Done      int64           `json:"done"`    //
	Skipped   int64           `json:"skipped"` // they had changed by then, or were being written
	Failed    int64           `json:"failed"`
	Progress  json.RawMessage `json:"progress"` // depends on the kind; null: nothing yet
	Error     string          `json:"error"`    // why it has failed
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
	EndedAt   *time.Time      `json:"ended_at"`
	EndedBy   string          `json:"ended_by"` // who aborted it

	// Since is known where one operation is read that only has things tried again; else nil.
	Since *Since `json:"since" db:"-"`
}

// Item is one of the things that an operation is about.
type Item struct {
	Ord        int64  `json:"ord"` // its place, from 1
	CampaignID string `json:"campaign_id"`
	Subject    string `json:"subject"` // a projection; or a topic and a publisher, with a slash between them
	Seq        int64  `json:"seq"`
	Outcome    string `json:"outcome"` // "done", "skipped" or "failed"; "": not yet
	Detail     string `json:"detail"`
}

// OperationFilter chooses operations; what is empty is left open.
type OperationFilter struct {
	State  string
	Kind   OperationKind
	Before int64 // only those with a smaller id: that of the last one of the page before
	Limit  int   // default 50
}

// Operations lists operations, newest first.
func (a *Acts) Operations(ctx context.Context, f OperationFilter) ([]Operation, error) {
	if f.Limit == 0 {
		f.Limit = 50
	}
	return rows.All(ctx, a.cfg.Pool, pgx.RowToStructByPos[Operation], "list operations", queryOperations, f.State, f.Kind,
		f.Before, f.Limit)
}

// Operation answers one with what became of its items since, or [ErrNotFound].
func (a *Acts) Operation(ctx context.Context, id int64) (*Operation, error) {
	o, err := readOperation(ctx, a.cfg.Pool, id)
	if err == nil && o.Kind.Retries() {
		o.Since, err = a.since(ctx, o)
	}
	return o, err
}

func readOperation(ctx context.Context, db journal.Querier, id int64) (*Operation, error) {
	what := fmt.Sprintf("operation %d", id)
	o, err := rows.One(ctx, db, pgx.RowToAddrOfStructByPos[Operation], what, queryOperation, id)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return o, err
}

// Items lists what an operation is about, in order, after a place (0: from the first), up to limit (0: 100).
func (a *Acts) Items(ctx context.Context, id, after int64, limit int) ([]Item, error) {
	if limit == 0 {
		limit = 100
	}
	return rows.All(ctx, a.cfg.Pool, pgx.RowToStructByPos[Item], fmt.Sprintf("items of operation %d", id), queryItems, id,
		after, limit)
}

// Abort ends an operation after the batch that is under way; what was done stays done. Errors:
// [ErrNotFound], [ErrChanged] for one that has ended.
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

// sinceItems is how many items are looked at to tell what became of them.
const sinceItems = 10_000

// Since is what became of things that an operation gave back to workers to be tried again: it is done with them long
// before they are.
type Since struct {
	LookedAt    int64 `json:"looked_at"`    // the first of those that were done, up to 10,000
	Passed      int64 `json:"passed"`       // they worked
	Waiting     int64 `json:"waiting"`      // nothing is known yet
	FailedAgain int64 `json:"failed_again"` // at the same event
}

// Retries says whether items that are done are only to be tried again.
func (k OperationKind) Retries() bool { return k == OpRequeue || k == OpRetryParked }

func (a *Acts) since(ctx context.Context, o *Operation) (*Since, error) {
	items, err := rows.All(ctx, a.cfg.Pool, pgx.RowToStructByPos[Item], fmt.Sprintf("operation %d", o.ID), queryDone, o.ID,
		sinceItems)
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
