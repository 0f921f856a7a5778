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

// registrar makes projections and their tables known, and finds mistakes before it does.
type registrar struct{ *base }

// check gathers the mistakes of all projections.
func (g *registrar) check(ctx context.Context) error {
	var errs []error
	for _, k := range g.projections {
		checker, ok := k.Projection.(Checker)
		if !ok {
			continue
		}
		err := pgx.BeginFunc(ctx, g.cfg.Pool, func(tx pgx.Tx) error {
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

func (g *registrar) register(ctx context.Context, k *known) error {
	now, err := g.enter(ctx, k)
	switch {
	case err != nil || now.State == stateActive:
		return err
	case now.Version != k.spec.Version:
		return nil // a worker that has this version files its campaigns
	}
	return g.fileCampaigns(ctx, k)
}

// fileCampaigns files the campaigns that have moved for a projection that joins, and makes it active. It needs no lock of the registry: whoever has registered the projection has waited for the groups that did not
// know of it, and all others file what they move. Of processes that file at the same time, the row of the projection lets one go on at a time.
func (g *registrar) fileCampaigns(ctx context.Context, k *known) error {
	// Until it is active no catch-up of it runs, so that a pair filed twice is not applied twice.
	for cursor := ""; ; {
		var n int64
		err := pgx.BeginFunc(ctx, g.cfg.Pool, func(tx pgx.Tx) error {
			var filing bool
			err := tx.QueryRow(ctx, queryFiling, k.name, k.spec.Version).Scan(&filing)
			if errors.Is(err, pgx.ErrNoRows) || err == nil && !filing {
				n = 0
				return nil // another process was quicker
			}
			if err != nil {
				return err
			}
			if cursor, n, err = deferred.FileMoved(ctx, tx, g.cfg.ConsumerGroup, k.name, cursor, fileCampaigns); err != nil || n == fileCampaigns {
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
func (g *registrar) enter(ctx context.Context, k *known) (now *registered, err error) {
	// Most starts change nothing, and take no lock.
	now, err = g.lookup(ctx, g.cfg.Pool, k.name)
	if err != nil {
		return nil, err
	}
	if now != nil {
		if now.Version == k.spec.Version {
			_, err = g.cfg.Pool.Exec(ctx, queryOwnReset, k.name, ownReset(k)) // the code may have changed
		}
		return now, err
	}
	register := exclusive{db: g.cfg.Pool, group: g.cfg.ConsumerGroup, attempts: patiently, log: g.cfg.Logger.With("registering", k.name)}
	for left := true; left; {
		// What a projection of the same name has left behind that was removed says nothing of this one.
		if err := clearLeft(ctx, g.cfg.Pool, g.cfg.ConsumerGroup, k.name); err != nil {
			return nil, err
		}
		err = register.do(ctx, func(tx pgx.Tx) error {
			now, err = g.lookup(ctx, tx, k.name)
			if err != nil || now != nil {
				left = false
				return err // another process was quicker
			}
			if err := tx.QueryRow(ctx, queryLeft, g.cfg.ConsumerGroup, k.name).Scan(&left); err != nil || left {
				return err
			}
			now, err = g.insert(ctx, tx, k)
			return err
		})
		if err != nil {
			if _, other := g.lookup(ctx, g.cfg.Pool, k.name); errors.Is(other, ErrRegistered) { // another group was quicker
				err = other
			}
			return nil, err
		}
	}
	return now, nil
}

// insert creates a set of tables and its row in the registry.
func (g *registrar) insert(ctx context.Context, tx pgx.Tx, k *known) (*registered, error) {
	tables, err := g.createTables(ctx, tx, k)
	if err != nil {
		return nil, err
	}
	own, err := exchange.Objects(ctx, tx, exchange.Tables{Schema: k.schema, Names: tables})
	if err != nil {
		return nil, err
	}
	ahead, err := deferred.ResolvedAhead(ctx, tx, g.cfg.ConsumerGroup, k.name)
	if err != nil {
		return nil, err
	}
	r := &registered{Name: k.name, Version: k.spec.Version, State: stateJoining, ConsumerGroup: g.cfg.ConsumerGroup, SchemaName: k.schema, TableNames: tables, ResolvedAhead: ahead}
	_, err = tx.Exec(ctx, queryInsertProjection, r.Name, r.ConsumerGroup, r.Version, r.SchemaName, r.TableNames, ownReset(k), own, ahead)
	return r, err
}

// lookup returns the row of that name, nil if there is none, or what keeps this worker from serving it.
func (b *base) lookup(ctx context.Context, db journal.Querier, name string) (*registered, error) {
	rows, err := db.Query(ctx, queryRegistry, b.cfg.ConsumerGroup, []string{name})
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
	case r.ConsumerGroup != b.cfg.ConsumerGroup:
		return nil, fmt.Errorf("%w: it belongs to consumer group %q, this worker serves %q: give it another name", ErrRegistered, r.ConsumerGroup, b.cfg.ConsumerGroup)
	case r.SchemaName != set.schema(projection, b.cfg.Schema):
		return nil, fmt.Errorf("%w: its tables are in schema %q, this worker is configured for %q", ErrRegistered, r.SchemaName, b.cfg.Schema)
	}
	return &all[i], nil
}

// createTables runs the projection's DDL and returns the tables it has made.
func (g *registrar) createTables(ctx context.Context, tx pgx.Tx, k *known) ([]string, error) {
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

func ownReset(k *known) bool {
	_, own := k.Projection.(Resetter)
	return own
}
