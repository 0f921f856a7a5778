package command

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/progress"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

const (
	// replayAsks is how many pairs are replayed without asking.
	replayAsks = 100

	// replayChunk is how many campaigns are counted in one statement.
	replayChunk = 1000
)

// filed is what a replay filed or, in a dry run, would file.
type filed struct {
	Pairs  int64
	Waited bool  // nothing is on its way any more
	Dead   int64 // pairs that died on the way, if it was waited for
}

// replay has projections apply events of campaigns again. No campaigns are all.
type replay struct {
	request deferred.ReplayRequest
	act     cli.Act
	asJSON  bool
	wait    bool

	missing bool // only campaigns of which the projection has nothing
}

func (r replay) run(ctx context.Context, env *cli.Env, pool *pgxpool.Pool) error {
	n, err := r.count(ctx, pool)
	if err != nil {
		return err
	}
	verb, did := "replay", "replayed"
	if r.missing {
		verb, did = "backfill", "backfilled"
	}
	document := filed{Pairs: n}
	if r.act.DryRun {
		if r.asJSON {
			return r.print(env, document)
		}
		env.Note("%s would be %s; nothing was changed.", pairs(n), did)
		return nil
	}
	if n > replayAsks {
		if err := env.Confirm(ctx, cli.Confirmation{
			What: verb + " " + pairs(n), Type: fmt.Sprint(n),
			Yes: r.act.Yes,
		}); err != nil {
			return err
		}
	}
	if document.Pairs, err = r.file(ctx, env, pool, n); err != nil {
		if ctx.Err() != nil {
			return cli.Exitf(cli.ExitPartial,
				"interrupted: %s are filed and will be replayed; the same command files all of them again", pairs(document.Pairs))
		}
		return err
	}
	if document.Pairs > 0 {
		r.warn(ctx, env, pool)
	}
	if r.wait {
		if document.Dead, err = r.await(ctx, env, pool, document.Pairs); err != nil {
			return err
		}
		document.Waited = true
	}
	return r.tell(env, document, did)
}

func (r replay) print(env *cli.Env, document filed) error {
	kind := admin.ActReplay
	if r.missing {
		kind = admin.ActBackfill
	}
	return printAct(env, kind, r.act.DryRun, document)
}

func (r replay) tell(env *cli.Env, document filed, did string) error {
	switch {
	case r.asJSON:
		if err := r.print(env, document); err != nil {
			return err
		}
	case document.Pairs == 0:
		env.Note("There is nothing to be %s.", did)
	case r.wait:
		env.Note("%s %s.", pairs(document.Pairs-document.Dead), did)
	default:
		env.Note("%s filed; workers apply them from now on: tidemark lag --watch shows how far they are.",
			pairs(document.Pairs))
	}
	if document.Dead > 0 {
		err := cli.Exitf(cli.ExitPartial, "%s died on the way", pairs(document.Dead))
		return cli.Hint(err, "tidemark failed list --status dead --group %s%s", cli.Quote(r.request.Group),
			r.projectionFlag())
	}
	return nil
}

func (r replay) projectionFlag() string {
	if r.request.Projection == "" {
		return ""
	}
	return " --projection " + cli.Quote(r.request.Projection)
}

func (r replay) count(ctx context.Context, pool *pgxpool.Pool) (n int64, err error) {
	if r.missing {
		return deferred.CountBackfill(ctx, pool, r.request.Group, r.request.Projection)
	}
	if len(r.request.Campaigns) == 0 {
		return deferred.CountReplay(ctx, pool, r.request)
	}
	for some := range slices.Chunk(r.request.Campaigns, replayChunk) {
		request := r.request
		request.Campaigns = some
		more, err := deferred.CountReplay(ctx, pool, request)
		if err != nil {
			return n, err
		}
		n += more
	}
	return n, nil
}

// file files the pairs, each chunk of campaigns in a transaction of its own.
func (r replay) file(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, expected int64) (int64, error) {
	var filed func(int64)
	if len(r.request.Campaigns) == 0 {
		meter := progress.New(env.Err, "pairs filed", expected)
		filed = func(n int64) { meter.Set(n, progress.Unknown) }
	}
	if r.missing {
		return admin.On(pool).Backfill(ctx, by(r.act), r.request.Group, r.request.Projection, filed)
	}
	return admin.On(pool).Replay(ctx, by(r.act), r.request, filed)
}

// warn says so if no worker runs.
func (r replay) warn(ctx context.Context, env *cli.Env, pool *pgxpool.Pool) {
	workers, err := lease.Workers(ctx, pool)
	for _, w := range workers {
		if w.ConsumerGroup == r.request.Group {
			return
		}
	}
	if err == nil {
		env.Note("No worker of consumer group %q is running: it goes on when one is started.", r.request.Group)
	}
}
