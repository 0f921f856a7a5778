package retention

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/archive"
)

const (
	duty      = "retention"
	dutyTTL   = 2 * time.Minute
	lookEvery = time.Minute

	restoreDuty = "restore" // tidemark.ask_restore reads it
	restoreTTL  = 30 * time.Second
	askedEvery  = time.Second
)

var errTaken = errors.New("another process has the duty")

// Runner runs policies, and brings back what appends have asked for. All fields but Keep are required.
type Runner struct {
	Pool     *pgxpool.Pool
	Store    archive.Store
	Policies []Policy
	Keep     time.Duration // before what was brought back is archived again
	Owner    string        // of the duty: unique for each process
	Logger   *slog.Logger
}

// Run runs the policies that are due until ctx is cancelled. It waits out failures.
func (r *Runner) Run(ctx context.Context) {
	r.repeat(ctx, lookEvery, r.Step)
	_ = lease.DropDuty(context.WithoutCancel(ctx), r.Pool, duty, r.Owner) // otherwise it expires
}

// Serve is Run for requests of appends. It keeps its duty until that expires, so that requests are filed
// while workers restart.
func (r *Runner) Serve(ctx context.Context) { r.repeat(ctx, askedEvery, r.Restore) }

func (r *Runner) repeat(ctx context.Context, every time.Duration, step func(context.Context) error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := step(ctx); err != nil && ctx.Err() == nil {
			r.Logger.WarnContext(ctx, "retention waits", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Step runs the policies that are due, unless another process has the duty.
func (r *Runner) Step(ctx context.Context) error {
	if mine, err := lease.TakeDuty(ctx, r.Pool, duty, r.Owner, dutyTTL); err != nil || !mine {
		return err
	}
	names := make([]string, len(r.Policies))
	for i, p := range r.Policies {
		names[i] = p.Name
	}
	if err := rows.Do(ctx, r.Pool, "forget policies", queryForget, names); err != nil {
		return err
	}
	for _, p := range r.Policies {
		err := rows.Do(ctx, r.Pool, "note a policy", queryKnow, p.Name, p.ClosedFor, p.Types, p.Every, p.Rate)
		if err == nil {
			err = r.run(ctx, p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// run archives by a policy if it is due. What stops the policy is kept, for operators to see.
func (r *Runner) run(ctx context.Context, p Policy) error {
	begun, err := rows.All(ctx, r.Pool, pgx.RowToStructByPos[begin], "begin a policy", queryBegin, p.Name)
	if err != nil || len(begun) == 0 {
		return err
	}
	done, err := r.archive(ctx, p, begun[0])
	text := ""
	if err != nil {
		text = err.Error()
		r.Logger.WarnContext(ctx, "policy of retention has stopped, it runs again later", "policy", p.Name, "error", err)
	}
	r.Logger.InfoContext(ctx, "campaigns archived by a policy of retention", "policy", p.Name, "campaigns", done.Campaigns,
		"events", done.Events)
	return rows.Do(context.WithoutCancel(ctx), r.Pool, "end a policy", queryEnd, p.Name, done.Campaigns, done.Events,
		done.LeftOut, done.Left, text)
}

// Restore brings back the campaigns that are asked for and due, unless another process has the duty. A
// request that fails keeps the reason, and is tried again after a growing wait.
func (r *Runner) Restore(ctx context.Context) error {
	look, err := rows.One(ctx, r.Pool, pgx.RowTo[bool], "look for requests", queryLook, restoreDuty)
	if err != nil || !look {
		return err
	}
	if mine, err := lease.TakeDuty(ctx, r.Pool, restoreDuty, r.Owner, restoreTTL); err != nil || !mine {
		return err
	}
	if err := rows.Do(ctx, r.Pool, "forget requests", queryServed); err != nil {
		return err
	}
	ids, err := rows.All(ctx, r.Pool, pgx.RowTo[string], "claim requests", queryClaim)
	if err != nil || len(ids) == 0 {
		return err
	}
	done, err := archive.Restore(ctx, r.Pool, r.Store, archive.RestoreRequest{Campaigns: ids, Keep: r.Keep})
	text := ""
	if err != nil {
		text = err.Error()
	}
	return errors.Join(err, rows.Do(context.WithoutCancel(ctx), r.Pool, "note requests", queryNote, ids, done.Left, text))
}
