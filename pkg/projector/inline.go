package projector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lease"
	"github.com/tidemark-go/tidemark/pkg/outbox"
)

const (
	// A worker's group under way may hold rows that an inline apply wants and wait for a lease that it has taken. So inline applies wait for rows no longer than this, give
	// everything back, let the other finish, and try again.
	inlinePatience = "200ms"
	inlineAttempts = 25

	readCommitted = "read committed"
)

var (
	// ErrNotRegistered is returned by [Projector.ApplyInline] before [Projector.Register] has succeeded.
	ErrNotRegistered = errors.New("the projections are not registered: call Register before the first append")

	// ErrIsolation is returned by [Projector.ApplyInline] in a transaction that is not READ COMMITTED; its message names the level.
	ErrIsolation = errors.New("inline apply needs a READ COMMITTED transaction")

	// errBacklog leaves a campaign to the queue: there is more to apply than belongs into an append.
	errBacklog = errors.New("there is more to apply than one group holds")
)

// ApplyInline applies the events that were just appended in tx, in tx: when it commits, readers see events and effects together. Pass it
// what [journal.Append] returned; several campaigns in one call, so that they are locked in one order. An error means that nothing was applied, and the caller must roll back: the
// append has failed. With [Config.InlineBestEffort] the campaign is left to the workers instead, and nil returned.
//
// It holds beside workers and other appends: each event is applied once, in order. The campaign's lease is taken from whoever has it, whose work under
// way then comes to nothing and is done again. What the campaign is behind its head is applied first, as long as it takes. A projection that is
// deferred for the campaign stays where it is, until a worker has brought it forward; one that is joining or paused, or that this process does not know, is
// deferred. A campaign or a group that an operator has paused gets a work item and is left alone.
//
// From then on until the transaction ends, other appends to these campaigns wait, and so does the registration of a new projection: call it last. Handlers run in
// the application's process, under the search_path of the projections; the settings are put back as they were. It takes about four round trips.
//
// Errors are [ErrNotRegistered], [ErrIsolation], an [*ApplyError] for a projection's failure, and those of the database.
func (p *Projector) ApplyInline(ctx context.Context, tx pgx.Tx, appended ...journal.Appended) (failed error) {
	if !p.entered.Load() {
		return ErrNotRegistered
	}
	campaigns := make([]string, len(appended))
	for i, a := range appended {
		campaigns[i] = a.CampaignID
	}
	slices.Sort(campaigns)
	campaigns = slices.Compact(campaigns)
	if len(campaigns) == 0 {
		return nil
	}
	ctx, span := p.inline.StartWithin(ctx)
	n := 0
	defer func() { span.End(n, failed) }()
	for attempt := 1; ; attempt++ {
		var err error
		if n, err = p.applyInline(ctx, tx.Conn(), campaigns); err == nil {
			p.metrics.inline.Add(float64(n))
			return nil
		}
		if back := undoInline(ctx, tx.Conn()); back != nil {
			return fmt.Errorf("apply inline: %w", err)
		}
		var pgErr *pgconn.PgError
		if errors.As(err, &pgErr) && (pgErr.Code == "55P03" || pgErr.Code == "40P01") && attempt < inlineAttempts && !p.cfg.InlineBestEffort {
			continue // lock not available, deadlock
		}
		if !p.cfg.InlineBestEffort || errors.Is(err, ErrIsolation) || ctx.Err() != nil {
			return fmt.Errorf("apply inline: %w", err)
		}
		p.metrics.inlineLeft.Inc()
		span.Fail("left to the workers")
		p.cfg.Logger.WarnContext(ctx, "not applied inline, left to the workers", "campaigns", campaigns, "error", err)
		return p.leaveToWorkers(ctx, tx.Conn(), campaigns)
	}
}

// applyInline applies what the campaigns are behind, inside a savepoint that is gone when it succeeds, and returns the number of events.
func (p *Projector) applyInline(ctx context.Context, conn *pgx.Conn, campaigns []string) (n int, err error) {
	units, before, err := p.takeOver(ctx, conn, campaigns)
	if err != nil {
		return 0, err
	}
	left := slices.DeleteFunc(slices.Clone(campaigns), func(id string) bool {
		return slices.ContainsFunc(units, func(u *unit) bool { return u.lease.CampaignID == id })
	})
	if len(units) == 0 {
		return 0, p.endInline(ctx, conn, before, left)
	}
	for {
		applied, rest, err := p.applySlice(ctx, conn, units, func(t *transaction) { p.queueEnd(t.pipeline, before, left) })
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

// takeOver opens the savepoint and takes the campaigns' leases. It returns the settings to put back.
func (p *Projector) takeOver(ctx context.Context, conn *pgx.Conn, campaigns []string) (units []*unit, before []string, err error) {
	var isolation string
	before = make([]string, 5)
	line := newPipeline(conn)
	line.queue(querySavepoint)
	line.queue(querySettingsNow).QueryRow(func(row pgx.Row) error {
		return row.Scan(&isolation, &before[0], &before[1], &before[2], &before[3], &before[4])
	})
	line.sync()
	p.keeper.TakeOver(line.batch, campaigns, !p.cfg.InlineBestEffort, func(leases []lease.Lease) {
		for _, l := range leases {
			units = append(units, live(l))
		}
	})
	line.queue(queryRegistryShared, p.cfg.ConsumerGroup)
	line.queue(querySetInline, p.searchPath, "off", "off", "off", inlinePatience)
	if err := line.flush(ctx); err != nil {
		return nil, nil, err
	}
	if isolation != readCommitted {
		return nil, nil, fmt.Errorf("%w, this one is %s: begin it as such, or apply by workers", ErrIsolation, strings.ToUpper(isolation))
	}
	slices.SortFunc(units, func(a, b *unit) int { return strings.Compare(a.lease.CampaignID, b.lease.CampaignID) })
	return units, before, nil
}

// applySlice applies as much of the units as one group holds. If that is all, end queues what comes last.
func (p *Projector) applySlice(ctx context.Context, conn *pgx.Conn, units []*unit, end func(*transaction)) (n int, rest []*unit, err error) {
	t := p.within(conn, units, p.cfg.GroupEvents)
	t.streams = false // the connection is somebody else's
	defer t.recycle()
	if err := t.read(ctx, p.cfg.GroupEvents); err != nil {
		return 0, nil, err
	}
	t.link(ctx)
	rest = units[len(t.units):]
	if t.units[len(t.units)-1].more {
		rest = units[len(t.units)-1:]
	}
	if len(rest) > 0 && p.cfg.InlineBestEffort {
		return 0, nil, errBacklog
	}
	for _, u := range t.units {
		n += len(u.events)
	}
	t.last = func() {
		if len(rest) == 0 {
			end(t)
		}
	}
	if err := t.applyAll(ctx); err != nil {
		return 0, nil, err
	}
	return n, rest, t.finish(ctx, func(*unit) bool { return false })
}

// queueEnd puts the settings back, leaves work items for campaigns that are left to the workers, and keeps what was done.
func (p *Projector) queueEnd(line *pipeline, before, left []string) {
	if p.putsOff {
		line.queueLookAhead()
	}
	line.queue(querySetInline, before[0], before[1], before[2], before[3], before[4])
	if len(left) > 0 {
		line.sync()
		outbox.Enqueue(line.batch, p.cfg.ConsumerGroup, left)
	}
	line.queue(queryRelease)
}

func (p *Projector) endInline(ctx context.Context, conn *pgx.Conn, before, left []string) error {
	line := newPipeline(conn)
	p.queueEnd(line, before, left)
	return line.flush(ctx)
}

func (p *Projector) leaveToWorkers(ctx context.Context, conn *pgx.Conn, campaigns []string) error {
	line := newPipeline(conn)
	outbox.Enqueue(line.batch, p.cfg.ConsumerGroup, campaigns)
	if err := line.flush(ctx); err != nil {
		return fmt.Errorf("leave campaigns to the workers: %w", err)
	}
	return nil
}

// undoInline goes back to where the transaction stood: effects, leases, settings. An error says that there is no way back.
func undoInline(ctx context.Context, conn *pgx.Conn) error {
	// One by one: in a transaction that has failed Postgres parses nothing but the first.
	if _, err := conn.Exec(ctx, queryUndoInline, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, queryRelease, pgx.QueryExecModeSimpleProtocol)
	return err
}
