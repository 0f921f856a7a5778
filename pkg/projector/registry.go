package projector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/deferred"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/outbox"
	"github.com/tidemark-go/tidemark/pkg/projector/internal/exchange"
)

const (
	stateRequested = "requested"
	stateCopying   = "copying"
	stateCopied    = "copied"
	stateJoining   = "joining"
	stateActive    = "active"

	// fileCampaigns is how many campaigns are filed for a joining projection in one transaction.
	fileCampaigns = 5000
)

// ErrRegistered is returned for a projection that is registered with another group or schema; its message says which.
var ErrRegistered = errors.New("projection is registered differently")

// Checker is implemented by projections that can find mistakes before the first event.
type Checker interface {
	// Check looks for mistakes. tx is rolled back.
	Check(ctx context.Context, tx pgx.Tx) error
}

// Register makes the consumer group and the projections known: it creates their tables in the configured schema, and files every campaign that
// has moved before for the projections that are new, so that they catch up while all goes on. Of a projection whose version is higher than the one registered it begins the rebuild, unless
// [Config].ManualRebuilds is set; one whose version is lower is left to workers that have the one registered. It is safe to call at every start and from several
// processes at once. [Projector.Run] and [Projector.Drain] call it first.
func (p *Projector) Register(ctx context.Context) error {
	if p.entered.Load() {
		return nil
	}
	if err := p.Check(ctx); err != nil {
		return err
	}
	registerGroup := outbox.Register
	if p.cfg.Mode == ModeInlineApplyOnly {
		registerGroup = outbox.RegisterInline
	}
	if err := registerGroup(ctx, p.cfg.Pool, p.cfg.ConsumerGroup); err != nil {
		return err
	}
	if p.cfg.Mode == ModeEnqueueOnly {
		return nil // the projections are a worker's
	}
	for _, k := range p.projections {
		if k != p.newest(k.spec.Name) {
			continue
		}
		if err := p.register(ctx, k); err != nil {
			return fmt.Errorf("register projection %s: %w", k.spec.Name, err)
		}
	}
	if err := p.tend(ctx); err != nil {
		return err
	}
	if p.cfg.InlineBestEffort {
		if err := p.cfg.Pool.QueryRow(ctx, queryPutsOff, p.cfg.ConsumerGroup).Scan(&p.putsOff); err != nil {
			return fmt.Errorf("look for deferrable constraints: %w", err)
		}
	}
	p.entered.Store(true)
	return nil
}

// check gathers the mistakes of all projections.
func (p *Projector) check(ctx context.Context) error {
	var errs []error
	for _, k := range p.projections {
		checker, ok := k.Projection.(Checker)
		if !ok {
			continue
		}
		err := pgx.BeginFunc(ctx, p.cfg.Pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, querySearchPath, k.path); err != nil {
				return err
			}
			if err := checker.Check(ctx, tx); err != nil {
				return err
			}
			return errRollback
		})
		if !errors.Is(err, errRollback) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

var errRollback = errors.New("rolled back")

func (p *Projector) register(ctx context.Context, k *known) error {
	now, err := p.enter(ctx, k)
	switch {
	case err != nil || now.State == stateActive:
		return err
	case now.Version != k.spec.Version:
		return nil // a worker that has this version files its campaigns
	}
	return p.fileCampaigns(ctx, k)
}

// fileCampaigns files the campaigns that have moved for a projection that joins, and makes it active. It needs no lock of the registry: whoever has registered the projection has waited for the groups that did not
// know of it, and all others file what they move. Of processes that file at the same time, the row of the projection lets one go on at a time.
func (p *Projector) fileCampaigns(ctx context.Context, k *known) error {
	// Until it is active no catch-up of it runs, so that a pair filed twice is not applied twice.
	for cursor := ""; ; {
		var n int64
		err := pgx.BeginFunc(ctx, p.cfg.Pool, func(tx pgx.Tx) error {
			var filing bool
			err := tx.QueryRow(ctx, queryFiling, k.name, k.spec.Version).Scan(&filing)
			if errors.Is(err, pgx.ErrNoRows) || err == nil && !filing {
				n = 0
				return nil // another process was quicker
			}
			if err != nil {
				return err
			}
			if cursor, n, err = deferred.FileMoved(ctx, tx, p.cfg.ConsumerGroup, k.name, cursor, fileCampaigns); err != nil || n == fileCampaigns {
				return err
			}
			_, err = tx.Exec(ctx, queryActivate, k.name)
			return err
		})
		if err != nil || n < fileCampaigns {
			return err
		}
	}
}

// enter creates the projection's tables and its row in the registry, unless they are there. It answers the row.
func (p *Projector) enter(ctx context.Context, k *known) (now *registered, err error) {
	// Most starts change nothing, and take no lock.
	now, err = p.lookup(ctx, p.cfg.Pool, k.name)
	if err != nil {
		return nil, err
	}
	if now != nil {
		if now.Version == k.spec.Version {
			_, err = p.cfg.Pool.Exec(ctx, queryOwnReset, k.name, ownReset(k)) // the code may have changed
		}
		return now, err
	}
	register := exclusive{db: p.cfg.Pool, group: p.cfg.ConsumerGroup, attempts: patiently, log: p.cfg.Logger.With("registering", k.name)}
	for left := true; left; {
		// What a projection of the same name has left behind that was removed says nothing of this one.
		if err := clearLeft(ctx, p.cfg.Pool, p.cfg.ConsumerGroup, k.name); err != nil {
			return nil, err
		}
		err = register.do(ctx, func(tx pgx.Tx) error {
			now, err = p.lookup(ctx, tx, k.name)
			if err != nil || now != nil {
				left = false
				return err // another process was quicker
			}
			if err := tx.QueryRow(ctx, queryLeft, p.cfg.ConsumerGroup, k.name).Scan(&left); err != nil || left {
				return err
			}
			now, err = p.insert(ctx, tx, k)
			return err
		})
		if err != nil {
			if _, other := p.lookup(ctx, p.cfg.Pool, k.name); errors.Is(other, ErrRegistered) { // another group was quicker
				err = other
			}
			return nil, err
		}
	}
	return now, nil
}

// insert creates a set of tables and its row in the registry.
func (p *Projector) insert(ctx context.Context, tx pgx.Tx, k *known) (*registered, error) {
	tables, err := p.createTables(ctx, tx, k)
	if err != nil {
		return nil, err
	}
	own, err := exchange.Objects(ctx, tx, exchange.Tables{Schema: k.schema, Names: tables})
	if err != nil {
		return nil, err
	}
	ahead, err := deferred.ResolvedAhead(ctx, tx, p.cfg.ConsumerGroup, k.name)
	if err != nil {
		return nil, err
	}
	r := &registered{Name: k.name, Version: k.spec.Version, State: stateJoining, ConsumerGroup: p.cfg.ConsumerGroup, SchemaName: k.schema, TableNames: tables, ResolvedAhead: ahead}
	_, err = tx.Exec(ctx, queryInsertProjection, r.Name, r.ConsumerGroup, r.Version, r.SchemaName, r.TableNames, ownReset(k), own, ahead)
	return r, err
}

// lookup returns the row of that name, nil if there is none, or what keeps this worker from serving it.
func (p *Projector) lookup(ctx context.Context, db journal.Querier, name string) (*registered, error) {
	rows, err := db.Query(ctx, queryRegistry, p.cfg.ConsumerGroup, []string{name})
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[registered])
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(r registered) bool { return r.Name == name })
	if i < 0 {
		return nil, nil
	}
	projection, set := split(name)
	switch r := all[i]; {
	case r.ConsumerGroup != p.cfg.ConsumerGroup:
		return nil, fmt.Errorf("%w: it belongs to consumer group %q, this worker serves %q: give it another name", ErrRegistered, r.ConsumerGroup, p.cfg.ConsumerGroup)
	case r.SchemaName != set.schema(projection, p.cfg.Schema):
		return nil, fmt.Errorf("%w: its tables are in schema %q, this worker is configured for %q", ErrRegistered, r.SchemaName, p.cfg.Schema)
	}
	return &all[i], nil
}

// createTables runs the projection's DDL and returns the tables it has made.
func (p *Projector) createTables(ctx context.Context, tx pgx.Tx, k *known) ([]string, error) {
	if _, err := tx.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{k.schema}.Sanitize()); err != nil {
		return nil, err
	}
	before, err := tablesOf(ctx, tx, k.schema)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, querySearchPath, k.path); err != nil {
		return nil, err
	}
	if strings.TrimSpace(k.spec.Tables) != "" {
		if _, err := tx.Exec(ctx, k.spec.Tables, pgx.QueryExecModeSimpleProtocol); err != nil {
			return nil, fmt.Errorf("create its tables in schema %q: %w", k.schema, err)
		}
	}
	after, err := tablesOf(ctx, tx, k.schema)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(after, func(name string) bool { return slices.Contains(before, name) }), nil
}

func tablesOf(ctx context.Context, tx pgx.Tx, schema string) ([]string, error) {
	rows, err := tx.Query(ctx, queryTables, schema)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
