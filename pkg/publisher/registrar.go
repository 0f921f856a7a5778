package publisher

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// register adds rows for pairs that have none, each at its publisher's Start.
func (c *claimer) register(ctx context.Context, conn *pgxpool.Conn) error {
	if err := feed.CheckRowSecurity(ctx, conn); err != nil {
		return err
	}
	known, err := ledger.Registered(ctx, conn)
	if err != nil {
		return fmt.Errorf("register pairs: %w", err)
	}
	var missing []publications.Key
	var positions []int64
	starts := map[Start]int64{}
	for key, route := range c.routes {
		if known[key] {
			continue
		}
		start := route.to.Start
		position, resolved := starts[start]
		if !resolved {
			if position, err = start.resolve(ctx, conn); err != nil {
				return fmt.Errorf("register %s: %w", key, err)
			}
			starts[start] = position
		}
		missing, positions = append(missing, key), append(positions, position)
	}
	if len(missing) > 0 {
		if err := ledger.Register(ctx, conn, ledger.Publisher, missing, positions); err != nil {
			return fmt.Errorf("register pairs: %w", err)
		}
	}
	takes := map[publications.Key]ledger.Takes{}
	for key, route := range c.routes {
		takes[key] = route.filter.takes(c.cfg.Catalogue)
	}
	return ledger.SetTakes(ctx, conn, takes)
}

// takes is the filter for the database, with the names under which events are stored.
func (f *Filter) takes(types *catalogue.Catalogue) ledger.Takes {
	if f.CampaignPrefix == "" && len(f.EventTypes)+len(f.Intents)+len(f.tags()) == 0 {
		return ledger.Takes{}
	}
	takes := ledger.Takes{
		Intents: f.Intents, Prefix: f.CampaignPrefix, Required: f.RequiredTags, AnyOf: f.AnyOfTags, Notices: true,
	}
	for _, name := range f.EventTypes {
		if types.Names(name)[0] == name { // events have the current name
			takes.Types = append(takes.Types, types.Names(name)...)
		}
	}
	if takes.Types == nil && len(f.EventTypes) > 0 {
		takes.Types = []string{}
	}
	return takes
}

// resolve returns the position after which a new pair starts.
func (s Start) resolve(ctx context.Context, db event.Querier) (int64, error) {
	switch {
	case s.End:
		return feed.Floor(ctx, db)
	case !s.At.IsZero():
		return feed.PositionAt(ctx, db, s.At)
	}
	return s.After, nil
}

func (c *claimer) forget() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), 5*time.Second)
	defer cancel()
	if err := c.db.Forget(ctx); err != nil {
		c.cfg.Logger.WarnContext(ctx, "cannot write that this process has stopped", "error", err)
	}
}
