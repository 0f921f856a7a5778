package ledger

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Proved is a partition of a projection across campaigns, with the number and the hash of the events
// that were passed on the way to its place, compared with the journal.
type Proved struct {
	Partition string // # and its number
	Position  int64
	Applied   int64 // events that workers have passed
	Journal   int64 // events up to the position
	SameIDs   bool  // false: the passed events have other ids than the journal's
}

// Differs reports whether not exactly the journal's events were passed, each once.
func (p *Proved) Differs() bool { return p.Applied != p.Journal || !p.SameIDs }

// Prove compares the partitions of a set of tables with the journal, in one aggregate for all of
// them. It returns none for a projection that applies campaign by campaign. tx should be REPEATABLE
// READ.
func Prove(ctx context.Context, tx pgx.Tx, set string) ([]Proved, error) {
	return rows.All(ctx, tx, pgx.RowToStructByPos[Proved], "compare the places of "+set+" with the journal",
		queryProve, set)
}
