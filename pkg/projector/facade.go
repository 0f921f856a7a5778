package projector

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Register makes the consumer group and the projections known: it creates their tables in the
// configured schema, and files every campaign that has moved before for the projections that are new,
// so that they catch up while all goes on. Of a projection whose version is higher than the one
// registered it begins the rebuild, unless [Config].ManualRebuilds is set; one whose version is lower
// is left to workers that have the one registered. It is safe to call at every start and from several
// processes at once. [Projector.Run] and [Projector.Drain] call it first.
func (p *Projector) Register(ctx context.Context) error {
	if p.base.Entered.Load() {
		return nil
	}
	if err := p.registrar.Check(ctx); err != nil {
		return err
	}
	registerGroup := outbox.Register
	if p.base.Cfg.Mode == ModeInlineApplyOnly {
		registerGroup = outbox.RegisterInline
	}
	if err := registerGroup(ctx, p.base.Cfg.Pool, p.base.Cfg.ConsumerGroup); err != nil {
		return err
	}
	if p.base.Cfg.Mode == ModeEnqueueOnly {
		return nil // the projections are a worker's
	}
	schema := fmt.Sprintf(registry.QueryMakeSchema, kind.Literal(p.base.Cfg.Schema),
		pgx.Identifier{p.base.Cfg.Schema}.Sanitize())
	if _, err := p.base.Cfg.Pool.Exec(ctx, schema, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("create schema %q: %w", p.base.Cfg.Schema, err)
	}
	for _, k := range p.base.Projections {
		if k != p.base.Newest(k.Described.Name) {
			continue
		}
		if err := p.registrar.Register(ctx, k); err != nil {
			return fmt.Errorf("register projection %s: %w", k.Described.Name, err)
		}
	}
	if err := p.rebuilder.Step(ctx); err != nil {
		return err
	}
	if p.base.Cfg.InlineBestEffort {
		if err := p.base.Cfg.Pool.QueryRow(ctx, registry.QueryPutsOff,
			p.base.Cfg.ConsumerGroup).Scan(&p.inliner.PutsOff); err != nil {
			return fmt.Errorf("look for deferrable constraints: %w", err)
		}
	}
	p.base.Entered.Store(true)
	return nil
}

// ApplyInline applies the events that were just appended in tx, in tx: when it commits, readers see
// events and effects together. Pass it what [journal.Append] returned; several campaigns in one call,
// so that they are locked in one order. An error means that nothing was applied, and the caller must
// roll back: the append has failed. With [Config.InlineBestEffort] the campaign is left to the workers
// instead, and nil returned.
//
// It holds beside workers and other appends: each event is applied once, in order. The campaign's
// lease is taken from its holder, whose work under way then comes to nothing and is done again.
// What the campaign is behind its head is applied first, as long as it takes. A projection that is
// deferred for the campaign stays where it is, until a worker has brought it forward; one that is
// joining or paused, or that this process does not know, is deferred. A campaign or a group that an
// operator has paused gets a work item and is left alone.
//
// From then on until the transaction ends, other appends to these campaigns wait, and so does the
// registration of a new projection: call it last. Handlers run in the application's process, under the
// search_path of the projections; the settings are put back as they were. It takes about four round
// trips.
//
// It fails before [Projector.Register] has succeeded, and in a transaction that is not READ COMMITTED.
// Other errors are an [*ApplyError] for a projection's failure, and those of the database.
func (p *Projector) ApplyInline(ctx context.Context, tx pgx.Tx, appended ...journal.Appended) (failed error) {
	return p.inliner.ApplyInline(ctx, tx, appended...)
}

// Check looks for what would keep the projections from being applied as they are meant: a server that
// cannot be written to, handlers for events that are never shown to projections or that are missing,
// tables that two projections claim, tables and columns of a registered projection that are gone, and
// mistakes in SQL files. It reports all of them together, each with what to do, and changes nothing.
// [Projector.Register] begins with it. Other errors are the database's.
func (p *Projector) Check(ctx context.Context) error {
	return p.registrar.Check(ctx)
}

// AsOf answers the rows that a projection has of a campaign after event seq (0: before the first):
// what its code makes of the events up to there, whether or not live work has got so far. It applies
// them to tables of its own, in a transaction that is rolled back, without those that
// [Projector.Verify] leaves out, and the rows are held in memory.
//
// It returns [journal.ErrNotFound] if the campaign has no such event, an [*ApplyError] if the
// projection fails on one, and an error if it writes to tables of others or the rows are too many.
func (p *Projector) AsOf(ctx context.Context, projection, campaignID string, seq int64) (replay.State, error) {
	return p.replayer.AsOf(ctx, projection, campaignID, seq)
}

// Diff answers which rows that a projection has of a campaign are others after event to than they were
// after event from, in the order of tables and keys. Errors are those of [Projector.AsOf].
func (p *Projector) Diff(ctx context.Context, projection, campaignID string, from, to int64) ([]replay.Change, error) {
	return p.replayer.Diff(ctx, projection, campaignID, from, to)
}

// Why answers which events wrote the values that a row has: for each column the last one after which
// its value was another than before. It applies the campaign's events one by one as [Projector.AsOf]
// does, in one pass, and has its errors, and one for a table without a primary key.
func (p *Projector) Why(ctx context.Context, r WhyRequest) (replay.Why, error) {
	return p.replayer.Why(ctx, r)
}

// Verify compares rows of a projection with what its campaigns' events make of them now: it applies
// the events from the first one on to tables of its own, in transactions that are rolled back, up to
// where the projection stands in the campaign, and compares row by row. Rows and places belong to one
// moment, so live work may go on; it is not disturbed. Events are applied one by one or in groups as
// by [Config], never by a function that an SQL file has become. Events that operators have resolved
// are left out; so are those that the projection's policy skips, and those that it has skipped, as far
// back as the failure log is kept.
//
// The tables that a rebuild builds or has replaced are those of the projections NAME~next and
// NAME~previous, with the code of their version.
//
// Memory does not grow with what there is to compare. Differences are no error. It returns
// an error if no table has a column campaign_id, if the projection writes to tables of others, and if it
// is not registered as it is.
func (p *Projector) Verify(ctx context.Context, r VerifyRequest) (VerifyReport, error) {
	return p.replayer.Verify(ctx, r)
}

// Stuck answers the loops of Run that are not back by when they must be, whatever the database does:
// every wait for it is bounded. It is for liveness probes: a process with one that is stuck is of no
// more use, and is to be started anew. Before Run has registered, and after it has returned, there are
// none.
func (p *Projector) Stuck() []string { return p.base.Pulse.Stuck(time.Now()) }

// Followed answers the names of the registered projections of which this worker has the version,
// those of tables that are being built or were replaced too; none before [Projector.Register].
func (p *Projector) Followed() []string { return p.base.Behind() }
