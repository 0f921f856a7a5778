package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Check is [Projector.Check].
func (g *Registrar) Check(ctx context.Context) error {
	faults := g.checkTypes()
	err := g.checkServer(ctx)
	var made map[*Projection]tableColumns
	if err == nil {
		made, err = g.scratchTables(ctx)
	}
	if err != nil {
		return errors.Join(append(faults, err)...)
	}
	claims, err := g.checkTables(ctx, made)
	return errors.Join(append(append(faults, claims...), g.check(ctx), g.checkScopes(ctx), g.CheckProcesses(ctx), err)...)
}

// CheckProcesses checks that the role may react, if there is a process: its first reaction would fail.
func (g *Registrar) CheckProcesses(ctx context.Context) error {
	for _, k := range g.Projections {
		if _, reacts := kind.ReactsFrom(k.Projection); !reacts {
			continue
		}
		var role string
		var may bool
		err := g.Cfg.Pool.QueryRow(ctx, queryMayReact).Scan(&role, &may)
		if err == nil && !may {
			err = fmt.Errorf("process %s: the role %s may not append reactions: connect as a member of tidemark_process "+
				"(tidemark migrate roles)", k.Described.Name, role)
		}
		return err
	}
	return nil
}

// checkServer checks that the pool's connections can write, and see what others have committed.
func (g *Registrar) checkServer(ctx context.Context) error {
	var standby, readOnly bool
	var isolation string
	err := g.Cfg.Pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		if err := feed.CheckEncoding(conn.Conn()); err != nil {
			return err
		}
		switch g.Cfg.Pool.Config().ConnConfig.DefaultQueryExecMode {
		case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
			if err := feed.CheckTimes(conn.Conn()); err != nil {
				return err
			}
		}
		return conn.QueryRow(ctx, queryWritable).Scan(&standby, &readOnly, &isolation)
	})
	switch {
	case err != nil:
		return fmt.Errorf("check the server: %w", err)
	case standby:
		return errors.New("the server is a read-only standby: connect to the primary (several hosts in the URL and " +
			"target_session_attrs=read-write find it)")
	case readOnly:
		return errors.New("transactions of this role or database are read-only (default_transaction_read_only): " +
			"switch that off, or connect as another role")
	case isolation != "read committed" && isolation != "read uncommitted":
		return fmt.Errorf("the connections' transactions are %s by default, they must be READ COMMITTED: each statement has "+
			"to see what was committed before it. "+
			"Set it for the role (ALTER ROLE … IN DATABASE … SET default_transaction_isolation = 'read committed'), or for "+
			"the pool (pgxpool.Config.ConnConfig.RuntimeParams)", strings.ToUpper(isolation))
	}
	return feed.CheckRowSecurity(ctx, g.Cfg.Pool)
}

// checkTypes compares what projections handle with what they declare and with the catalogue.
func (g *Registrar) checkTypes() (faults []error) {
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, k := range g.Projections {
		types := k.Described.Types
		if declared, has, ok := kind.Handled(k.Projection); ok {
			for _, t := range declared {
				if !has(t) {
					wrong("projection %s declares the event type %s and has no handler for it: add one with On, or take the "+
						"type out of Spec.Types", k.Described.Name, t)
				}
			}
			for _, t := range types {
				if current := g.Cfg.Catalogue.Names(t)[0]; current != t && !has(current) {
					wrong("projection %s handles the event type %s, which the catalogue calls %s: rename the handler",
						k.Described.Name, t, current)
				}
			}
		}
		for _, t := range types {
			if intent := g.Cfg.Catalogue.Intent(t); intent == event.AuditOnly || intent == event.ReplayOnly {
				wrong("projection %s handles the event type %s, which is %s and never shown to projections: take the "+
					"handler out, or change the intent in the catalogue", k.Described.Name, t, intent)
			}
		}
	}
	return faults
}

type tableColumns map[string][]string

// scratchTables creates each projection's tables in a schema that is rolled back, and returns them.
// It skips tables whose DDL fails: registration and the projection's own check report those.
func (g *Registrar) scratchTables(ctx context.Context) (made map[*Projection]tableColumns, err error) {
	made = map[*Projection]tableColumns{}
	for _, k := range g.Projections {
		if strings.TrimSpace(k.Described.Tables) == "" {
			continue
		}
		err := pgx.BeginFunc(ctx, g.Cfg.Pool, func(tx pgx.Tx) error {
			// Foreign keys lock the tables that they refer to.
			if err := rows.Do(ctx, tx, "", QueryExclusivePatience); err != nil {
				return err
			}
			if err := rows.Do(ctx, tx, "", QueryMakeScratch); err != nil {
				return err
			}
			var schema string
			if err := tx.QueryRow(ctx, QuerySearchScratch, g.SearchPath).Scan(nil, &schema); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, k.Described.Tables, pgx.QueryExecModeSimpleProtocol); err != nil {
				if failure.IsInfrastructure(err) {
					return err
				}
				return errRollback
			}
			if made[k], err = readColumns(ctx, tx, schema); err != nil {
				return err
			}
			return errRollback
		})
		if !errors.Is(err, errRollback) {
			return nil, fmt.Errorf("check the tables of projection %s: %w", k.Described.Name, err)
		}
	}
	return made, nil
}

// checkTables finds tables claimed twice, and missing tables and columns of registered projections.
func (g *Registrar) checkTables(ctx context.Context, made map[*Projection]tableColumns) (faults []error, err error) {
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	owner := map[string]string{} // by table
	registered := map[Identity]bool{}
	var name string
	var version int
	var tables []string
	if err := rows.Each(ctx, g.Cfg.Pool, []any{&name, &version, &tables}, func() {
		registered[Identity{name, version}] = true
		for _, table := range tables {
			owner[table] = name
		}
	}, "", queryOwners, g.Cfg.Schema); err != nil {
		return nil, err
	}
	there, err := readColumns(ctx, g.Cfg.Pool, g.Cfg.Schema)
	if err != nil {
		return nil, err
	}
	for _, k := range g.Projections {
		own := k.Described.Name
		for _, table := range slices.Sorted(maps.Keys(made[k])) {
			if other, taken := owner[table]; taken && other != own {
				wrong("projections %s and %s both claim the table %s.%s: give one of them another table", other, own,
					g.Cfg.Schema, table)
				continue
			}
			owner[table] = own
			if !registered[Identity{own, k.Described.Version}] {
				continue
			}
			live, exists := there[table]
			if !exists {
				wrong("the table %s.%s of projection %s is gone: restore it, or raise the version to rebuild it",
					g.Cfg.Schema, table, own)
				continue
			}
			for _, column := range made[k][table] {
				if !slices.Contains(live, column) {
					wrong("the table %s.%s of projection %s has no column %s: add it, or raise the version to rebuild it",
						g.Cfg.Schema, table, own, column)
				}
			}
		}
	}
	return faults, nil
}

func readColumns(ctx context.Context, db event.Querier, schema string) (tableColumns, error) {
	return rows.ByKey[string, string](ctx, db, "", queryColumns, schema)
}
