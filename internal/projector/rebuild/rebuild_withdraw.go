package rebuild

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/exchange"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	pauses "github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Withdrawn is the version of tables that are being removed: no worker has it.
const Withdrawn = -1

// errNothing means that there is no set of tables to withdraw.
var errNothing = errors.New("nothing to withdraw")

// ErrNotOurs is returned by [Remove] for tables of a role that the session is no member of.
var ErrNotOurs = errors.New("its tables belong to a role that this session is no member of")

// ours reports whether the session may drop a schema, or has nothing to drop.
func ours(ctx context.Context, db event.Querier, schema string) (bool, error) {
	return rows.One(ctx, db, pgx.RowTo[bool], "", queryOurs, schema)
}

// AbortRebuild ends a projection's rebuild after the groups under way. It removes its tables,
// campaigns that are behind and functions. Workers do not begin that version or a lower one by themselves
// again. If the tables belong to a role that the session is no member of, left is true: no worker
// applies to them any more, and a worker of that role removes them. Errors are [ErrNoRebuild],
// [*exchange.GuestsError], and the database's; after one, call it again.
func AbortRebuild(ctx context.Context, db registry.Beginner, name string, act failed.Act) (left bool, err error) {
	defer rows.Explain(&err, "abort the rebuild of projection %q", name)
	err = withdraw(ctx, db, name, registry.NextTables, func(tx pgx.Tx, set *lockedSet) error {
		if set == nil {
			return ErrNoRebuild
		}
		version := set.Version
		if version == Withdrawn { // one that was to begin afterwards is aborted too
			next, err := following(ctx, tx, name)
			if err != nil || next == nil {
				return err
			}
			version = *next
		}
		if err := rows.Do(ctx, tx, "", queryForgetRebuild, name); err != nil {
			return err
		}
		if err := rows.Do(ctx, tx, "", queryDecline, name, version); err != nil {
			return err
		}
		return failed.Write(ctx, tx, "rebuild_aborted", set.ConsumerGroup, name, act)
	})
	if errors.Is(err, ErrNotOurs) {
		return true, nil
	}
	return false, err
}

// following returns the version of the rebuild that begins once the tables of an aborted one are
// removed; nil: there is none.
func following(ctx context.Context, tx pgx.Tx, name string) (*int, error) {
	version, err := rows.One(ctx, tx, pgx.RowTo[int], "", queryFollowing, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // none
	}
	return &version, err
}

// still lets [withdraw] take the set that was seen, and not another that has its name by now, such as
// that of a rebuild which an operator has begun anew.
func still(seen registry.Registered) func(pgx.Tx, *lockedSet) error {
	return func(_ pgx.Tx, set *lockedSet) error {
		if set == nil || !set.RegisteredAt.Equal(seen.RegisteredAt) {
			return errNothing
		}
		return nil
	}
}

// withdraw removes a set of tables, except the live one, and its campaigns that are behind. The first
// transaction takes the set from the workers and calls first with the set's row, or nil. From then on
// no worker follows the set, so the rest is done in steps that can be repeated. It returns ErrNotOurs
// if the session may not do the last one.
func withdraw(
	ctx context.Context, db registry.Beginner, name string, s registry.TableSet, first func(pgx.Tx, *lockedSet) error,
) error {
	set, err := take(ctx, db, name, s, first)
	if errors.Is(err, errNothing) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := dropCampaigns(ctx, db, name, set); err != nil {
		return err
	}
	// Readers of the tables block the drop, and must not wait for long themselves.
	return registry.Exclusively(ctx, db, name, func(tx pgx.Tx) error {
		if there, err := withdrawn(ctx, tx, name, set); err != nil || !there { // two that withdraw the same set meet here
			return err
		}
		if ours, err := ours(ctx, tx, set.SchemaName); err != nil || !ours {
			return cmp.Or(err, ErrNotOurs)
		}
		if err := dropSet(ctx, tx, set); err != nil || s != registry.NextTables {
			return err
		}
		if err := rows.Do(ctx, tx, "", queryForgetRanges, set.Name); err != nil {
			return err
		}
		return rows.Do(ctx, tx, "", queryFollow, set.Name, set.ConsumerGroup, name)
	})
}

// take takes a set of tables from the workers. It returns errNothing if there is none.
func take(
	ctx context.Context, db registry.Beginner, name string, s registry.TableSet, first func(pgx.Tx, *lockedSet) error,
) (set *lockedSet, err error) {
	err = registry.Exclusively(ctx, db, name, func(tx pgx.Tx) error {
		sets, err := lockSets(ctx, tx, name)
		if err != nil {
			return err
		}
		set = sets[s.Of(name)]
		if set != nil && set.SchemaName != "" { // before anything changes
			if err := droppable(ctx, tx, set.Name, false); err != nil {
				return err
			}
			if err := exchange.Droppable(ctx, tx, set.SchemaName); err != nil {
				return err
			}
		}
		if err := first(tx, set); err != nil {
			return err
		}
		if set == nil {
			return errNothing // no commit
		}
		return rows.Do(ctx, tx, "", QueryWithdraw, set.Name, Withdrawn)
	})
	return set, err
}

// dropCampaigns deletes the campaigns that are behind of a set that is taken, some at a time.
func dropCampaigns(ctx context.Context, db registry.Beginner, name string, set *lockedSet) error {
	for n := int64(1); n > 0; {
		if err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			there, err := withdrawn(ctx, tx, name, set)
			if n = 0; err != nil || !there {
				return err
			}
			n, err = failed.Drop(ctx, tx, set.ConsumerGroup, set.Name, registry.DropBatch)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// withdrawn reports whether a set that was taken is still there: another process may have been quicker. It locks
// the projection's sets.
func withdrawn(ctx context.Context, tx pgx.Tx, name string, set *lockedSet) (bool, error) {
	sets, err := lockSets(ctx, tx, name)
	return err == nil && sets[set.Name] != nil && sets[set.Name].Version == Withdrawn, err
}

// dropSet removes a set of tables that no worker follows once the transaction ends, and its campaigns that are behind.
func dropSet(ctx context.Context, tx pgx.Tx, set *lockedSet) error {
	for n := int64(1); n > 0; {
		var err error
		if n, err = failed.Drop(ctx, tx, set.ConsumerGroup, set.Name, registry.DropBatch); err != nil {
			return err
		}
	}
	return dropTables(ctx, tx, set)
}

// dropTables is dropSet without the campaigns that are behind: once the transaction ends no worker follows
// them, and [registry.ClearLeft] deletes them.
func dropTables(ctx context.Context, tx pgx.Tx, set *lockedSet) error {
	if set.SchemaName != "" {
		if err := droppable(ctx, tx, set.Name, false); err != nil {
			return err
		}
		if err := exchange.Drop(ctx, tx, set.SchemaName); err != nil {
			return err
		}
	}
	if err := forgetParts(ctx, tx, set.ConsumerGroup, set.Name); err != nil {
		return err
	}
	return rows.Do(ctx, tx, "", queryForgetRow, set.Name)
}

// droppable returns an error if the role that wrote a row of the registry may not itself drop the tables
// that the row names, or else their schema. This session may do more than that role.
func droppable(ctx context.Context, tx pgx.Tx, set string, tables bool) error {
	foreign, err := rows.All(ctx, tx, pgx.RowToStructByPos[foreignObject], "", queryForeignObjects, set, tables)
	if err != nil || len(foreign) == 0 {
		return err
	}
	f := foreign[0]
	return fmt.Errorf("the row %s of tidemark.projections names %s, which belongs to %s. The role %s has written that, "+
		"and may not drop it: correct the row, or vouch for it as the owner: UPDATE tidemark.projections "+
		"SET schema_name = schema_name WHERE name = '%[1]s'", set, f.Name, f.Owner, f.Writer)
}

type foreignObject struct{ Name, Owner, Writer string }

// forgetParts deletes the pause and the readers of a set of tables.
func forgetParts(ctx context.Context, tx pgx.Tx, group, set string) error {
	return cmp.Or(
		pauses.Forget(ctx, tx, pauses.Target{Group: group, Projection: set}),
		ledger.Unregister(ctx, tx, set),
	)
}

func forgetRebuild(ctx context.Context, tx pgx.Tx, name string) error {
	return cmp.Or(
		rows.Do(ctx, tx, "", queryForgetRanges, registry.NextTables.Of(name)),
		rows.Do(ctx, tx, "", queryForgetRebuild, name),
	)
}
