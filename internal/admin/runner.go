package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// RunnerConfig configures a [Runner].
type RunnerConfig struct {
	Pool     *pgxpool.Pool // required: uses two connections, three while it verifies or publishes
	Owner    string        // required: owner of leases, unique per process
	Logger   *slog.Logger  // default: discard
	Interval time.Duration // poll interval while idle, plus up to half of it at random; default 2s
	Batch    int           // items per transaction; default 200

	Projector   *projector.Projector // nil: does not verify
	Projections []string             // whose code it has

	Publishers []publisher.Publisher
	Topics     []publisher.Topic
	Catalogue  *catalogue.Catalogue

	LogRetention time.Duration // of tidemark.operator_log; 0: forever
}

// Runner does operations. Any number of runners may run.
type Runner struct {
	cfg    RunnerConfig
	prunes time.Time // when it prunes next
}

const (
	operationLease = 30 * time.Second
	pruneEach      = 10 * time.Minute
	pruneRows      = 10_000           // records per prune
	longestWait    = 30 * time.Second // after errors
)

// NewRunner returns an error if Pool or Owner is missing.
func NewRunner(cfg RunnerConfig) (*Runner, error) {
	if cfg.Pool == nil || cfg.Owner == "" {
		return nil, errors.New("admin: a runner needs Pool and Owner")
	}
	cfg.Logger = redact.Logger(cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)))
	cfg.Interval = cmp.Or(cfg.Interval, 2*time.Second)
	cfg.Batch = cmp.Or(cfg.Batch, 200)
	return &Runner{cfg: cfg}, nil
}

// Run works until ctx is cancelled. After an error it waits and retries. Rollbacks run in their own
// loop, so they do not wait for long operations.
func (r *Runner) Run(ctx context.Context) error {
	var rollbacks sync.WaitGroup
	rollbacks.Go(func() { r.loop(ctx, r.rollback) })
	r.loop(ctx, r.step)
	rollbacks.Wait()
	return nil
}

// loop takes steps until ctx is cancelled. It waits after a step that failed or had nothing to do.
func (r *Runner) loop(ctx context.Context, step func(context.Context) (bool, error)) {
	waiting := time.Duration(0)
	for ctx.Err() == nil {
		worked, err := step(ctx)
		wait := time.Duration(0)
		switch {
		case err != nil && ctx.Err() == nil:
			waiting = min(max(r.cfg.Interval, 2*waiting), longestWait)
			wait = waiting
			r.cfg.Logger.WarnContext(ctx, "an operation waits", "error", err, "wait", wait)
		case !worked:
			waiting = 0
			wait = r.cfg.Interval + rand.N(r.cfg.Interval/2)
		}
		if wait > 0 {
			loops.Sleep(ctx, wait)
		}
	}
}

// Step does one rollback, one batch or one operation without batches. It reports whether there was any.
func (r *Runner) Step(ctx context.Context) (bool, error) {
	if worked, err := r.rollback(ctx); worked || err != nil {
		return worked, err
	}
	return r.step(ctx)
}

// step is [Runner.Step] without rollbacks.
func (r *Runner) step(ctx context.Context) (bool, error) {
	if now := time.Now(); now.After(r.prunes) {
		r.prunes = now.Add(pruneEach)
		if err := r.prune(ctx); err != nil {
			return false, fmt.Errorf("prune what is kept of acts: %w", err)
		}
	}
	worked, err := r.batch(ctx)
	if worked || err != nil {
		return worked, err
	}
	return r.long(ctx)
}

func (r *Runner) prune(ctx context.Context) error {
	for _, sql := range []string{queryPruneKeys, queryPruneOperations} {
		if _, err := r.cfg.Pool.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if err := publications.LinkLog(ctx, r.cfg.Pool); err != nil || r.cfg.LogRetention == 0 {
		return err
	}
	_, err := publications.PruneLog(ctx, r.cfg.Pool, r.cfg.LogRetention, pruneRows)
	return err
}

// errPermanent is an error that a retry would not fix.
type errPermanent struct{ error }

func (e errPermanent) Unwrap() error { return e.error }

// batch does one batch of the operation that has waited longest.
func (r *Runner) batch(ctx context.Context) (bool, error) {
	var o Operation
	err := pgx.BeginFunc(ctx, r.cfg.Pool, func(tx pgx.Tx) (err error) {
		o, err = rows.One(ctx, tx, pgx.RowToStructByPos[Operation], "", queryTakeOperation, []string{
			string(OpRequeue), string(OpResolve), string(OpRetryParked), string(OpResolveParked), string(OpReplay),
			string(OpRepairGaps),
		})
		if err != nil {
			return err
		}
		done, err := r.part(ctx, tx, o)
		if err != nil || !done {
			return err
		}
		return rows.Do(ctx, tx, "", queryFinish, o.ID, "done", "")
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil && o.ID != 0:
		return true, r.fault(ctx, o, err)
	}
	return err == nil, err
}

// fault returns a transient error. For any other error it ends the operation as failed.
func (r *Runner) fault(ctx context.Context, o Operation, err error) error {
	if ctx.Err() != nil || passing(err) {
		return fmt.Errorf("operation %d, %s: %w", o.ID, o.Kind, err)
	}
	r.cfg.Logger.WarnContext(ctx, "an operation has failed", "operation", o.ID, "kind", o.Kind, "error", err)
	return rows.Do(ctx, r.cfg.Pool, "", queryFinish, o.ID, "failed", redact.Error(err))
}

// passing reports whether a retry may succeed: for infrastructure errors, and for errors of the database
// that are not permanent.
func passing(err error) bool {
	switch _, permanent := errors.AsType[errPermanent](err); {
	case permanent:
		return false
	case redact.SQLState(err) != "":
		return projection.Classify(err) != projection.ClassPermanent
	}
	return failure.IsInfrastructure(err)
}

// part does a part of an operation and reports whether it was the last.
func (r *Runner) part(ctx context.Context, tx pgx.Tx, o Operation) (bool, error) {
	if o.Kind == OpReplay || o.Kind == OpRepairGaps {
		return walk(ctx, tx, o)
	}
	items, err := rows.All(ctx, tx, pgx.RowToStructByPos[Item], "", queryLeft, o.ID, r.cfg.Batch)
	if err != nil || len(items) == 0 {
		return true, err
	}
	if o.Kind == OpRetryParked || o.Kind == OpResolveParked {
		err = r.onParked(ctx, tx, o, items)
	} else {
		err = r.onFailed(ctx, tx, o, items)
	}
	if err != nil {
		return false, err
	}
	return len(items) < r.cfg.Batch, r.tally(ctx, tx, o, items)
}

func (r *Runner) tally(ctx context.Context, tx pgx.Tx, o Operation, items []Item) error {
	var ords []int64
	var outcomes, details []string
	count := map[string]int64{}
	for _, i := range items {
		ords, outcomes, details = append(ords, i.Ord), append(outcomes, i.Outcome), append(details, i.Detail)
		count[i.Outcome]++
	}
	if _, err := tx.Exec(ctx, queryOutcomes, o.ID, ords, outcomes, details); err != nil {
		return err
	}
	return rows.Do(ctx, tx, "", queryCount, o.ID, count["done"], count["skipped"], count["failed"], nil)
}

func read[T any](o Operation) (request T, err error) {
	if err = json.Unmarshal(o.Request, &request); err != nil {
		err = errPermanent{fmt.Errorf("read the request: %w", err)}
	}
	return request, err
}
