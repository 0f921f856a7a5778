package projector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/pkg/deferred"
	"github.com/tidemark-go/tidemark/pkg/projector/internal/exchange"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/failure"
)

// tendInterval is how often, at least, a worker looks what rebuilds need of it.
const tendInterval = time.Second

// tendRounds is how often it looks again at once after it has changed something.
const tendRounds = 10

// tended is a row of the registry with what concerns its rebuild.
type tended struct {
	registered
	Declined int
	Expired  bool     // the tables were kept for long enough
	MaxShare *float64 // of the rebuild, if it is one's
}

// rebuilder builds tables anew beside those that are read, and exchanges the two.
type rebuilder struct {
	*base
	applier    *applier
	registrar  *registrar
	replayer   *replayer
	maintainer *maintainer
	share      *share
	strangers  strangers
}

// tendRebuilds does what rebuilds need besides catching up, until ctx ends.
func (b *rebuilder) tendRebuilds(ctx context.Context) {
	for failures := 0; pause(ctx, min(tendInterval, b.cfg.PollInterval)); {
		err := b.tend(ctx)
		if err == nil {
			err = b.copyRanges(ctx)
		}
		if err == nil {
			failures = 0
			err = b.swapWhatIsReady(ctx)
		}
		if err != nil && ctx.Err() == nil {
			b.cfg.Logger.WarnContext(ctx, "rebuilds not looked after", "error", err)
			pause(ctx, b.backoff(failures))
			failures++
		}
	}
}

// tend looks at the registry: it begins and goes on with rebuilds of what this worker has, removes tables that were kept for long enough, and makes functions of SQL files.
func (b *rebuilder) tend(ctx context.Context) error {
	for changed, round := true, 0; changed && round < tendRounds; round++ {
		changed = false
		rows, err := b.readTended(ctx)
		if err != nil {
			return err
		}
		b.tellStrangers(ctx, rows, time.Now())
		seen := map[string]bool{}
		for _, k := range b.projections {
			if seen[k.spec.Name] {
				continue
			}
			seen[k.spec.Name] = true
			did, err := b.tendOne(ctx, k.spec.Name, rows)
			if err != nil {
				return fmt.Errorf("rebuild projection %s: %w", k.spec.Name, err)
			}
			changed = changed || did
		}
	}
	for _, k := range b.seen.Load().projections {
		if err := b.install(ctx, k); err != nil {
			return fmt.Errorf("make a function of projection %s: %w", k.name, err)
		}
	}
	return nil
}

// readTended reads the registry, and takes notice of it.
func (b *rebuilder) readTended(ctx context.Context) (map[string]*tended, error) {
	rows, err := b.cfg.Pool.Query(ctx, queryTended, b.cfg.ConsumerGroup)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[tended])
	if err != nil {
		return nil, err
	}
	byName, registry, most := map[string]*tended{}, make([]registered, len(all)), 1.0
	for i, r := range all {
		byName[r.Name], registry[i] = r, r.registered
		if r.MaxShare != nil {
			most = min(most, *r.MaxShare)
		}
	}
	b.share.set(most)
	b.view(registry)
	return byName, nil
}

// tendOne says whether it has changed the registry.
func (b *rebuilder) tendOne(ctx context.Context, name string, rows map[string]*tended) (changed bool, err error) {
	live, building, kept := rows[name], rows[nextTables.of(name)], rows[previousTables.of(name)]
	if live == nil || b.cfg.Mode == ModeShadowOnly {
		return false, nil
	}
	if kept != nil && (kept.Expired || kept.Version == withdrawn) { // whoever withdraws it may have died
		return true, b.expire(ctx, name)
	}
	newest := b.newest(name)
	wanted := newest
	switch {
	case building != nil && building.State == stateRequested && building.Version > 0:
		wanted = b.set(name, liveTables, building.Version)
	case building != nil && building.State == stateRequested && building.Version == 0 && newest.spec.Version >= live.Version:
	case building != nil && building.Version == withdrawn: // whoever aborts it may have died
		return true, withdraw(ctx, b.cfg.Pool, name, nextTables, func(pgx.Tx, *lockedSet) error { return nil })
	case !b.cfg.ManualRebuilds && newest.spec.Version > max(live.Version, live.Declined) && (building == nil || building.Version < newest.spec.Version):
	default:
		wanted = nil
	}
	if wanted != nil {
		return true, b.beginRebuild(ctx, name, wanted.spec.Version)
	}
	for _, s := range []tableSet{liveTables, nextTables} {
		r := rows[s.of(name)]
		if r == nil || r.State != stateJoining && r.State != stateCopied {
			continue
		}
		if k := b.set(name, s, r.Version); k != nil {
			return true, b.registrar.fileCampaigns(ctx, k)
		}
	}
	return false, nil
}

// expire removes tables that were kept for long enough, or keeps them a while longer for those who still use them.
func (b *rebuilder) expire(ctx context.Context, name string) error {
	err := withdraw(ctx, b.cfg.Pool, name, previousTables, func(pgx.Tx, *lockedSet) error { return nil })
	var guests *exchange.GuestsError
	if !errors.As(err, &guests) {
		return err
	}
	b.cfg.Logger.WarnContext(ctx, "tables that were replaced are kept longer", "projection", name, "error", err)
	_, err = b.cfg.Pool.Exec(ctx, queryKeepLonger, previousTables.of(name))
	return err
}

// beginRebuild makes the tables of a rebuild, unless somebody else was quicker. One of a lower version makes way.
func (b *rebuilder) beginRebuild(ctx context.Context, name string, version int) error {
	k, by := b.set(name, nextTables, version), deferred.Act{By: "worker " + b.keeper.Owner}
	var campaigns, events int64
	if err := b.cfg.Pool.QueryRow(ctx, queryMeasureRebuild, b.cfg.ConsumerGroup).Scan(&campaigns, &events); err != nil {
		return err
	}
	for {
		var inTheWay bool
		err := exclusively(ctx, b.cfg.Pool, name, func(tx pgx.Tx) error {
			inTheWay = false
			rows, err := lockSets(ctx, tx, name)
			if err != nil {
				return err
			}
			live, building := rows[name], rows[k.name]
			switch {
			case live == nil || building == nil && version <= live.Version:
				return nil // it has been removed, or rebuilt, meanwhile
			case building == nil:
				by.Reason = fmt.Sprintf("it has version %d, registered is %d", version, live.Version)
				if err := deferred.Write(ctx, tx, "rebuild_began", b.cfg.ConsumerGroup, name, by); err != nil {
					return err
				}
				if err := writeRebuild(ctx, tx, name, RebuildOptions{}, by); err != nil {
					return err
				}
			case building.State == stateRequested && building.Version != withdrawn && (building.Version == 0 || building.Version == version):
				if _, err := tx.Exec(ctx, queryForgetRow, k.name); err != nil {
					return err
				}
			default:
				inTheWay = building.Version < version
				return nil
			}
			if err := b.makeTables(ctx, tx, k, live); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, queryNoteMeasure, name, campaigns, events)
			return err
		})
		if err != nil || !inTheWay {
			return err
		}
		if err := withdraw(ctx, b.cfg.Pool, name, nextTables, func(pgx.Tx, *lockedSet) error { return nil }); err != nil {
			return err
		}
	}
}

// makeTables makes the tables, with what users have added to the live ones.
func (b *rebuilder) makeTables(ctx context.Context, tx pgx.Tx, k *known, live *lockedSet) error {
	r, err := b.registrar.insert(ctx, tx, k)
	if err != nil {
		return err
	}
	added, err := addedTo(ctx, tx, live, &lockedSet{registered: *r})
	if err != nil {
		return err
	}
	if err := b.noteObstacles(ctx, tx, live, r); err != nil {
		return err
	}
	// What a range does twice is done from scratch the second time.
	err = deferred.Resettable(ctx, tx, b.cfg.ConsumerGroup, k.name)
	if err == nil {
		_, err = tx.Exec(ctx, queryBeginCopy, k.name)
	}
	if err != nil && !errors.Is(err, deferred.ErrNotResettable) {
		return err
	}
	if _, err := tx.Exec(ctx, querySearchPath, k.path); err != nil {
		return err
	}
	for _, a := range added {
		if _, err := tx.Exec(ctx, a.SQL, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("give the new tables %s, which was added to those that are read; drop it, or add it again afterwards: %w", a.Name, err)
		}
	}
	return nil
}

// noteObstacles says at once what will keep the tables from being exchanged, as far as it is there
// already: there is time to do something about it.
func (b *rebuilder) noteObstacles(ctx context.Context, tx pgx.Tx, live *lockedSet, r *registered) error {
	err := exchange.Blocked(ctx, tx, live.tables(), (&lockedSet{registered: *r}).tables())
	var blocked *exchange.BlockedError
	if !errors.As(err, &blocked) {
		return err
	}
	b.cfg.Logger.WarnContext(ctx, "tables that are built could not be exchanged as it stands", "projection", live.Name, "error", err)
	_, err = tx.Exec(ctx, queryForetell, live.Name, "when the rebuild began, "+redact.Error(err))
	return err
}

// addedTo answers what users have added to the live tables and another set has not. It leaves the search_path of the live tables.
func addedTo(ctx context.Context, tx pgx.Tx, live, set *lockedSet) ([]exchange.Addition, error) {
	if _, err := tx.Exec(ctx, querySearchPath, liveTables.searchPath(live.Name, live.SchemaName)); err != nil {
		return nil, err
	}
	return exchange.Added(ctx, tx, live.tables(), set.tables())
}

// swapWhatIsReady exchanges the tables of those rebuilds that are done.
func (b *rebuilder) swapWhatIsReady(ctx context.Context) error {
	for _, name := range b.seen.Load().rebuilding {
		k := b.seen.Load().known(name)
		if k == nil {
			continue
		}
		err := b.swapIfReady(ctx, k.spec.Name, k)
		if err == nil || errors.Is(err, errNotYet) {
			continue
		}
		if IsInfrastructure(err) && !failure.IsLockTimeout(err) {
			return err
		}
		b.cfg.Logger.WarnContext(ctx, "tables not exchanged", "projection", k.spec.Name, "error", err)
		if _, err := b.cfg.Pool.Exec(ctx, queryRefuse, k.spec.Name, redact.Error(err)); err != nil {
			return err
		}
	}
	return nil
}
