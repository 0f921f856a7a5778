package rebuild

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// countRows counts the rows of the new tables and of those that are read. A table that has become
// empty, or has rows of campaigns without events, keeps them from being exchanged; other numbers
// are only told: another version may well keep more rows, or fewer.
func (b *Rebuilder) countRows(ctx context.Context, k *registry.Projection) error {
	set, live := b.Seen.Load().Rows[k.Name], b.Seen.Load().Rows[k.Described.Name]
	if set == nil || live == nil {
		return ErrNotYet
	}
	byCampaign, err := rows.All(ctx, b.Cfg.Pool, pgx.RowTo[string], "", queryCampaignTables, set.SchemaName)
	if err != nil {
		return err
	}
	var counts []any
	for _, table := range set.TableNames {
		name := pgx.Identifier{set.SchemaName, table}.Sanitize()
		if slices.Contains(byCampaign, table) {
			var strays int64
			if err := b.Cfg.Pool.QueryRow(ctx, fmt.Sprintf(queryCountStrays, name),
				b.Cfg.ConsumerGroup).Scan(&strays); err != nil {
				return err
			}
			if strays > 0 {
				return fmt.Errorf("the new table %s has rows of %d campaigns that have no events: look at how the projection "+
					"names campaigns, or do not verify", table, strays)
			}
		}
		before := name
		if slices.Contains(live.TableNames, table) {
			before = pgx.Identifier{live.SchemaName, table}.Sanitize()
		}
		var now, then int64
		if err := b.Cfg.Pool.QueryRow(ctx, fmt.Sprintf(queryCountRows, name, before)).Scan(&now, &then); err != nil {
			return err
		}
		if now == 0 && then > 0 {
			return fmt.Errorf("the new table %s has no rows, where the one that is read has %d: if that is right, do not "+
				"verify", table, then)
		}
		counts = append(counts, slog.Group(table, "rows", now, "before", then))
	}
	b.Cfg.Logger.InfoContext(ctx, "rows of a rebuild", "projection", k.Described.Name, slog.Group("tables", counts...))
	return nil
}
