package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-go/tidemark/internal/admin"
)

// Rebuild is new tables for a projection. Fields that are nil keep their defaults, or what a running rebuild has.
type Rebuild struct {
	Projection  string         // required
	Version     *int           // to build; default the highest that a worker has
	MaxShare    *float64       // of each worker's time; default 0.5
	AllowFailed *int64         // swap with up to this many failed campaigns; default 0
	Keep        *time.Duration // the replaced tables; default 24 hours
	Verify      *int           // random campaigns before the swap; 0: none; default 1000
	Ignore      []string       // columns that this verification ignores: column or table.column
}

// Rebuild builds new tables for a projection beside the live ones and swaps them in once they have caught up. All
// workers that have the code take part. begun is false if a rebuild was running: it got the options, and tries the
// swap again.
func (o Operator) Rebuild(ctx context.Context, r Rebuild) (begun bool, err error) {
	with := values{"projection": {r.Projection}, "ignore": r.Ignore}
	set(with, "version", r.Version)
	set(with, "max_share", r.MaxShare)
	set(with, "allow_failed", r.AllowFailed)
	set(with, "keep", r.Keep)
	set(with, "verify", r.Verify)
	var done struct{ Begun bool }
	err = o.do(ctx, "startRebuild", &done, with)
	return done.Begun, err
}

// set sets a value that is given.
func set[T any](with values, name string, value *T) {
	if value != nil {
		with[name] = []string{fmt.Sprint(*value)}
	}
}

// RollBack is the way back from a rebuild.
type RollBack struct {
	Projection  string        // required
	AllowBehind int64         // with up to this many campaigns behind; -1: any number
	Keep        time.Duration // the tables swapped out; default 24 hours
}

// RollBack puts back the tables that a rebuild has replaced. A worker does it: see [Operator.Operation]. Another
// RollBack undoes it. Errors: [ErrNoTables].
func (o Operator) RollBack(ctx context.Context, r RollBack) (Operation, error) {
	with := values{"projection": {r.Projection}, "allow_behind": {fmt.Sprint(r.AllowBehind)}}
	if r.Keep != 0 {
		with["keep"] = []string{r.Keep.String()}
	}
	return o.begin(ctx, "rollbackProjection", with)
}

// AbortRebuild ends the rebuild of a projection and removes what it has built.
func (o Operator) AbortRebuild(ctx context.Context, projection string) error {
	return o.do(ctx, "abortRebuild", nil, values{"projection": {projection}})
}

// RemoveProjection removes a projection from the registry, with its failed campaigns and its pause, and with tables
// also its tables with all rows. Remove it from the program first: a worker that starts with it registers it again.
// Errors: [ErrNoProjection], [ErrNeeded].
func (o Operator) RemoveProjection(ctx context.Context, projection string, tables bool) error {
	return o.do(ctx, "removeProjection", nil, values{"projection": {projection}, "tables": {fmt.Sprint(tables)}})
}

// RemoveGroup removes a consumer group with its work items, checkpoints and pauses. A new group of the name starts
// with the first event of every campaign. Stop its workers first: they register it when they start. It waits for
// appends that began before. If it is interrupted, call it again. Errors: [ErrInUse], [ErrNoGroup].
func (o Operator) RemoveGroup(ctx context.Context, group string) error {
	return o.do(ctx, "removeGroup", nil, values{"group": {group}})
}

// Operation is work that workers do in batches.
type Operation struct {
	ID      int64
	Kind    string // such as "rollback"
	State   string // "running", "done", "aborted" or "failed"
	Total   int64  // things to do; 0: unknown
	Done    int64
	Skipped int64 // changed in the meantime, or locked
	Failed  int64
	Error   string // why it failed
	By      string
	Reason  string
}

// Operation returns an operation as it is now, or [ErrNotFound].
func (o Operator) Operation(ctx context.Context, id int64) (Operation, error) {
	on, err := o.acts()
	if err != nil {
		return Operation{}, err
	}
	found, err := on.Operation(ctx, id)
	if err != nil {
		return Operation{}, err
	}
	return operationOf(found), nil
}

func (o Operator) begin(ctx context.Context, name string, with values) (Operation, error) {
	var begun admin.Operation
	if err := o.do(ctx, name, &begun, with); err != nil {
		return Operation{}, err
	}
	return operationOf(&begun), nil
}

func operationOf(o *admin.Operation) Operation {
	return Operation{
		ID: o.ID, Kind: string(o.Kind), State: o.State, Total: o.Total, Done: o.Done, Skipped: o.Skipped,
		Failed: o.Failed, Error: o.Error, By: o.By, Reason: o.Reason,
	}
}
