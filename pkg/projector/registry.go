package projector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/outbox"
)

const (
	stateJoining = "joining"
	stateActive  = "active"

	// fileCampaigns is how many campaigns are filed for a joining projection in one transaction.
	fileCampaigns = 5000
)

// ErrRegistered is returned for a projection that is registered with another version, group or schema; its message says which.
var ErrRegistered = errors.New("projection is registered differently")

// Checker is implemented by projections that can find mistakes before the first event.
type Checker interface {
	// Check looks for mistakes. tx is rolled back.
	Check(ctx context.Context, tx pgx.Tx) error
}

// Register makes the consumer group and the projections known: it creates their tables in the configured schema, and files every campaign that
// has moved before for the projections that are new, so that they catch up while all goes on. It is safe to call at every start and from several
// processes at once. [Projector.Run] and [Projector.Drain] call it first.
func (p *Projector) Register(ctx context.Context) error {
	if p.entered.Load() {
		return nil
	}
	if err := p.check(ctx); err != nil {
		return err
	}
	if err := outbox.Register(ctx, p.cfg.Pool, p.cfg.ConsumerGroup); err != nil {
		return err
	}
	for _, k := range p.projections {
		if err := p.register(ctx, k); err != nil {
			return fmt.Errorf("register projection %s: %w", k.spec.Name, err)
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
	state, err := p.enter(ctx, k)
	if err != nil || state == stateActive {
		return err
	}
	// Until it is active no catch-up of it runs, so that a pair filed twice is not applied twice.
	for cursor := ""; ; {
		var n int64
		err := pgx.BeginFunc(ctx, p.cfg.Pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, queryRegistryExclusive); err != nil {
				return err
			}
			now, err := p.lookup(ctx, tx, k)
			if err != nil || now == nil || now.State == stateActive {
				return err // another process was quicker
			}
			if err := tx.QueryRow(ctx, queryFileMoved, p.cfg.ConsumerGroup, k.spec.Name, cursor, fileCampaigns).Scan(&cursor, &n); err != nil {
				return err
			}
			if n < fileCampaigns {
				_, err = tx.Exec(ctx, queryActivate, k.spec.Name)
			}
			return err
		})
		if err != nil || n < fileCampaigns {
			return err
		}
	}
}

// enter creates the projection's tables and its row in the registry, unless they are there.
func (p *Projector) enter(ctx context.Context, k *known) (state string, err error) {
	// Most starts change nothing. They must not take the lock: all applies would wait behind it for the longest one under way.
	now, err := p.lookup(ctx, p.cfg.Pool, k)
	if err != nil {
		return "", err
	}
	if now != nil {
		return now.State, nil
	}
	err = pgx.BeginFunc(ctx, p.cfg.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, queryRegistryExclusive); err != nil {
			return err
		}
		now, err := p.lookup(ctx, tx, k)
		if err != nil {
			return err
		}
		if now != nil {
			state = now.State // another process was quicker
			return nil
		}
		tables, err := p.createTables(ctx, tx, k)
		if err != nil {
			return err
		}
		state = stateJoining
		_, err = tx.Exec(ctx, queryInsertProjection, k.spec.Name, p.cfg.ConsumerGroup, k.spec.Version, p.cfg.Schema, tables)
		return err
	})
	return state, err
}

// lookup returns the projection's row, nil if there is none, or what is wrong with it.
func (p *Projector) lookup(ctx context.Context, db journal.Querier, k *known) (*registered, error) {
	rows, err := db.Query(ctx, queryRegistry, p.cfg.ConsumerGroup, []string{k.spec.Name})
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[registered])
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(r registered) bool { return r.Name == k.spec.Name })
	if i < 0 {
		return nil, nil
	}
	switch r := all[i]; {
	case r.ConsumerGroup != p.cfg.ConsumerGroup:
		return nil, fmt.Errorf("%w: it belongs to consumer group %q, this worker serves %q: give it another name", ErrRegistered, r.ConsumerGroup, p.cfg.ConsumerGroup)
	case r.SchemaName != p.cfg.Schema:
		return nil, fmt.Errorf("%w: its tables are in schema %q, this worker is configured for %q", ErrRegistered, r.SchemaName, p.cfg.Schema)
	case r.Version != k.spec.Version:
		return nil, fmt.Errorf("%w: version %d is registered, this worker has version %d: give the new one another name, or remove the old one first",
			ErrRegistered, r.Version, k.spec.Version)
	}
	return &all[i], nil
}

// createTables runs the projection's DDL and returns the tables it has made.
func (p *Projector) createTables(ctx context.Context, tx pgx.Tx, k *known) ([]string, error) {
	if _, err := tx.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{p.cfg.Schema}.Sanitize()); err != nil {
		return nil, err
	}
	before, err := p.tables(ctx, tx)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, "SELECT set_config('search_path', $1, true)", p.searchPath); err != nil {
		return nil, err
	}
	if strings.TrimSpace(k.spec.Tables) != "" {
		if _, err := tx.Exec(ctx, k.spec.Tables, pgx.QueryExecModeSimpleProtocol); err != nil {
			return nil, fmt.Errorf("create its tables in schema %q: %w", p.cfg.Schema, err)
		}
	}
	after, err := p.tables(ctx, tx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(after, func(name string) bool { return slices.Contains(before, name) }), nil
}

func (p *Projector) tables(ctx context.Context, tx pgx.Tx) ([]string, error) {
	rows, err := tx.Query(ctx, queryTables, p.cfg.Schema)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
