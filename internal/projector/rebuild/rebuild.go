package rebuild

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/exchange"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Errors of rebuilds. Their messages say what to do.
var (
	// ErrNoCode is returned for a version whose code no worker has.
	ErrNoCode = errors.New("no worker has the code of this version")

	// ErrNoRebuild is returned for a projection that is not being rebuilt.
	ErrNoRebuild = errors.New("the projection is not being rebuilt")

	// ErrRebuilding is returned by [Rollback] while the projection is being rebuilt.
	ErrRebuilding = errors.New("the projection is being rebuilt: wait until that is done, or abort it")

	// ErrNoPrevious is returned by [Rollback] if the previous tables are no longer kept, or never were.
	ErrNoPrevious = errors.New("no previous tables of the projection are kept")

	// ErrBehind is returned by [Rollback] if more campaigns are behind than allowed. Its message says how many.
	ErrBehind = errors.New("the tables are behind")
)

// The defaults of [Options].
const (
	defaultMaxShare = 0.5
	defaultKeep     = 24 * time.Hour
	defaultVerify   = 1000
)

// Options configures a rebuild. A nil field has its default or, if the rebuild has begun, keeps its value.
type Options struct {
	Version     *int           // to build; default: the highest that a worker has
	MaxShare    *float64       // share of each worker's time for rebuilds, above 0 up to 1; default 0.5
	AllowFailed *int64         // failed or dead campaigns that the swap allows; default 0
	Keep        *time.Duration // how long the replaced tables are kept and followed; default 24h
	// random campaigns to compare with their events before the swap; 0: none; default 1000
	Verify *int
	// columns that may differ then, "column" or "table.column", beside those whose default is the time or random
	Ignore []string
}

func (o Options) validate() error {
	var errs []error
	if or(o.Version, 1) < 1 {
		errs = append(errs, fmt.Errorf("Version is %d: versions start at 1", *o.Version))
	}
	if share := or(o.MaxShare, 1); !(share > 0 && share <= 1) {
		errs = append(errs, fmt.Errorf("MaxShare is %v: it must be above 0 and not above 1", share))
	}
	return errors.Join(append(errs, notNegative("AllowFailed", or(o.AllowFailed, 0)), notNegative("Keep", or(o.Keep, 0)),
		notNegative("Verify", or(o.Verify, 0)))...)
}

func notNegative[T int | int64 | time.Duration](name string, v T) error {
	if v < 0 {
		return fmt.Errorf("%s is %v: it must not be negative", name, v)
	}
	return nil
}

// StartRebuild asks the workers to build a projection's tables anew beside those that are read, and
// to swap the two when nothing is left behind. It returns at once; [Rebuilds] reports the progress.
// If a rebuild is under way, StartRebuild changes its options and has the swap retried, and begun
// is false. It refuses another version than the one being built. While the tables of an aborted
// rebuild are being removed, the new one waits for that. A version that was aborted or
// rolled back is built if it is requested, or is the highest that a worker has.
//
// Errors are [ErrUnknownProjection], [ErrNoCode] for a requested version that no worker has, and
// those of the database.
func StartRebuild(
	ctx context.Context, db registry.Beginner, name string, o Options, act failed.Act,
) (begun bool, err error) {
	defer rows.Explain(&err, "rebuild projection %q", name)
	if err := o.validate(); err != nil {
		return false, err
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		// No lock of the registry: a request does not concern a group under way.
		sets, err := lockSets(ctx, tx, name)
		if err != nil {
			return err
		}
		live, building, request := sets[name], sets[registry.NextTables.Of(name)], true
		switch {
		case live == nil:
			return ErrUnknownProjection
		case building != nil && building.Version == Withdrawn: // this one begins when its tables are gone
			next, err := following(ctx, tx, name)
			if err != nil {
				return err
			}
			request = false
			if building = nil; next != nil {
				building = &lockedSet{Registered: registry.Registered{Version: *next}}
			}
		}
		if building != nil {
			if o.Version != nil && *o.Version != building.Version {
				return fmt.Errorf("version %d is being built: abort that first", building.Version)
			}
			return rows.Do(ctx, tx, "", queryChangeRebuild, name, o.MaxShare, o.AllowFailed, o.Keep, o.Verify, o.Ignore)
		}
		if err := haveCode(ctx, tx, name, live.ConsumerGroup, o.Version); err != nil {
			return err
		}
		begun = true
		if request {
			err = rows.Do(ctx, tx, "", queryRequest, registry.NextTables.Of(name), live.ConsumerGroup, or(o.Version, 0))
		}
		return cmp.Or( // an error ends the transaction, and what follows it
			err,
			writeRebuild(ctx, tx, name, o, act),
			failed.Write(ctx, tx, "rebuild_began", live.ConsumerGroup, name, act),
		)
	})
	return begun, err
}

// haveCode returns [ErrNoCode] for a requested version that none of the workers which announce
// their versions can build. If none announces any, none may be running yet.
func haveCode(ctx context.Context, tx pgx.Tx, name, group string, version *int) error {
	if version == nil {
		return nil
	}
	versions, err := lease.Versions(ctx, tx, group)
	if err != nil || len(versions) == 0 || slices.Contains(versions[name], *version) {
		return err
	}
	return fmt.Errorf("%w: version %d is requested, workers of consumer group %q have %v: start one that has it first",
		ErrNoCode, *version, group, versions[name])
}

func writeRebuild(ctx context.Context, tx pgx.Tx, name string, o Options, act failed.Act) error {
	return rows.Do(ctx, tx, "", queryWriteRebuild, name, or(o.MaxShare, defaultMaxShare), or(o.AllowFailed, 0),
		or(o.Keep, defaultKeep), or(o.Verify, defaultVerify), append([]string{}, o.Ignore...), act.By, act.Reason,
		or(o.Version, 0))
}

func or[T any](v *T, standard T) T {
	if v == nil {
		return standard
	}
	return *v
}

// lockedSet is a row of the registry that is about to change.
type lockedSet struct {
	registry.Registered
	Own      []string // indexes and constraints that came with its tables
	Declined int
}

func (s *lockedSet) tables() exchange.Tables {
	return exchange.Tables{Schema: s.SchemaName, Names: s.TableNames, Own: s.Own}
}

// lockSets locks the rows of a projection and returns them by name. Rows that another transaction adds
// while this one waits for the first lock are seen by the second statement.
func lockSets(ctx context.Context, tx pgx.Tx, name string) (map[string]*lockedSet, error) {
	if _, err := readSets(ctx, tx, queryLockSets, name); err != nil {
		return nil, err
	}
	return readSets(ctx, tx, queryLockSets, name)
}

func readSets(ctx context.Context, db event.Querier, sql, name string) (map[string]*lockedSet, error) {
	all, err := rows.All(ctx, db, pgx.RowToAddrOfStructByPos[lockedSet], "",
		sql, setsOf(name))
	sets := map[string]*lockedSet{}
	for _, s := range all {
		sets[s.Name] = s
	}
	return sets, err
}

// setsOf returns the names of all sets of tables that a projection may have.
func setsOf(name string) []string {
	return []string{name, registry.NextTables.Of(name), registry.PreviousTables.Of(name)}
}
