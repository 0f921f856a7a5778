package acts

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/copies"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

// Repaired is the outcome of repairing a copy.
type Repaired struct {
	Repaired []copies.Fault `json:"repaired"` // what was wrong
}

func copyActs() []*Act {
	return []*Act{
		define(Act{
			Kind: admin.ActRepairCopy, Name: "repairCopy", Command: "copy repair", Path: "/copy/repair",
			Short: "Raise sequences that are behind, and insert rows that are missing",
			Long: "Raise sequences that are behind, and insert rows that are missing. A copy of a database by logical " +
				"replication, or a restore of some tables, lacks the values of sequences: it would hand positions and ids " +
				"out twice, so workers do not start and appends are refused. Stop the programs that append before. Nothing " +
				"is changed in a database that lacks nothing.",
			Examples: []string{"copy repair --dry-run", "copy repair --reason 'the new server'"},
			Button:   "Repair", Role: auth.Admin,
		}, func(_ *struct{}, d *does) {
			d.Preview = func(ctx context.Context, acts *admin.Acts, _ admin.Request) (*Plan, error) {
				found, err := copies.Faults(ctx, acts.Pool())
				if err != nil {
					return nil, err
				}
				words := "change nothing: this database lacks nothing"
				if len(found) > 0 {
					words = "repair " + strings.Join(slice.Of(found, copies.Fault.String), "; ")
				}
				return &Plan{Detail: Repaired{found}, Words: words}, nil
			}
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, _ admin.Request) (any, error) {
				found, err := copies.Repair(ctx, tx)
				return Repaired{found}, err
			}
			d.Told = func(done *admin.Outcome) Told {
				return Told{
					fmt.Sprintf("Repaired %s.", table.Count(int64(len(detail[Repaired](done).Repaired)), "object")),
					[]string{"gaps", "late"},
				}
			}
		}),
	}
}
