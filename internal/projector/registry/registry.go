package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/exchange"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// The states of a set of tables.
const (
	StateRequested = "requested"
	StateCopying   = "copying"
	StateCopied    = "copied"
	StateJoining   = "joining"
	StateActive    = "active"

	// fileCampaigns is how many campaigns one transaction files for a joining projection.
	fileCampaigns = 5000
)

// ErrRegistered is returned for a projection registered with another group or schema. Its message says which.
var ErrRegistered = errors.New("projection is registered differently")

// Registrar registers projections and their tables, and checks them first.
type Registrar struct{ *Base }

// check runs the projections' own checks and joins the mistakes.
func (g *Registrar) check(ctx context.Context) error {
	var errs []error
	for _, k := range g.Projections {
		checker, ok := k.Projection.(projection.Checker)
		if !ok {
			continue
		}
		err := pgx.BeginFunc(ctx, g.Cfg.Pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, QueryMaking, k.Path); err != nil {
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

// Register enters one projection, with its tables.
func (g *Registrar) Register(ctx context.Context, k *Projection) error {
	now, err := g.Enter(ctx, k)
	switch {
	case err != nil || now.State == StateActive:
		return err
	case now.Version != k.Described.Version:
		return nil // a worker that has this version files its campaigns
	}
	return g.FileCampaigns(ctx, k)
}

// FileCampaigns files the moved campaigns for a joining projection and activates it. It needs no
// registry lock: groups that did not know of the projection have ended, and all others file what
// they move. The projection's row lets one process file at a time.
func (g *Registrar) FileCampaigns(ctx context.Context, k *Projection) error {
	// Catch-up starts only when it is active, so a campaign filed twice is not applied twice.
	for cursor := ""; ; {
		var n int64
		err := pgx.BeginFunc(ctx, g.Cfg.Pool, func(tx pgx.Tx) error {
			var filing bool
			err := tx.QueryRow(ctx, queryFiling, k.Name, k.Described.Version).Scan(&filing)
			if errors.Is(err, pgx.ErrNoRows) || err == nil && !filing {
				n = 0
				return nil // another process was quicker
			}
			if err != nil {
				return err
			}
			if cursor, n, err = failed.FileMoved(ctx, tx, g.Cfg.ConsumerGroup, k.Name, cursor, fileCampaigns); err != nil ||
				n == fileCampaigns {
				return err
			}
			return rows.Do(ctx, tx, "", queryActivate, k.Name)
		})
		if err != nil || n < fileCampaigns {
			return err
		}
	}
}

// Enter creates the projection's tables and its row in the registry if they are missing. It returns the row.
func (g *Registrar) Enter(ctx context.Context, k *Projection) (now *Registered, err error) {
	// Most starts change nothing, and take no lock.
	now, err = g.Lookup(ctx, g.Cfg.Pool, k.Name)
	if err != nil {
		return nil, err
	}
	if now != nil {
		if now.Version == k.Described.Version {
			_, err = g.Cfg.Pool.Exec(ctx, queryRenew, k.Name, ownReset(k), k.takes().Document()) // the code may have changed
		}
		return now, err
	}
	register := exclusive{
		db: g.Cfg.Pool, group: g.Cfg.ConsumerGroup, attempts: patiently,
		log: g.Cfg.Logger.With("registering", k.Name),
	}
	made := false
	for left := true; left; {
		// A removed projection of the same name may have left failed campaigns behind.
		if err := ClearLeft(ctx, g.Cfg.Pool, g.Cfg.ConsumerGroup, k.Name); err != nil {
			return nil, err
		}
		err = register.do(ctx, func(tx pgx.Tx) error {
			made = false
			now, err = g.Lookup(ctx, tx, k.Name)
			if err != nil || now != nil {
				left = false
				return err // another process was quicker
			}
			if err := tx.QueryRow(ctx, queryLeft, g.Cfg.ConsumerGroup, k.Name).Scan(&left); err != nil || left {
				return err
			}
			now, err = g.Insert(ctx, tx, k)
			made = err == nil
			return err
		})
		if err != nil {
			if _, other := g.Lookup(ctx, g.Cfg.Pool, k.Name); errors.Is(other, ErrRegistered) { // another group was quicker
				err = other
			}
			return nil, err
		}
	}
	if made {
		g.Cfg.Logger.InfoContext(ctx, "projection registered", "projection", k.Described.Name, "version", now.Version,
			"consumer_group", now.ConsumerGroup, "schema", now.SchemaName, "by", "worker "+g.Keeper.Owner)
	}
	return now, nil
}

// Insert creates a set of tables and its row in the registry.
func (g *Registrar) Insert(ctx context.Context, tx pgx.Tx, k *Projection) (*Registered, error) {
	tables, err := g.createTables(ctx, tx, k)
	if err != nil {
		return nil, err
	}
	if err := g.checkKeys(ctx, tx, k, tables); err != nil {
		return nil, err
	}
	own, err := exchange.Objects(ctx, tx, exchange.Tables{Schema: k.Schema, Names: tables})
	if err != nil {
		return nil, err
	}
	ahead, err := failed.ResolvedAhead(ctx, tx, g.Cfg.ConsumerGroup, k.Name)
	if err != nil {
		return nil, err
	}
	r := &Registered{
		Name: k.Name, Version: k.Described.Version, State: StateJoining, ConsumerGroup: g.Cfg.ConsumerGroup,
		SchemaName: k.Schema, TableNames: tables, ResolvedAhead: ahead, Across: k.Described.Across(),
	}
	scope := projection.ScopeCampaign
	if r.Across {
		r.State, scope = StateActive, projection.ScopeJournal // its readers begin at the first event
		places := k.Places()
		if err := ledger.Register(ctx, tx, ledger.Projection, places, make([]int64, len(places))); err != nil {
			return nil, err
		}
		if from, reacts := kind.ReactsFrom(k.Projection); reacts && k.Name == k.Described.Name {
			if err := ledger.SetReacts(ctx, tx, k.Name, from); err != nil {
				return nil, err
			}
		}
	}
	return r, rows.Do(ctx, tx, "", queryInsertProjection, r.Name, r.ConsumerGroup, r.Version, r.SchemaName, r.TableNames,
		ownReset(k), own, ahead, r.State, scope, kind.Statements(k.Projection), k.takes().Document())
}

// CheckStatements compares the SQL files with those that made the tables. For [lease.UpgradeTime] after a
// worker first had another file of the same version it warns: that may be a rolling upgrade. Then it
// returns an error, as rows of two meanings would stand side by side.
func (g *Registrar) CheckStatements(ctx context.Context) error {
	var names, hashes []string
	var versions []int
	for _, k := range g.Projections {
		if hash := kind.Statements(k.Projection); hash != "" {
			names, versions, hashes = append(names, k.Name), append(versions, k.Described.Version), append(hashes, hash)
		}
	}
	if names == nil {
		return nil
	}
	var errs []error
	var name string
	var version int
	var other, late bool
	err := rows.Each(ctx, g.Cfg.Pool, []any{&name, &version, &other, &late}, func() {
		if other && late {
			errs = append(errs, fmt.Errorf("register projection %s: %w: its file has other statements than the one that "+
				"made its tables, which has version %d too: raise the version to rebuild them, or take the change back",
				name, ErrRegistered, version))
		} else if other {
			g.Cfg.Logger.WarnContext(ctx, "the file has other statements than the one that made the tables: raise the version, "+
				"or take the change back; soon no worker starts with it", "projection", name, "version", version)
		}
	}, "", queryOthers, names, versions, hashes, lease.UpgradeTime)
	return errors.Join(append(errs, err)...)
}

// Lookup returns the row of that name, nil if there is none, or an error if this worker cannot serve it.
func (b *Base) Lookup(ctx context.Context, db event.Querier, name string) (*Registered, error) {
	r, err := rows.One(ctx, db, pgx.RowToAddrOfStructByPos[Registered], "", QueryRegistry, "", []string{name})
	projection, set := Split(name)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	case r.ConsumerGroup != b.Cfg.ConsumerGroup:
		return nil, fmt.Errorf("%w: it belongs to consumer group %q, this worker serves %q: give it another name",
			ErrRegistered, r.ConsumerGroup, b.Cfg.ConsumerGroup)
	case r.SchemaName != set.Schema(projection, b.Cfg.Schema):
		return nil, fmt.Errorf("%w: its tables are in schema %q, this worker is configured for %q", ErrRegistered,
			r.SchemaName, b.Cfg.Schema)
	}
	return r, nil
}

// createTables runs the projection's DDL and returns the new tables.
func (g *Registrar) createTables(ctx context.Context, tx pgx.Tx, k *Projection) ([]string, error) {
	if _, err := tx.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{k.Schema}.Sanitize()); err != nil {
		return nil, err
	}
	before, err := rows.All(ctx, tx, pgx.RowTo[string], "", queryTables, k.Schema)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, QueryMaking, k.Path); err != nil {
		return nil, err
	}
	if strings.TrimSpace(k.Described.Tables) != "" {
		if _, err := tx.Exec(ctx, k.Described.Tables, pgx.QueryExecModeSimpleProtocol); err != nil {
			return nil, fmt.Errorf("create its tables in schema %q: %w", k.Schema, err)
		}
	}
	return rows.All(ctx, tx, pgx.RowTo[string], "", queryMadeTables, k.Schema, before)
}

// ownReset reports whether the rows of a campaign, or of a key, are not found by campaign_id.
func ownReset(k *Projection) bool {
	_, own := k.Projection.(projection.Resetter)
	return own || k.Described.KeyColumn != ""
}

// checkKeys refuses tables in which rows of several campaigns could meet, unless the projection says
// that they may.
func (g *Registrar) checkKeys(ctx context.Context, tx pgx.Tx, k *Projection, tables []string) error {
	if k.Described.Across() || ownReset(k) {
		return nil
	}
	shared, err := rows.All(ctx, tx, pgx.RowTo[string], "", querySharedTables, k.Schema, tables)
	if err != nil || len(shared) == 0 {
		return err
	}
	return fmt.Errorf("projection %s: campaign_id is in no key of its table %s, so campaigns could write the same row: "+
		"put campaign_id into the table's keys, or give the projection the scope %s, which applies the events of all "+
		"campaigns in one order", k.Described.Name, shared[0], projection.ScopeJournal)
}
