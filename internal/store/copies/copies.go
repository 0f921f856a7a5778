// Package copies finds and repairs what a copy of the database may lack: values of sequences, which logical
// replication does not copy, and rows that migrations insert, which a restore of some tables leaves out. Such
// a database hands out positions and ids twice. The package owns no table.
package copies

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// ErrIncomplete is returned by [Check] for a copy that lacks something. Its text names the objects.
var ErrIncomplete = errors.New("this database is an incomplete copy: stop the programs that append, run tidemark " +
	"copy repair, then start again")

// Fault is what a copy lacks.
type Fault struct {
	Object string `json:"object"` // a sequence or a table, with its schema
	Fault  string `json:"fault"`  // what is wrong with it
}

func (f Fault) String() string { return f.Object + " " + f.Fault }

// Faults returns what the database lacks, or none. It reads a few rows.
func Faults(ctx context.Context, db rows.Querier) ([]Fault, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Fault], "look for what this database lacks", queryFaults)
}

// Check returns [ErrIncomplete] if the database lacks anything.
func Check(ctx context.Context, db rows.Querier) error {
	faults, err := Faults(ctx, db)
	if err != nil || len(faults) == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", strings.Join(slice.Of(faults, Fault.String), "; "), ErrIncomplete)
}

// Repair raises sequences that are behind and inserts missing rows, and returns what was wrong.
func Repair(ctx context.Context, tx pgx.Tx) ([]Fault, error) {
	return rows.All(ctx, tx, pgx.RowToStructByPos[Fault], "repair the copy", queryRepair)
}
