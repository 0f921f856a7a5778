package projector

import (
	"context"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Registered is a projection as the database knows it, whichever workers run.
type Registered = rebuild.Registered

// Projections lists the projections that are registered, in the order of their names.
func Projections(ctx context.Context, db journal.Querier) ([]Registered, error) {
	return rebuild.Projections(ctx, db)
}

// Errors of rebuilds. Their messages say what to do.
var (
	// ErrNoCode is returned for a version that no worker has the code of.
	ErrNoCode = rebuild.ErrNoCode
	// ErrNoRebuild is returned for a projection that is not being rebuilt.
	ErrNoRebuild = rebuild.ErrNoRebuild
	// ErrRebuilding is returned by [Rollback] while the projection is being rebuilt.
	ErrRebuilding = rebuild.ErrRebuilding
	// ErrNoPrevious is returned by [Rollback] when the tables that were replaced are not kept any more, or never were.
	ErrNoPrevious = rebuild.ErrNoPrevious
	// ErrBehind is returned by [Rollback] for tables that are behind in more campaigns than allowed;
	// its message says in how many.
	ErrBehind = rebuild.ErrBehind
)

// RebuildOptions says how a projection is to be rebuilt. A field that is nil has its default or, if
// the rebuild has begun, stays as it is.
type RebuildOptions = rebuild.Options

// StartRebuild asks the workers to build a projection's tables anew beside those that are read,
// from the first event of each campaign, and to exchange the two when nothing is left behind. All
// goes on meanwhile: live events reach both. It returns at once; [Rebuilds] says how far it is. For
// a rebuild that has begun it changes the options instead, and has the exchange tried again; begun
// says which of the two it was. A version lower than the one it builds, or another one that is
// asked for, is refused. A version that was aborted or rolled back is built if it is the one that
// is asked for, or the highest that a worker has where none is; otherwise no worker begins it by
// itself, as before.
//
// Errors are [ErrUnknownProjection], [ErrNoCode] for a version that is asked for while none of the
// workers has it, and those of the database.
func StartRebuild(
	ctx context.Context, db Beginner, name string, o RebuildOptions, act deferred.Act,
) (begun bool, err error) {
	return rebuild.StartRebuild(ctx, db, name, o, act)
}

// Rebuild is a rebuild that has not ended.
type Rebuild = rebuild.Rebuild

// RebuildRequest is how a rebuild was asked for.
type RebuildRequest = rebuild.Request

// RebuildBacklog is what a rebuild has still to catch up with.
type RebuildBacklog = rebuild.Backlog

// RebuildName is the name under which a rebuild of the projection is paused and resumed
// (internal/store/pause), and under which its pairs are found in internal/store/deferred.
func RebuildName(projection string) string {
	return rebuild.NameOf(projection)
}

// Rebuilds lists the rebuilds under way, or that of one projection, in the order of their names. It
// counts up to 10,000 of the pairs that are behind; beyond, figures are estimated.
func Rebuilds(ctx context.Context, db journal.Querier, projection string) ([]Rebuild, error) {
	return rebuild.Rebuilds(ctx, db, projection)
}

// ErrOtherTables is returned by [Rollback] when the tables that are kept are not those that [RollbackOptions] names.
var ErrOtherTables = rebuild.ErrOtherTables

// RollbackOptions says how tables that were replaced come back.
type RollbackOptions = rebuild.RollbackOptions

// Kept are tables that were replaced.
type Kept = rebuild.Kept

// CheckRollback answers the tables that [Rollback] would put back, or the error that it would
// return before it exchanges anything. It takes no locks.
//
// Errors are those of [Rollback], but for [ErrOtherTables].
func CheckRollback(ctx context.Context, db journal.Querier, name string, o RollbackOptions) (Kept, error) {
	return rebuild.CheckRollback(ctx, db, name, o)
}

// Rollback puts the tables that a rebuild has replaced in their place again, with all that they
// have been given since: workers that have their version went on applying events to them. Those
// that make way are kept in turn, so that a rollback can be rolled back; workers do not begin to
// build their version again by themselves.
//
// It runs statements with the schema of the read models in the search_path, and so whatever their
// owner has made there: call it as the role of the workers, as they do for operators, and as none
// with more rights.
//
// Errors are [ErrUnknownProjection], [ErrRebuilding], [ErrNoPrevious], [ErrBehind],
// [ErrOtherTables] and those of the database.
func Rollback(ctx context.Context, db Beginner, name string, o RollbackOptions, act deferred.Act) error {
	return rebuild.Rollback(ctx, db, name, o, act)
}

// AbortRebuild ends a projection's rebuild and leaves nothing of it behind: tables, pairs,
// functions. Workers do not begin one of the same version or a lower one by themselves again;
// [StartRebuild] does. It waits for the groups under way. Errors are [ErrNoRebuild], one that names
// the views and the like that others have made on the new tables, and those of the database; after
// an error call it again.
func AbortRebuild(ctx context.Context, db Beginner, name string, act deferred.Act) error {
	return rebuild.AbortRebuild(ctx, db, name, act)
}

// ErrUnknownProjection is returned by [Remove] for a projection that the registry does not know.
var ErrUnknownProjection = rebuild.ErrUnknownProjection

// Remove removes a projection from the registry, with its pairs and its pause and, if tables is
// set, its tables with all that is in them. What its group applies at the moment is waited for;
// from then on workers that have the projection leave it alone. One that starts with it registers
// it again: take it out of the program first. A table that others depend on is an error, and
// nothing is removed. The failure log keeps who removed it, and why, as 'removed'.
//
// A rebuild of it, and the tables that one has replaced, go with it, with all that is in them. A
// name that only stands for these (NAME~next, NAME~previous) is unknown here.
//
// Workers wait for it only while it deletes the row and the tables. Pairs and snapshots, which
// no worker follows any more, are deleted afterwards; one that fails in the middle leaves the rest to
// the registration of a projection of that name.
func Remove(ctx context.Context, db Beginner, name string, tables bool, act deferred.Act) error {
	return rebuild.Remove(ctx, db, name, tables, act)
}
