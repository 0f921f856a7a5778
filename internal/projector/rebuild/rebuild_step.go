package rebuild

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/exchange"
	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// stepInterval is the longest time between a worker's looks at rebuilds.
const stepInterval = time.Second

// stepRounds is how often a worker looks again at once after a change.
const stepRounds = 10

// rebuildRow is a row of the registry with the settings of its rebuild.
type rebuildRow struct {
	registry.Registered
	Declined int
	Expired  bool     // the tables were kept long enough
	MaxShare *float64 // of the rebuild, if the row is one
}

// Rebuilder builds tables anew beside those that are read, and swaps the two.
type Rebuilder struct {
	*registry.Base
	Applier   *apply.Applier
	Registrar *registry.Registrar
	Replayer  *replay.Replayer
	foreign   foreign
}

// Run does all work of rebuilds except catching up, until ctx ends.
func (b *Rebuilder) Run(ctx context.Context) {
	for failures := 0; loops.Sleep(ctx, min(stepInterval, b.Cfg.PollInterval)); {
		err := b.Step(ctx)
		if err == nil {
			err = b.CopyRanges(ctx)
		}
		if err == nil {
			failures = 0
			err = b.SwapWhatIsReady(ctx)
		}
		if err != nil && ctx.Err() == nil {
			b.Cfg.Logger.WarnContext(ctx, "rebuilds not looked after", "error", err)
			loops.Sleep(ctx, b.Backoff(failures))
			failures++
		}
	}
}

// Step reads the registry. It begins and continues rebuilds of this worker's projections, removes
// tables that were kept long enough, and installs the functions of SQL files.
func (b *Rebuilder) Step(ctx context.Context) error {
	for changed, round := true, 0; changed && round < stepRounds; round++ {
		changed = false
		rows, err := b.ReadRows(ctx)
		if err != nil {
			return err
		}
		b.logForeign(ctx, rows, time.Now())
		for _, name := range b.Names() {
			did, err := b.stepOne(ctx, name, rows)
			if err != nil {
				return fmt.Errorf("rebuild projection %s: %w", name, err)
			}
			changed = changed || did
		}
	}
	for _, k := range b.Seen.Load().Projections {
		if err := b.Install(ctx, k); err != nil {
			return fmt.Errorf("make a function of projection %s: %w", k.Name, err)
		}
	}
	return nil
}

// ReadRows reads the registry, and updates this worker's view of it.
func (b *Rebuilder) ReadRows(ctx context.Context) (map[string]*rebuildRow, error) {
	all, err := rows.All(ctx, b.Cfg.Pool, pgx.RowToAddrOfStructByPos[rebuildRow], "",
		queryRebuildRows, b.Cfg.ConsumerGroup)
	if err != nil {
		return nil, err
	}
	byName, registry, most := map[string]*rebuildRow{}, make([]registry.Registered, len(all)), 1.0
	for i, r := range all {
		byName[r.Name], registry[i] = r, r.Registered
		if r.MaxShare != nil {
			most = min(most, *r.MaxShare)
		}
	}
	b.Applier.Share.Set(most)
	b.View(registry)
	return byName, nil
}

// stepOne does the next step of a projection. It reports whether it has changed the registry.
func (b *Rebuilder) stepOne(ctx context.Context, name string, rows map[string]*rebuildRow) (changed bool, err error) {
	live, building, kept := rows[name], rows[registry.NextTables.Of(name)], rows[registry.PreviousTables.Of(name)]
	if live == nil || b.Cfg.Mode == projection.ModeShadowOnly {
		return false, nil
	}
	if kept != nil && (kept.Expired || kept.Version == Withdrawn) { // the worker that withdraws it may have died
		if ours, err := ours(ctx, b.Cfg.Pool, kept.SchemaName); err != nil || ours {
			if err == nil {
				err = b.expire(ctx, name, kept.Registered)
			}
			return true, err
		}
	}
	if building != nil && building.Version == Withdrawn { // the worker that aborts it may have died
		if ours, err := ours(ctx, b.Cfg.Pool, building.SchemaName); err != nil || !ours {
			return false, err
		}
		return true, withdraw(ctx, b.Cfg.Pool, name, registry.NextTables, still(building.Registered))
	}
	if wanted := b.wanted(name, live, building); wanted != nil {
		return true, b.BeginRebuild(ctx, name, wanted.Described.Version)
	}
	for _, s := range []registry.TableSet{registry.LiveTables, registry.NextTables} {
		r := rows[s.Of(name)]
		if r == nil || r.State != registry.StateJoining && r.State != registry.StateCopied {
			continue
		}
		if k := b.Set(name, s, r.Version); k != nil {
			return true, b.Registrar.FileCampaigns(ctx, k)
		}
	}
	return false, nil
}

// wanted returns the version of a projection for which to begin a rebuild: the one that an operator has asked for, or
// a higher one that this program has. nil: none, or this program does not have it.
func (b *Rebuilder) wanted(name string, live, building *rebuildRow) *registry.Projection {
	newest := b.Newest(name)
	requested := building != nil && building.State == registry.StateRequested
	switch {
	case requested && building.Version > 0:
		return b.Set(name, registry.LiveTables, building.Version)
	case requested && building.Version == 0 && newest.Described.Version >= live.Version:
		return newest
	case !b.Cfg.ManualRebuilds && newest.Described.Version > max(live.Version, live.Declined) &&
		(building == nil || building.Version < newest.Described.Version):
		return newest
	}
	return nil
}

// expire removes tables that were kept long enough. If others still use them, it keeps them for another hour.
func (b *Rebuilder) expire(ctx context.Context, name string, kept registry.Registered) error {
	err := withdraw(ctx, b.Cfg.Pool, name, registry.PreviousTables, still(kept))
	if _, guests := errors.AsType[*exchange.GuestsError](err); !guests {
		return err
	}
	b.Cfg.Logger.WarnContext(ctx, "tables that were replaced are kept longer", "projection", name, "error", err)
	return rows.Do(ctx, b.Cfg.Pool, "", queryKeepLonger, registry.PreviousTables.Of(name))
}

// BeginRebuild makes a rebuild's tables, unless another worker was quicker. One of a lower version makes way.
func (b *Rebuilder) BeginRebuild(ctx context.Context, name string, version int) error {
	k := b.Set(name, registry.NextTables, version)
	campaigns, events, err := b.measure(ctx, k)
	if err != nil {
		return err
	}
	for {
		var found beginning
		err := registry.Exclusively(ctx, b.Cfg.Pool, name, func(tx pgx.Tx) (err error) {
			if found, err = b.tryBegin(ctx, tx, k, version); err != nil || found.by == nil {
				return err
			}
			return rows.Do(ctx, tx, "", queryNoteMeasure, name, campaigns, events)
		})
		if err == nil && found.by != nil {
			b.Cfg.Logger.InfoContext(ctx, "rebuild begins", "projection", name, "version", version, "replaces",
				found.replaces, "by", found.by.By, "reason", found.by.Reason, "campaigns", campaigns, "events", events)
		}
		if err != nil || found.inTheWay == nil {
			return err
		}
		err = withdraw(ctx, b.Cfg.Pool, name, registry.NextTables, still(found.inTheWay.Registered))
		if errors.Is(err, ErrNotOurs) { // this one begins when another worker has
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// beginning is what came of trying to begin a rebuild. Neither field is set: it began before, or is not needed.
type beginning struct {
	inTheWay *lockedSet  // the rebuild of a lower version
	by       *failed.Act // by which it has begun
	replaces int         // the version of the live tables
}

// tryBegin makes a rebuild's tables, unless there is one.
func (b *Rebuilder) tryBegin(
	ctx context.Context, tx pgx.Tx, k *registry.Projection, version int,
) (beginning, error) {
	name := k.Described.Name
	sets, err := lockSets(ctx, tx, name)
	if err != nil {
		return beginning{}, err
	}
	live, building := sets[name], sets[k.Name]
	switch {
	case live == nil || building == nil && version <= live.Version:
		return beginning{}, nil // removed or rebuilt meanwhile
	case building == nil:
		by := failed.Act{
			By:     "worker " + b.Keeper.Owner,
			Reason: fmt.Sprintf("it has version %d, registered is %d", version, live.Version),
		}
		err = failed.Write(ctx, tx, "rebuild_began", b.Cfg.ConsumerGroup, name, by)
		if err == nil {
			err = writeRebuild(ctx, tx, name, Options{}, by)
		}
	case building.State == registry.StateRequested && building.Version != Withdrawn &&
		(building.Version == 0 || building.Version == version):
		err = rows.Do(ctx, tx, "", queryForgetRow, k.Name)
	case building.Version < version:
		return beginning{inTheWay: building}, nil
	default:
		return beginning{}, nil
	}
	if err != nil {
		return beginning{}, err
	}
	if err := b.makeTables(ctx, tx, k, live); err != nil {
		return beginning{}, err
	}
	begun := beginning{by: &failed.Act{}, replaces: live.Version}
	return begun, tx.QueryRow(ctx, queryRebuildActor, name).Scan(&begun.by.By, &begun.by.Reason)
}

// measure returns how much there is to do: campaigns and their events, or events up to the live place.
func (b *Rebuilder) measure(ctx context.Context, k *registry.Projection) (campaigns, events int64, err error) {
	if k.Described.Across() {
		events, err = ledger.Reached(ctx, b.Cfg.Pool, k.Described.Name)
		return 0, events, err
	}
	err = b.Cfg.Pool.QueryRow(ctx, queryMeasureRebuild, b.Cfg.ConsumerGroup).Scan(&campaigns, &events)
	return campaigns, events, err
}

// makeTables makes the tables, with what users have added to the live ones.
func (b *Rebuilder) makeTables(ctx context.Context, tx pgx.Tx, k *registry.Projection, live *lockedSet) error {
	r, err := b.Registrar.Insert(ctx, tx, k)
	if err != nil {
		return err
	}
	added, err := addedTo(ctx, tx, live, &lockedSet{Registered: *r})
	if err != nil {
		return err
	}
	if err := b.noteObstacles(ctx, tx, live, r); err != nil {
		return err
	}
	if !r.Across { // its own readers begin at the first event
		// Copying needs rows that can be deleted: a range that is done twice starts from scratch.
		err = failed.Resettable(ctx, tx, b.Cfg.ConsumerGroup, k.Name)
		if err == nil {
			_, err = tx.Exec(ctx, queryBeginCopy, k.Name)
		}
		if err != nil && !errors.Is(err, failed.ErrNotResettable) {
			return err
		}
	}
	if _, err := tx.Exec(ctx, registry.QueryMaking, k.Path); err != nil {
		return err
	}
	for _, a := range added {
		if _, err := tx.Exec(ctx, a.SQL, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("add %s, which the live tables were given, to the new ones; drop it, or add it again "+
				"afterwards: %w", a.Name, err)
		}
	}
	return nil
}

// noteObstacles reports now what would prevent the swap later, while there is time to do something about it.
func (b *Rebuilder) noteObstacles(ctx context.Context, tx pgx.Tx, live *lockedSet, r *registry.Registered) error {
	err := exchange.Blocked(ctx, tx, live.tables(), (&lockedSet{Registered: *r}).tables())
	if _, blocked := errors.AsType[*exchange.BlockedError](err); !blocked {
		return err
	}
	b.Cfg.Logger.WarnContext(ctx, "the new tables could not be swapped now", "projection", live.Name,
		"error", err)
	return rows.Do(ctx, tx, "", queryPreviewRefusal, live.Name, "when the rebuild began, "+redact.Error(err))
}

// addedTo returns what users have added to the live tables and not to another set. It leaves the
// search_path set to that of the live tables.
func addedTo(ctx context.Context, tx pgx.Tx, live, set *lockedSet) ([]exchange.Addition, error) {
	if _, err := tx.Exec(ctx, registry.QueryMaking,
		registry.LiveTables.SearchPath(live.Name, live.SchemaName)); err != nil {
		return nil, err
	}
	return exchange.Added(ctx, tx, live.tables(), set.tables())
}

// SwapWhatIsReady swaps the tables of rebuilds that are done.
func (b *Rebuilder) SwapWhatIsReady(ctx context.Context) error {
	for _, k := range b.Seen.Load().Building() {
		err := b.SwapIfReady(ctx, k.Described.Name, k)
		if err == nil || errors.Is(err, ErrNotYet) {
			continue
		}
		if failure.IsInfrastructure(err) && !failure.IsLockTimeout(err) {
			return err
		}
		b.Cfg.Logger.WarnContext(ctx, "tables not swapped", "projection", k.Described.Name, "error", err)
		if _, err := b.Cfg.Pool.Exec(ctx, queryRefuse, k.Described.Name, redact.Error(err)); err != nil {
			return err
		}
	}
	return nil
}
