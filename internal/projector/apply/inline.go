package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/internal/tracing"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

const (
	// A worker's group may hold rows that an inline apply needs, while it waits for a lease that
	// the inline apply has taken. So an inline apply waits for rows no longer than this. It then
	// gives everything back, lets the group finish, and retries.
	inlinePatience = "200ms"
	inlineAttempts = 25

	readCommitted = "read committed"
)

var (
	// ErrNotRegistered is returned by [Projector.ApplyInline] before [Projector.Register] has succeeded.
	ErrNotRegistered = errors.New("the projections are not registered: call Register before the first append")

	// ErrIsolation is returned by [Projector.ApplyInline] in a transaction that is not READ COMMITTED;
	// its message names the level.
	ErrIsolation = errors.New("inline apply needs a READ COMMITTED transaction")

	// errBacklog leaves a campaign to the workers: it has more to apply than belongs in an append.
	errBacklog = errors.New("there is more to apply than one group holds")
)

// Inliner applies events in the transactions that append them.
type Inliner struct {
	*registry.Base
	Applier *Applier
	Inline  *tracing.Tracer // nil: no traces
	PutsOff bool            // it looks ahead to COMMIT, which must not fail because of a projection
}

// ApplyInline is [Projector.ApplyInline].
func (in *Inliner) ApplyInline(ctx context.Context, tx pgx.Tx, appended ...journal.Appended) (failed error) {
	if !in.Entered.Load() {
		return ErrNotRegistered
	}
	campaigns := slice.Of(appended, func(a journal.Appended) string { return a.CampaignID })
	slices.Sort(campaigns)
	campaigns = slices.Compact(campaigns)
	if len(campaigns) == 0 {
		return nil
	}
	ctx, span := in.Inline.StartWithin(ctx)
	n := 0
	defer func() { span.End(n, failed) }()
	for attempt := 1; ; attempt++ {
		var err error
		if n, err = in.applyInline(ctx, tx.Conn(), campaigns); err == nil {
			in.Metrics.Inline.Applied.Add(float64(n))
			return nil
		}
		if back := undoInline(ctx, tx.Conn()); back != nil {
			return fmt.Errorf("apply inline: %w", err)
		}
		if code := redact.SQLState(err); (code == "55P03" || code == "40P01") && attempt < inlineAttempts &&
			!in.Cfg.InlineBestEffort {
			continue // lock not available, deadlock
		}
		if !in.Cfg.InlineBestEffort || errors.Is(err, ErrIsolation) || ctx.Err() != nil {
			return fmt.Errorf("apply inline: %w", err)
		}
		in.Metrics.Inline.Left.Inc()
		span.Fail("left to the workers")
		in.Cfg.Logger.WarnContext(ctx, "not applied inline, left to the workers", "campaigns", campaigns, "error", err)
		line := pipeline.NewPipeline(tx.Conn())
		outbox.Enqueue(line.Batch, in.Cfg.ConsumerGroup, campaigns)
		if err := line.Flush(ctx); err != nil {
			return fmt.Errorf("leave campaigns to the workers: %w", err)
		}
		return nil
	}
}

// applyInline applies what the campaigns are behind, inside a savepoint that it releases when it
// succeeds. It returns the number of events.
func (in *Inliner) applyInline(ctx context.Context, conn *pgx.Conn, campaigns []string) (n int, err error) {
	units, before, err := in.takeOver(ctx, conn, campaigns)
	if err != nil {
		return 0, err
	}
	left := slices.DeleteFunc(slices.Clone(campaigns), func(id string) bool {
		return slices.ContainsFunc(units, func(u *Unit) bool { return u.Lease.CampaignID == id })
	})
	if len(units) == 0 {
		line := pipeline.NewPipeline(conn)
		in.queueEnd(line, before, left)
		return 0, line.Flush(ctx)
	}
	for {
		applied, rest, err := in.applySlice(ctx, conn, units, func(t *Transaction) { in.queueEnd(t.Pipeline, before, left) })
		if err != nil {
			return 0, err
		}
		n += applied
		if len(rest) == 0 {
			return n, nil
		}
		units = rest
	}
}

// takeOver sets the savepoint and takes the campaigns' leases. It returns the settings to restore.
func (in *Inliner) takeOver(
	ctx context.Context, conn *pgx.Conn, campaigns []string,
) (units []*Unit, before []string, err error) {
	var isolation string
	before = make([]string, 11)
	line := pipeline.NewPipeline(conn)
	line.Queue(querySavepoint)
	line.Queue(querySettingsNow).QueryRow(func(row pgx.Row) error {
		into := []any{&isolation}
		for i := range before {
			into = append(into, &before[i])
		}
		return row.Scan(into...)
	})
	line.Sync()
	in.Keeper.TakeOver(line.Batch, campaigns, !in.Cfg.InlineBestEffort, func(leases []lease.Lease) {
		units = slice.Of(leases, Live)
	})
	line.Queue(registry.QueryRegistryShared, in.Cfg.ConsumerGroup)
	line.Queue(querySetInline, in.SearchPath, "off", "off", "off", inlinePatience,
		"UTC", "ISO, MDY", "postgres", "hex", "1", "on")
	if err := line.Flush(ctx); err != nil {
		return nil, nil, err
	}
	if isolation != readCommitted {
		return nil, nil, fmt.Errorf("%w, this one is %s: begin it as such, or apply by workers", ErrIsolation,
			strings.ToUpper(isolation))
	}
	slices.SortFunc(units, func(a, b *Unit) int { return strings.Compare(a.Lease.CampaignID, b.Lease.CampaignID) })
	return units, before, nil
}

// applySlice applies as many of the units as fit in a group. If none are left, end queues the last statements.
func (in *Inliner) applySlice(
	ctx context.Context, conn *pgx.Conn, units []*Unit, end func(*Transaction),
) (n int, rest []*Unit, err error) {
	t := in.Applier.within(conn, units)
	t.Streams = false // the connection is the application's
	t.yield = func(*Unit) bool { return false }
	if err := t.Read(ctx, in.Cfg.GroupEvents); err != nil {
		return 0, nil, err
	}
	t.link(ctx)
	rest = units[len(t.Units):]
	if t.Units[len(t.Units)-1].More {
		rest = units[len(t.Units)-1:]
	}
	if len(rest) > 0 && in.Cfg.InlineBestEffort {
		return 0, nil, errBacklog
	}
	n = t.count()
	t.last = func() {
		if len(rest) == 0 {
			end(t)
		}
	}
	if err := t.applyAll(ctx); err != nil {
		return 0, nil, err
	}
	return n, rest, t.finish(ctx)
}

// queueEnd restores the settings, queues work items for the campaigns left, and releases the savepoint.
func (in *Inliner) queueEnd(line *pipeline.Pipeline, before, left []string) {
	if in.PutsOff {
		line.QueueLookAhead()
	}
	line.Queue(querySetInline, slice.Of(before, func(setting string) any { return setting })...)
	if len(left) > 0 {
		line.Sync()
		outbox.Enqueue(line.Batch, in.Cfg.ConsumerGroup, left)
	}
	line.Queue(queryRelease)
}

// undoInline rolls back to the savepoint: effects, leases and settings. After an error the transaction is lost.
func undoInline(ctx context.Context, conn *pgx.Conn) error {
	// One statement a request: in a failed transaction Postgres parses only the first.
	if err := rows.Do(ctx, conn, "", queryUndoInline, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	return rows.Do(ctx, conn, "", queryRelease, pgx.QueryExecModeSimpleProtocol)
}
