package main

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

const (
	campaign = "campaign-7"
	hero     = "mira"
)

func run(ctx context.Context, url string, out io.Writer) error {
	if err := migrations.Up(ctx, url); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := play(ctx, pool); err != nil {
		return err
	}
	if err := catchUp(ctx, pool); err != nil {
		return err
	}
	mira, _, err := heroes().GetKey(ctx, pool, campaign, hero)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s has %d hit points left\n", mira.Name, mira.HP)
	return err
}

func play(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		joined := Joined.New(Hero{Name: "Mira", HP: 12})
		joined.AggregateID = hero
		if _, err := (journal.Journal{}).Append(ctx, tx, campaign, journal.Any, joined); err != nil {
			return err
		}
		return wound(ctx, tx, campaign, hero)
	})
}

// catchUp applies all pending events and returns. It has its own consumer group, so workers of
// other groups need not know its projection.
func catchUp(ctx context.Context, pool *pgxpool.Pool) error {
	p, err := projector.New(projector.Config{
		Pool: pool, ConsumerGroup: "quickstart",
		Projections: []projection.Projection{heroes()},
	})
	if err != nil {
		return err
	}
	_, err = p.Drain(ctx)
	return err
}
