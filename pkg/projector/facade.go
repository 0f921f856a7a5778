package projector

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/copies"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// Register registers the consumer group and the projections. It creates their tables in the
// configured schema, and files every campaign that has moved before for new projections, which
// catch up while live work goes on. If a projection's version is higher than the registered one, it
// begins the rebuild, unless [Config].ManualRebuilds is set. If it is lower, workers with the
// registered version serve it. Register is safe to call at every start and from several processes
// at once. [Projector.Run] and [Projector.Drain] call it first.
func (p *Projector) Register(ctx context.Context) (err error) {
	defer func() { err = failure.WithContext(err) }()
	if p.base.Entered.Load() {
		return nil
	}
	if err := p.registrar.Check(ctx); err != nil {
		return err
	}
	if err := copies.Check(ctx, p.base.Cfg.Pool); err != nil {
		return err
	}
	if err := p.registerGroup(ctx); err != nil {
		return err
	}
	if p.base.Cfg.Mode == projection.ModeEnqueueOnly {
		return nil // a worker registers the projections
	}
	schema := fmt.Sprintf(registry.QueryMakeSchema, kind.Literal(p.base.Cfg.Schema),
		pgx.Identifier{p.base.Cfg.Schema}.Sanitize())
	if _, err := p.base.Cfg.Pool.Exec(ctx, schema, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("create schema %q: %w", p.base.Cfg.Schema, err)
	}
	if err := p.registrar.CheckProcesses(ctx); err != nil {
		return err
	}
	if err := p.registrar.CheckStatements(ctx); err != nil {
		return err
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

// registerGroup registers the consumer group. If all projections are across campaigns, they need no
// work items.
func (p *Projector) registerGroup(ctx context.Context) error {
	switch {
	case p.base.Across():
		return outbox.RegisterAcross(ctx, p.base.Cfg.Pool, p.base.Cfg.ConsumerGroup)
	case p.base.Cfg.Mode == projection.ModeInlineApplyOnly:
		return outbox.RegisterInline(ctx, p.base.Cfg.Pool, p.base.Cfg.ConsumerGroup)
	}
	return outbox.Register(ctx, p.base.Cfg.Pool, p.base.Cfg.ConsumerGroup)
}

// ApplyInline applies the events that were just appended in tx, in tx, so readers see events and
// effects together. Pass it the results of [journal.Journal.Append], for several campaigns in one call, so
// they are locked in one order. On an error nothing was applied, and the caller must roll back.
// With [Config.InlineBestEffort] the campaign is left to the workers instead, and ApplyInline
// returns nil.
//
// It is safe beside workers and other appends: each event is applied once, in order. It takes the
// campaign's lease from its holder, whose work under way is lost and done again. It first applies the
// campaign's backlog, however long that takes. Projections that are already behind for the campaign
// stay where they are until a worker brings them forward. It defers the campaign for projections that
// are joining or paused, or unknown to this process. A campaign or group that an operator has paused
// gets a work item and is left alone.
//
// Until the transaction ends, other appends to these campaigns wait, and so does the registration
// of a new projection: call it last. Handlers run in the application's process, under the
// projections' search_path; the settings are restored afterwards. It takes about four round trips.
//
// It fails before [Projector.Register] has succeeded, and in a transaction that is not READ
// COMMITTED. Other errors are an [*projection.ApplyError] for a projection's failure, and those of the
// database.
func (p *Projector) ApplyInline(ctx context.Context, tx pgx.Tx, appended ...journal.Appended) (failed error) {
	return p.inliner.ApplyInline(ctx, tx, appended...)
}

// Check looks for mistakes that keep the projections from working: a server that cannot be written
// to, missing handlers or handlers for events that projections never get, tables that two
// projections claim, missing tables and columns of registered projections, and mistakes in SQL
// files. It reports all of them together, each with a remedy, and changes nothing.
// [Projector.Register] begins with it. Other errors are the database's.
func (p *Projector) Check(ctx context.Context) error {
	return p.registrar.Check(ctx)
}

// AsOf returns a projection's rows of a campaign after event seq (0: before the first), as its code
// makes them from the events, whether or not live work has got that far. It applies the events to
// tables of its own, in a transaction that is rolled back, and leaves out those that
// [Projector.Verify] leaves out. It does not read the live tables. The rows are held in memory.
//
// For a projection across campaigns campaignID is a key, or "-" for all keys, and seq a position
// ([journal.PositionAt] finds that of a time), also in Diff and Why.
//
// It returns [event.ErrNotFound] if the campaign has no such event, an [*projection.ApplyError] if the
// projection fails on one, and an error if it writes to tables of others or the rows exceed 32 MiB.
func (p *Projector) AsOf(ctx context.Context, projection, campaignID string, seq int64) (lookback.State, error) {
	return p.replayer.AsOf(ctx, projection, campaignID, seq)
}

// Diff returns the rows of a campaign that differ between event from and event to, in the order of
// tables and keys. Its errors are those of [Projector.AsOf].
func (p *Projector) Diff(
	ctx context.Context, projection, campaignID string, from, to int64,
) ([]lookback.Change, error) {
	return p.replayer.Diff(ctx, projection, campaignID, from, to)
}

// Why returns, for each column of a row, the last event that changed its value. It applies the
// campaign's events one by one in one pass, otherwise like [Projector.AsOf]. It has the errors of
// AsOf, and one for a table without a primary key.
func (p *Projector) Why(ctx context.Context, r lookback.WhyRequest) (lookback.Why, error) {
	return p.replayer.Why(ctx, r)
}

// Verify compares a projection's rows with what its code makes of the events now. It applies each
// campaign's events from the first one to tables of its own, in transactions that are rolled back,
// up to where the projection stands, and compares row by row. It uses one snapshot of rows and
// checkpoints, so live work goes on undisturbed. Events are applied one by one or in groups as by
// [Config], never by an SQL file's function. It leaves out events that operators resolved, that the
// projection's policy skips, and that it has skipped, as far back as the failure log reaches.
//
// NAME~next and NAME~previous verify the tables that a rebuild builds or has replaced, with their version's code.
//
// Memory does not grow with the amount compared. Differences are not errors. Verify returns an
// error if no table has a column campaign_id, if the projection writes to tables of others, or if
// its registered version is not here, and an [*lookback.OwnerError] if the pool's login may do more than the
// owner of the tables. After [Projector.Register] it does not ask: the process runs the owner's code anyway.
func (p *Projector) Verify(ctx context.Context, r lookback.VerifyRequest) (lookback.VerifyReport, error) {
	return p.replayer.Verify(ctx, r)
}

// Stuck returns the loops of Run that are overdue, for liveness probes. Every wait for the database
// is bounded, so a process with a stuck loop must be restarted. There are none before Run has
// registered and after it has returned.
func (p *Projector) Stuck() []string { return p.base.Pulse.Stuck(time.Now()) }

// Followed returns the names of the registered projections that this worker has in that version,
// also sets of tables that are being built or were replaced. There are none before
// [Projector.Register].
func (p *Projector) Followed() []string { return p.base.Behind() }
