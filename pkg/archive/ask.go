package archive

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Ask asks workers to bring a campaign back, after an append to it has returned [journal.ErrArchived]. It
// reports whether the campaign is archived still: if not, append again. You may call it any number of
// times, in a transaction that commits. Errors: no worker brings campaigns back, or 1,000 are asked for
// already (SQLSTATE TM015); those of the database. Other drivers call tidemark.ask_restore.
func Ask(ctx context.Context, db journal.Querier, campaignID string) (archived bool, err error) {
	return rows.One(ctx, db, pgx.RowTo[bool], "ask for an archived campaign", queryAsk, campaignID)
}
