package rebuild

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/exchange"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	pauses "github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/lookback"
)

// swapSet is the name of a set while two sets exchange names.
const swapSet registry.TableSet = "swap"

// ErrNotYet is returned while something is still under way.
var ErrNotYet = errors.New("not all campaigns have caught up")

// SwapIfReady swaps the tables of a rebuild if nothing is left behind. One worker at a time tries.
func (b *Rebuilder) SwapIfReady(ctx context.Context, name string, k *registry.Projection) error {
	o, err := ready(ctx, b.Cfg.Pool, b.Cfg.ConsumerGroup, name, near)
	if err != nil {
		return err
	}
	return b.onDuty(ctx, "swap "+name, func(ctx context.Context) (err error) {
		ctx, span := b.Traced(ctx, "swap", k)
		defer func() { span.End(0, wrong(err)) }()
		if err := b.prepareSwap(ctx, k, o); err != nil {
			return err
		}
		if err := letPass(ctx, b.Cfg.Pool, name, registry.NextTables, false); err != nil {
			return err
		}
		act := failed.Act{By: "worker " + b.Keeper.Owner, Reason: fmt.Sprintf("version %d is built", k.Described.Version)}
		err = registry.Exclusively(ctx, b.Cfg.Pool, name, func(tx pgx.Tx) error {
			if _, err := ready(ctx, tx, b.Cfg.ConsumerGroup, name, 0); err != nil {
				return err
			}
			return swap(ctx, tx, name, registry.NextTables, o.Keep, 0, act, "rebuilt")
		})
		if err != nil {
			return err
		}
		b.Cfg.Logger.InfoContext(ctx, "projection rebuilt, its tables are swapped", "projection", name,
			"version", k.Described.Version)
		return nil
	})
}

// onDuty runs do on one worker at a time; others get [ErrNotYet]. It holds no transaction open: the
// server might end it. A dead worker's duty expires like its leases. A takeover cancels do.
func (b *Rebuilder) onDuty(ctx context.Context, duty string, do func(context.Context) error) error {
	if mine, err := lease.TakeDuty(ctx, b.Cfg.Pool, duty, b.Keeper.Owner, b.Cfg.LeaseTTL); err != nil || !mine {
		return cmp.Or(err, ErrNotYet)
	}
	within, stop := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		defer stop()
		for mine := true; mine && loops.Sleep(within, b.Cfg.LeaseTTL/3); {
			var err error
			mine, err = lease.TakeDuty(within, b.Cfg.Pool, duty, b.Keeper.Owner, b.Cfg.LeaseTTL)
			mine = mine || err != nil // the duty may still be ours, and it fences nothing
		}
	})
	err := do(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = ErrNotYet // another worker does it
	}
	stop()
	renewing.Wait()
	if gone := lease.DropDuty(context.WithoutCancel(ctx), b.Cfg.Pool, duty, b.Keeper.Owner); gone != nil {
		b.Cfg.Logger.WarnContext(ctx, "a duty runs out by itself", "duty", duty, "error", gone)
	}
	return err
}

// readiness is what was requested of a rebuild, as queryReadRebuild returns it.
type readiness struct {
	AllowFailed int64
	Keep        time.Duration
	Verify      int      // campaigns
	Ignore      []string // columns
	Refused     bool     // within the last 10 s
}

// ready returns what prevents a swap: [ErrNotYet], or the reason to refuse it. Tables across campaigns
// may be behind the live ones by so many events.
func ready(ctx context.Context, db event.Querier, group, name string, events int64) (readiness, error) {
	o, err := rows.One(ctx, db, pgx.RowToStructByPos[readiness], "", queryReadRebuild, name)
	switch {
	case errors.Is(err, pgx.ErrNoRows): // another worker was quicker
		return o, ErrNotYet
	case err != nil:
		return o, err
	case o.Refused:
		return o, ErrNotYet
	}
	type left struct{ Behind, Failed int64 }
	n, err := rows.One(ctx, db, pgx.RowToStructByPos[left], "", queryBehind, group, registry.NextTables.Of(name),
		o.AllowFailed)
	if err != nil {
		return o, err
	}
	behind, err := ledger.Behind(ctx, db, registry.NextTables.Of(name), name, events+1)
	switch {
	case err != nil:
		return o, err
	case n.Behind > 0 || behind > events:
		return o, ErrNotYet
	case n.Failed > o.AllowFailed:
		return o, fmt.Errorf("at least %d of its campaigns are failed or dead, allowed are %d: fix and requeue them, or "+
			"allow them", n.Failed, o.AllowFailed)
	}
	return o, nil
}

// prepareSwap does the slow work ahead of the swap: it verifies a sample and gathers statistics.
// Without statistics the first plans of the new tables would be bad.
func (b *Rebuilder) prepareSwap(ctx context.Context, k *registry.Projection, o readiness) error {
	if o.Verify > 0 {
		passing, err := rows.All(ctx, b.Cfg.Pool, pgx.RowTo[string], "", queryPassing, k.Schema)
		if err != nil {
			return err
		}
		report, err := b.Replayer.Verify(ctx, lookback.VerifyRequest{
			Projection: k.Name, Sample: o.Verify,
			Ignore: append(passing, o.Ignore...), Concurrency: 1,
		})
		switch {
		case errors.Is(err, replay.ErrNotVerifiable):
			b.Cfg.Logger.InfoContext(ctx, "rebuilt tables are swapped without verification", "projection", k.Described.Name,
				"reason", err)
		case err != nil:
			return err
		case report.Differences() > 0:
			return fmt.Errorf("%d differences between the new tables and what the journal says, in %d of %d campaigns or keys "+
				"that were verified: ignore columns that hold the time of the write, or do not verify",
				report.Differences(), report.Differing, report.Campaigns)
		}
	}
	r := b.Seen.Load().Rows[k.Name]
	if r == nil || !r.Moves() {
		return ErrNotYet
	}
	for _, table := range r.TableNames {
		if _, err := b.Cfg.Pool.Exec(ctx, "ANALYZE "+pgx.Identifier{r.SchemaName, table}.Sanitize()); err != nil {
			return err
		}
	}
	return nil
}

// swap puts one of a projection's sets of tables in the place of the live one, which becomes the
// previous one and is kept for keep. No rebuild up to version declined, or up to one declined
// before, begins by itself afterwards. The caller holds the registry's lock.
func swap(
	ctx context.Context, tx pgx.Tx, name string, from registry.TableSet, keep time.Duration, declined int,
	act failed.Act, what string,
) error {
	sets, err := lockSets(ctx, tx, name)
	if err != nil {
		return err
	}
	live, replacement := sets[name], sets[from.Of(name)]
	if live == nil || replacement == nil || !replacement.Moves() {
		return ErrNotYet
	}
	if err := fence(ctx, tx, name); err != nil {
		return err
	}
	if kept := sets[registry.PreviousTables.Of(name)]; from == registry.NextTables && kept != nil {
		if err := dropSet(ctx, tx, kept); err != nil {
			return err
		}
	}
	attic, err := swapTables(ctx, tx, name, from, live, replacement)
	if err != nil {
		return err
	}
	group, aside, previous := live.ConsumerGroup, swapSet.Of(name), registry.PreviousTables.Of(name)
	for _, move := range []renamed{
		{from: name, to: aside, schema: attic, keep: &keep},
		{from: from.Of(name), to: name, schema: live.SchemaName, declined: max(declined, live.Declined)},
		{from: aside, to: previous, schema: attic, keep: &keep},
	} {
		if err := move.do(ctx, tx, group); err != nil {
			return err
		}
	}
	if err := forgetRebuild(ctx, tx, name); err != nil {
		return err
	}
	if err := ledger.ReactOn(ctx, tx, name, append(setsOf(name), aside)); err != nil {
		return err
	}
	return failed.Write(ctx, tx, what, group, name, act)
}

// fence ends the work of all readers of a projection's sets, at once and in the order of others. It refuses a process
// of which keys wait.
func fence(ctx context.Context, tx pgx.Tx, name string) error {
	if err := ledger.Fence(ctx, tx, setsOf(name)); err != nil {
		return err
	}
	waits, err := ledger.Unreacted(ctx, tx, name)
	if err == nil && waits {
		return fmt.Errorf("keys of process %s wait, and other tables would not react to their events: requeue them with "+
			"code of the same version that can, or resolve their events", name)
	}
	return err
}

// swapTables puts tables in the place of the live ones, which it moves to the schema that it returns.
func swapTables(
	ctx context.Context, tx pgx.Tx, name string, from registry.TableSet, live, replacement *lockedSet,
) (attic string, err error) {
	attic = registry.PreviousTables.Schema(name, live.SchemaName)
	if from == registry.PreviousTables {
		attic = swapSet.Schema(name, live.SchemaName)
	}
	if err := rows.Do(ctx, tx, "", "CREATE SCHEMA "+pgx.Identifier{attic}.Sanitize()); err != nil {
		return "", err
	}
	if err := rows.Do(ctx, tx, "", registry.QueryMaking,
		registry.LiveTables.SearchPath(name, live.SchemaName)); err != nil {
		return "", err
	}
	if from == registry.NextTables {
		added, err := addedTo(ctx, tx, live, replacement)
		if err != nil {
			return "", err
		}
		if len(added) > 0 {
			return "", fmt.Errorf("%s was added to the live tables since the rebuild began: add it to the new ones in "+
				"schema %s too, or drop it", added[0].Name, replacement.SchemaName)
		}
	}
	if err := exchange.Swap(ctx, tx, live.tables(), replacement.tables(), attic,
		kind.FunctionPrefix(name, live.Version)); err != nil {
		return "", err
	}
	if _, err := tx.Exec(ctx, "DROP SCHEMA "+pgx.Identifier{replacement.SchemaName}.Sanitize()); err != nil {
		return "", err
	}
	if from == registry.PreviousTables {
		if _, err := tx.Exec(ctx, fmt.Sprintf("ALTER SCHEMA %s RENAME TO %s", pgx.Identifier{attic}.Sanitize(),
			pgx.Identifier{replacement.SchemaName}.Sanitize())); err != nil {
			return "", err
		}
		attic = replacement.SchemaName
	}
	return attic, nil
}

// renamed is a set of tables that gets another name, and with it another meaning.
type renamed struct {
	from, to string
	schema   string         // that its tables are in
	keep     *time.Duration // how long it is kept; nil: it is live
	declined int            // up to which version no rebuild begins by itself
}

func (r renamed) do(ctx context.Context, tx pgx.Tx, group string) error {
	if err := rows.Do(ctx, tx, "", queryTakeSet, r.from, r.to, r.schema, r.keep, r.declined); err != nil {
		return err
	}
	if err := failed.Rename(ctx, tx, group, r.from, r.to); err != nil {
		return err
	}
	if err := ledger.Rename(ctx, tx, r.from, r.to); err != nil {
		return err
	}
	return pauses.Rename(ctx, tx, group, r.from, r.to)
}
