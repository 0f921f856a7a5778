package harness

import (
	"context"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/migrations"
)

const ConsumerGroup = "default"

// Migrated creates a database with Tidemark's schema and one consumer group. Others are cloned from
// it.
func (b *Bench) Migrated(ctx context.Context) (*Database, error) {
	db, err := b.Server.Create(ctx)
	if err != nil {
		return nil, err
	}
	return db.migrated(ctx)
}

// MigratedAs is Migrated with a name that no later run drops. If the database is there, it is used.
func (b *Bench) MigratedAs(ctx context.Context, name string) (*Database, error) {
	db, err := b.Server.open(ctx, name)
	if err != nil {
		return nil, err
	}
	return db.migrated(ctx)
}

func (db *Database) migrated(ctx context.Context) (*Database, error) {
	if err := migrations.Up(ctx, db.URL); err != nil {
		return nil, err
	}
	pool, err := db.Pool(ctx, 1)
	if err != nil {
		return nil, err
	}
	err = outbox.Register(ctx, pool, ConsumerGroup)
	pool.Close()
	if err != nil {
		return nil, err
	}
	return db, db.Settle(ctx)
}

// On returns a side that runs on a clone of template and drops it afterwards.
func (b *Bench) On(template *Database, name string, run func(context.Context, *Database) (float64, error)) Side {
	return Side{Name: name, Run: func(ctx context.Context) (float64, error) {
		db, err := b.Server.Clone(ctx, template.Name)
		if err != nil {
			return 0, err
		}
		value, err := run(ctx, db)
		if dropErr := db.Drop(context.WithoutCancel(ctx)); err == nil {
			err = dropErr
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		return value, nil
	}}
}
