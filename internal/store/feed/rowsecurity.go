package feed

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// RowSecurityError names tables of Tidemark whose policies hide rows. A journal with hidden events
// would be read and applied with gaps, without an error.
type RowSecurityError struct{ Tables []string }

func (e *RowSecurityError) Error() string {
	return fmt.Sprintf("row-level security is on for %s, and hides rows that Tidemark needs: %s",
		strings.Join(e.Tables, ", "), e.Remedy())
}

// Remedy returns the statements that switch it off.
func (e *RowSecurityError) Remedy() string {
	var statements []string
	for _, table := range e.Tables {
		statements = append(statements, "ALTER TABLE "+table+" DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY")
	}
	return "run " + strings.Join(statements, "; ") + ". Limit readers by views or by grants instead"
}

// CheckRowSecurity returns a [*RowSecurityError] if policies apply to this role on a table of Tidemark,
// or to the owner, whose functions append.
func CheckRowSecurity(ctx context.Context, db rows.Querier) error {
	return rowSecurity(ctx, db, false)
}

// AnyRowSecurity is [CheckRowSecurity] for all roles.
func AnyRowSecurity(ctx context.Context, db rows.Querier) error { return rowSecurity(ctx, db, true) }

func rowSecurity(ctx context.Context, db rows.Querier, all bool) error {
	tables, err := rows.All(ctx, db, pgx.RowTo[string], "look for row-level security", queryRowSecurity, all)
	if err == nil && len(tables) > 0 {
		err = &RowSecurityError{tables}
	}
	return err
}
