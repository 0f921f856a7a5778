package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator/acts"
	"github.com/tidemark-go/tidemark/internal/progress"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

const (
	// waitInterval is the poll interval of --wait.
	waitInterval = 250 * time.Millisecond

	// outcomeQuiet ends the wait for retries that an operation has queued: nothing of them ended for so long.
	outcomeQuiet = 3 * time.Second

	// campaignsLookedAt is the maximum number of campaigns that --wait reads one by one. For more, it
	// counts all failed campaigns of the projection.
	campaignsLookedAt = 20

	// campaignFailed is the maximum number of projections read per campaign.
	campaignFailed = 1000
)

// follow shows the progress of an operation until it has ended and returns its result.
func (c *actCommand) follow(ctx context.Context, pool *pgxpool.Pool, started *admin.Outcome) error {
	var o admin.Operation
	if err := json.Unmarshal(started.Detail, &o); err != nil {
		return err
	}
	err := c.untilEnded(ctx, pool, &o)
	if err == nil && o.State == "done" && o.Kind.Retries() {
		err = retried(ctx, pool, &o)
	}
	if err != nil {
		return err
	}
	var dead error
	if o.State == "done" && o.Kind == admin.OpReplay {
		var of admin.GroupReplay
		if err := json.Unmarshal(o.Request, &of); err != nil {
			return err
		}
		dead = caughtUp(ctx, c.env, pool, failed.ReplayRequest{Group: of.Group, Projection: of.Projection}, o.Done)
	}
	if err := c.tellEnd(o); err != nil {
		return err
	}
	return cmp.Or(dead, endOf(o))
}

// untilEnded shows the progress of an operation until it has ended.
func (c *actCommand) untilEnded(ctx context.Context, pool *pgxpool.Pool, o *admin.Operation) error {
	var meter *progress.Meter
	for o.State == "running" {
		switch err := untilNext(ctx, waitInterval); {
		case err != nil:
			err := cli.Exitf(cli.ExitPartial, "stopped waiting; workers continue operation %d", o.ID)
			return cli.Hint(err, "tidemark operation show %d", o.ID)
		case o.Total > 0 && meter == nil:
			meter = progress.New(c.env.Err, "items", o.Total)
		case meter != nil:
			meter.Set(o.Done+o.Skipped+o.Failed, progress.Unknown)
		}
		now, err := admin.On(pool).Operation(ctx, o.ID)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil {
			*o = *now
		}
	}
	return nil
}

// tellEnd says how an operation has ended.
func (c *actCommand) tellEnd(o admin.Operation) error {
	if c.asJSON {
		document, err := acts.Did(c.act.Kind, o)
		if err != nil {
			return err
		}
		return c.env.PrintJSON(document)
	}
	switch s := o.Since; {
	case o.State != "done":
	case s != nil:
		c.env.Note("Operation %d is done: %d queued again, %d skipped, %d failed. Since then %d got past it, %d failed "+
			"again, %d wait.", o.ID, o.Done, o.Skipped, o.Failed, s.Passed, s.FailedAgain, s.Waiting)
	default:
		c.env.Note("Operation %d is done: %d done, %d skipped, %d failed.", o.ID, o.Done, o.Skipped, o.Failed)
	}
	return nil
}

// retried waits until all that an operation has queued again has passed or failed, or until none of it has
// for a while.
func retried(ctx context.Context, pool *pgxpool.Pool, o *admin.Operation) error {
	waiting, changed := int64(-1), time.Now()
	for time.Since(changed) < outcomeQuiet {
		now, err := admin.On(pool).Operation(ctx, o.ID)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		*o = *now
		if o.Since == nil || o.Since.Waiting == 0 {
			return nil
		}
		if o.Since.Waiting != waiting {
			waiting, changed = o.Since.Waiting, time.Now()
		}
		if untilNext(ctx, waitInterval) != nil {
			return nil
		}
	}
	return nil
}

// followReplay shows progress until the replayed campaigns have caught up.
func (c *actCommand) followReplay(
	ctx context.Context, pool *pgxpool.Pool, args []string, done *admin.Outcome,
) error {
	texts := c.given.texts(c.act.Params, args)
	text := func(name string) string { values, _ := texts(name); return strings.Join(values, "") }
	var filed acts.Filing
	if err := json.Unmarshal(done.Detail, &filed); err != nil {
		return err
	}
	dead := caughtUp(ctx, c.env, pool, failed.ReplayRequest{
		Group: text("group"), Projection: text("projection"), Campaigns: args,
	}, filed.Campaigns)
	if c.asJSON {
		if err := c.env.PrintJSON(done); err != nil {
			return err
		}
	}
	return dead
}

// endOf returns the end of an operation as an error with the exit code.
func endOf(o admin.Operation) (err error) {
	switch {
	case o.State == "aborted":
		err = cli.Exitf(cli.ExitConflict, "%s has aborted operation %d", o.EndedBy, o.ID)
	case o.State == "failed":
		err = errors.New(o.Error)
	case o.Failed > 0 && o.Kind == admin.OpVerify:
		err = cli.Exitf(cli.ExitDifferences, "%s", table.Count(o.Failed, "campaign")+" differ from what the journal says")
	case o.Since != nil && o.Since.FailedAgain > 0:
		err = cli.Exitf(cli.ExitPartial, "%d of the %d that were queued again failed again", o.Since.FailedAgain,
			o.Since.LookedAt)
	case o.Skipped > 0 && o.Done == 0 && o.Kind != admin.OpVerify:
		err = cli.Exitf(cli.ExitConflict, "none of %d was done: all have changed meanwhile, look again", o.Skipped)
	case o.Skipped > 0 && o.Kind != admin.OpVerify:
		err = cli.Exitf(cli.ExitPartial, "%d of %d have changed meanwhile and were skipped; run the same command for the "+
			"rest", o.Skipped, o.Total)
	default:
		return nil
	}
	return cli.Hint(err, "tidemark operation show %d", o.ID)
}

// untilNext waits for interval, or returns the error of ctx.
func untilNext(ctx context.Context, interval time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(interval):
		return nil
	}
}

// sayIfIdle warns if no worker is running.
func (c *actCommand) sayIfIdle(ctx context.Context, pool *pgxpool.Pool) {
	s, err := (&status.Reader{Pool: pool}).Read(ctx, status.SectionWorkers)
	if err == nil && s.Unread[status.SectionWorkers] == nil && !slices.ContainsFunc(s.Workers, status.Worker.Live) {
		c.env.Note("No worker is running: it continues when one starts.")
	}
}

// caughtUp shows progress until none of the n replayed campaigns is catching up or failed. The error
// counts dead ones.
func caughtUp(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, of failed.ReplayRequest, n int64) error {
	meter := progress.New(env.Err, "campaigns replayed", n)
	for {
		left, err := leftOf(ctx, pool, of)
		underWay, dead := left[failed.CatchingUp]+left[failed.Failed], left[failed.Dead]
		switch {
		case err != nil && ctx.Err() == nil:
			return err
		case err == nil && underWay+dead == 0:
			meter.Set(n, progress.Unknown)
			meter.Done()
			return nil
		case err == nil && underWay == 0:
			projection := ""
			if of.Projection != "" {
				projection = " --projection " + table.Quote(of.Projection)
			}
			return cli.Hint(cli.Exitf(cli.ExitPartial, "%s became dead", table.Count(dead, "campaign")),
				"tidemark failed list --status dead --group %s%s", table.Quote(of.Group), projection)
		}
		meter.Set(max(0, n-underWay-dead), progress.Unknown)
		if untilNext(ctx, waitInterval) != nil {
			err := cli.Exitf(cli.ExitPartial, "stopped waiting; the replay continues")
			return cli.Hint(err, "tidemark lag")
		}
	}
}

// leftOf counts the campaigns of a replay that have not caught up, by status.
func leftOf(ctx context.Context, pool *pgxpool.Pool, of failed.ReplayRequest) (sum map[failed.Status]int64, err error) {
	sum = map[failed.Status]int64{}
	if n := len(of.Campaigns); n == 0 || n > campaignsLookedAt {
		all, err := failed.Report(ctx, pool)
		for _, s := range all {
			if s.Group == of.Group && (of.Projection == "" || s.Projection == of.Projection) {
				sum[s.Status] += s.Campaigns
			}
		}
		return sum, err
	}
	for _, id := range of.Campaigns {
		list, err := failed.List(ctx, pool, failed.Filter{
			Group: of.Group, Projection: of.Projection, CampaignID: id, Limit: campaignFailed,
		})
		if err != nil {
			return sum, err
		}
		for _, p := range list {
			sum[p.Status]++
		}
	}
	return sum, nil
}
