package projector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/deferred"
	"github.com/tidemark-go/tidemark/pkg/lease"
	pauses "github.com/tidemark-go/tidemark/pkg/pause"
	"github.com/tidemark-go/tidemark/pkg/projector/internal/exchange"
	"github.com/tidemark-go/tidemark/pkg/projector/internal/function"
)

// swapSet is the name that a set has while two change theirs.
const swapSet tableSet = "swap"

// errNotYet says that something is still on its way.
var errNotYet = errors.New("not all campaigns have caught up")

// swapIfReady exchanges the tables of a rebuild if nothing is left behind. Of the workers that try, one does.
func (b *rebuilder) swapIfReady(ctx context.Context, name string, k *known) error {
	o, err := ready(ctx, b.cfg.Pool, b.cfg.ConsumerGroup, name)
	if err != nil {
		return err
	}
	return b.onDuty(ctx, "swap "+name, func(ctx context.Context) (err error) {
		ctx, span := b.traced(ctx, "swap", k)
		defer func() { span.End(0, wrong(err)) }()
		if err := b.prepareSwap(ctx, k, o); err != nil {
			return err
		}
		act := deferred.Act{By: "worker " + b.keeper.Owner, Reason: fmt.Sprintf("version %d is built", k.spec.Version)}
		err = exclusively(ctx, b.cfg.Pool, name, func(tx pgx.Tx) error {
			if _, err := ready(ctx, tx, b.cfg.ConsumerGroup, name); err != nil {
				return err
			}
			return swap(ctx, tx, name, nextTables, o.keep, 0, act, "rebuilt")
		})
		if err != nil {
			return err
		}
		b.cfg.Logger.InfoContext(ctx, "projection rebuilt, its tables are exchanged", "projection", name, "version", k.spec.Version)
		return nil
	})
}

// onDuty does something that one worker at a time is to do, or answers [errNotYet]. No transaction
// is open meanwhile, which the server might end. The duty runs out with the worker's leases if it
// dies, and what is done is stopped if another worker has taken it over.
func (b *rebuilder) onDuty(ctx context.Context, duty string, do func(context.Context) error) error {
	if mine, err := lease.TakeDuty(ctx, b.cfg.Pool, duty, b.keeper.Owner, b.cfg.LeaseTTL); err != nil || !mine {
		return cmp.Or(err, errNotYet)
	}
	within, stop := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		defer stop()
		for mine := true; mine && pause(within, b.cfg.LeaseTTL/3); {
			var err error
			mine, err = lease.TakeDuty(within, b.cfg.Pool, duty, b.keeper.Owner, b.cfg.LeaseTTL)
			mine = mine || err != nil // it may be had still, and nothing is fenced by it
		}
	})
	err := do(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = errNotYet // another does it
	}
	stop()
	renewing.Wait()
	if gone := lease.DropDuty(context.WithoutCancel(ctx), b.cfg.Pool, duty, b.keeper.Owner); gone != nil {
		b.cfg.Logger.WarnContext(ctx, "a duty runs out by itself", "duty", duty, "error", gone)
	}
	return err
}

// readiness is what was asked for of a rebuild that is ready.
type readiness struct {
	allowFailed int64
	keep        time.Duration
	verify      int      // campaigns
	ignore      []string // columns
	refused     bool     // a moment ago
}

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// ready says what keeps a rebuild's tables from being exchanged: [errNotYet], or why it will not be.
func ready(ctx context.Context, db querier, group, name string) (o readiness, err error) {
	var behind, failed int64
	err = db.QueryRow(ctx, queryReadRebuild, name).Scan(&o.allowFailed, &o.keep, &o.verify, &o.ignore, &o.refused)
	if errors.Is(err, pgx.ErrNoRows) {
		return o, errNotYet // somebody else was quicker
	}
	if err != nil {
		return o, err
	}
	if o.refused {
		return o, errNotYet
	}
	if err := db.QueryRow(ctx, queryBehind, group, nextTables.of(name), o.allowFailed).Scan(&behind, &failed); err != nil {
		return o, err
	}
	switch {
	case behind > 0:
		return o, errNotYet
	case failed > o.allowFailed:
		return o, fmt.Errorf("at least %d of its campaigns are failed or dead, allowed are %d: mend and requeue them, or allow them", failed, o.allowFailed)
	}
	return o, nil
}

// prepareSwap does ahead of the exchange what takes time: it counts rows, verifies a sample, and gathers statistics, without which the first plans of the new tables would be bad ones.
func (b *rebuilder) prepareSwap(ctx context.Context, k *known, o readiness) error {
	if o.verify > 0 {
		if err := b.countRows(ctx, k); err != nil {
			return err
		}
		rows, err := b.cfg.Pool.Query(ctx, queryPassing, k.schema)
		if err != nil {
			return err
		}
		passing, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		report, err := b.replayer.Verify(ctx, VerifyRequest{Projection: k.name, Sample: o.verify, Ignore: append(passing, o.ignore...), Concurrency: 1})
		switch {
		case errors.Is(err, ErrNotVerifiable):
			b.cfg.Logger.InfoContext(ctx, "rebuilt tables are exchanged unverified", "projection", k.spec.Name, "reason", err)
		case err != nil:
			return err
		case report.Differences() > 0:
			return fmt.Errorf("%d differences between the new tables and what the journal says, in %d of %d campaigns that were verified: name columns that hold the time of the write as to be ignored, or do not verify",
				report.Differences(), report.Differing, report.Campaigns)
		}
	}
	if err := b.addLate(ctx, k); err != nil {
		return err
	}
	if live := b.seen.Load().rows[k.spec.Name]; live != nil && live.Version == k.spec.Version { // they can be made again; the exchange has few left to forget
		if _, err := b.maintainer.forgetSnapshots(ctx, live.Name, live.Version); err != nil {
			return err
		}
	}
	r := b.seen.Load().rows[k.name]
	if r == nil {
		return errNotYet
	}
	for _, table := range r.TableNames {
		if _, err := b.cfg.Pool.Exec(ctx, "ANALYZE "+pgx.Identifier{r.SchemaName, table}.Sanitize()); err != nil {
			return err
		}
	}
	return nil
}

// addLate gives the new tables what was added to the live ones since they were made: indexes without keeping writers from them.
func (b *rebuilder) addLate(ctx context.Context, k *known) error {
	var added []exchange.Addition
	err := pgx.BeginFunc(ctx, b.cfg.Pool, func(tx pgx.Tx) error {
		rows, err := lockSets(ctx, tx, k.spec.Name)
		if err != nil {
			return err
		}
		live, set := rows[k.spec.Name], rows[k.name]
		if live == nil || set == nil {
			return errNotYet
		}
		added, err = addedTo(ctx, tx, live, set)
		return err
	})
	if err != nil {
		return err
	}
	for _, a := range added {
		sql := a.SQL
		for _, create := range []string{"CREATE INDEX ", "CREATE UNIQUE INDEX "} {
			if strings.HasPrefix(sql, create) {
				sql = create + "CONCURRENTLY " + strings.TrimPrefix(sql, create)
			}
		}
		if err := b.runIn(ctx, k, sql); err != nil {
			return fmt.Errorf("give the new tables %s, which was added to those that are read: %w", a.Name, err)
		}
	}
	return nil
}

// runIn runs a statement outside of any transaction, with the search_path of a set of tables.
func (b *rebuilder) runIn(ctx context.Context, k *known, sql string) error {
	conn, err := b.cfg.Pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "SET search_path TO "+k.path); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	if _, back := conn.Exec(context.WithoutCancel(ctx), "RESET search_path"); back != nil {
		_ = conn.Conn().Close(context.WithoutCancel(ctx))
	}
	return err
}

// swap puts one of a projection's sets of tables in the place of the live one, which becomes the previous one and is kept for so long. No rebuild of version declined, or of one that was declined before, or a lower one, begins
// by itself afterwards. The caller holds the registry's lock.
func swap(ctx context.Context, tx pgx.Tx, name string, from tableSet, keep time.Duration, declined int, act deferred.Act, what string) error {
	rows, err := lockSets(ctx, tx, name)
	if err != nil {
		return err
	}
	live, replacement := rows[name], rows[from.of(name)]
	switch {
	case live == nil || replacement == nil || replacement.State != stateActive:
		return errNotYet
	case replacement.Paused:
		return errNotYet
	}
	if kept := rows[previousTables.of(name)]; from == nextTables && kept != nil {
		if err := dropSet(ctx, tx, kept); err != nil {
			return err
		}
	}
	attic := previousTables.schema(name, live.SchemaName)
	if from == previousTables {
		attic = swapSet.schema(name, live.SchemaName)
	}
	if _, err := tx.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{attic}.Sanitize()); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, querySearchPath, liveTables.searchPath(name, live.SchemaName)); err != nil {
		return err
	}
	if from == nextTables {
		if added, err := addedTo(ctx, tx, live, replacement); err != nil || len(added) > 0 {
			return errors.Join(err, errNotYet) // the next attempt adds it
		}
	}
	if err := exchange.Swap(ctx, tx, live.tables(), replacement.tables(), attic, function.Prefix(name, live.Version)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "DROP SCHEMA "+pgx.Identifier{replacement.SchemaName}.Sanitize()); err != nil {
		return err
	}
	if from == previousTables {
		if _, err := tx.Exec(ctx, fmt.Sprintf("ALTER SCHEMA %s RENAME TO %s", pgx.Identifier{attic}.Sanitize(), pgx.Identifier{replacement.SchemaName}.Sanitize())); err != nil {
			return err
		}
		attic = replacement.SchemaName
	}
	for _, r := range []struct {
		from, to tableSet
		schema   string
		kept     *time.Duration
		declined int
	}{
		{liveTables, swapSet, attic, &keep, 0},
		{from, liveTables, live.SchemaName, nil, max(declined, live.Declined)},
		{swapSet, previousTables, attic, &keep, 0},
	} {
		if err := rename(ctx, tx, live.ConsumerGroup, r.from.of(name), r.to.of(name), r.schema, r.kept, r.declined); err != nil {
			return err
		}
	}
	if live.Version == replacement.Version { // others have snapshots of their own
		if _, err := tx.Exec(ctx, queryForgetSnapshots, name); err != nil {
			return err
		}
	}
	if err := forgetRebuild(ctx, tx, name); err != nil {
		return err
	}
	return deferred.Write(ctx, tx, what, live.ConsumerGroup, name, act)
}

func rename(ctx context.Context, tx pgx.Tx, group, from, to, schema string, kept *time.Duration, declined int) error {
	if _, err := tx.Exec(ctx, queryTakeSet, from, to, schema, kept, declined); err != nil {
		return err
	}
	if err := deferred.Rename(ctx, tx, group, from, to); err != nil {
		return err
	}
	return pauses.Rename(ctx, tx, group, from, to)
}
