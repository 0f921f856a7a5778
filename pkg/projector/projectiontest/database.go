package projectiontest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// database is a copy of the source. The projection is registered and no event has arrived.
type database struct {
	kit  *kit
	pool *pgxpool.Pool
}

// maxConns suffices for the busiest rule: three workers with four connections each.
const maxConns = 12

// withDatabase calls work with a fresh copy of the source.
func (k *kit) withDatabase(ctx context.Context, work func(*database) error) error {
	name, err := k.create(ctx, pgx.Identifier{k.source}.Sanitize())
	if err != nil {
		return err
	}
	db, err := k.open(ctx, name)
	if err != nil {
		return err
	}
	defer db.pool.Close()
	return work(db)
}

func (k *kit) create(ctx context.Context, template string) (string, error) {
	name := "projectiontest_" + strings.ToLower(rand.Text())
	if _, err := k.admin.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" TEMPLATE "+template); err != nil {
		return "", fmt.Errorf("create a database: %w", err)
	}
	k.databases = append(k.databases, name)
	return name, nil
}

func (k *kit) open(ctx context.Context, name string) (*database, error) {
	config := k.admin.Config()
	config.ConnConfig.Database = name
	config.MaxConns = maxConns
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "off" // nothing here needs to survive a crash
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &database{kit: k, pool: pool}, nil
}

func (k *kit) close(ctx context.Context) error {
	var errs []error
	for _, name := range k.databases {
		_, err := k.admin.Exec(ctx, "DROP DATABASE "+pgx.Identifier{name}.Sanitize())
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// arrive moves events into the database's journal.
func (db *database) arrive(ctx context.Context, places []place) error {
	campaigns, seqs := make([]string, len(places)), make([]int64, len(places))
	for i, p := range places {
		campaigns[i], seqs[i] = p.campaignID, p.seq
	}
	if _, err := db.pool.Exec(ctx, queryArrive, campaigns, seqs); err != nil {
		return fmt.Errorf("let events arrive: %w", err)
	}
	_, err := db.pool.Exec(ctx, queryArrived)
	return err
}

// applyAll lets all events arrive, and applies them.
func (db *database) applyAll(ctx context.Context, configure ...func(*projector.Config)) error {
	if err := db.arrive(ctx, db.kit.places); err != nil {
		return err
	}
	return db.drain(ctx, configure...)
}

// drain applies the events that have arrived. It returns an error if the projection could not apply one.
func (db *database) drain(ctx context.Context, configure ...func(*projector.Config)) error {
	p, err := db.projector(configure...)
	if err != nil {
		return err
	}
	return db.drainWith(ctx, p)
}

func (db *database) drainWith(ctx context.Context, p *projector.Projector) error {
	if _, err := p.Drain(ctx); err != nil {
		return err
	}
	entries, err := outbox.List(ctx, db.pool, outbox.Filter{Status: outbox.Failed})
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Projection == db.kit.projection.Spec().Name {
			if spec := db.kit.projection.Spec(); spec.Across() {
				return fmt.Errorf("the event at position %d (%s) cannot be applied for key %q: %s", e.Seq, e.EventType,
					e.CampaignID, e.Error)
			}
			return fmt.Errorf("event %d (%s) of campaign %q cannot be applied: %s", e.Seq, e.EventType, e.CampaignID, e.Error)
		}
	}
	return nil
}

func (db *database) projector(configure ...func(*projector.Config)) (*projector.Projector, error) {
	return projector.New(db.config(configure...))
}

func (db *database) config(configure ...func(*projector.Config)) projector.Config {
	config := projector.Config{Pool: db.pool, Projections: []projection.Projection{db.kit.projection}, NoListen: true}
	for _, change := range slices.Concat(db.kit.configure, configure) {
		change(&config)
	}
	return config
}

// others returns a snapshot of the tables that are not the projection's.
func (db *database) others(ctx context.Context) (snapshot, error) {
	tables, err := db.tables(ctx)
	if err != nil {
		return nil, err
	}
	return db.snapshot(ctx, onlyIn(tables, db.kit.tables))
}

func (db *database) tables(ctx context.Context) ([]string, error) {
	return rows.All(ctx, db.pool, pgx.RowTo[string], "", queryTables)
}
