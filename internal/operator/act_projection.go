package operator

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

type projectionRemoval struct {
	oneProjection
	Tables bool `help:"drop its tables too"`
}

func projectionActs() []*Act {
	return []*Act{
		act(Act{
			Kind: admin.ActStartOperation, Name: "verifyProjection", Command: "projection verify", ByHand: true,
			Path:   "/projections/{projection}/verify",
			Short:  "Compare the rows of a projection with the journal",
			Button: "Verify", Hint: "A worker with the projection's code applies the events beside its tables, and compares.",
		}, does[*admin.Verification]{
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *admin.Verification) (*admin.Outcome, error) {
				return acts.Projections().Verify(ctx, by, *in)
			},
			Told: func(in *admin.Verification, done *admin.Outcome) Told { return begun(done, "verifies "+in.Projection) },
		}),
		act(Act{
			Kind: admin.ActRemove, Name: "removeProjection", Command: "projection remove",
			Path:  "/projections/{projection}/remove",
			Short: "Take a projection out of the registry for good",
			Long: "Take a projection out of the registry, with its failed campaigns and its pause and, with --tables, its " +
				"tables and all rows in them. It waits for what its group applies at the moment. Workers that have the " +
				"projection leave it alone from then on, but one that starts with it registers it anew: take it out of the " +
				"program first. It asks for the projection's name.",
			Examples: []string{
				"projection remove scores --dry-run",
				"projection remove scores --tables --reason 'totals has replaced it'",
			},
			Button: "Remove", Danger: true,
		}, does[*projectionRemoval]{
			Confirm: func(in *projectionRemoval) string { return in.Projection },
			Preview: func(ctx context.Context, acts *admin.Acts, _ admin.Request, in *projectionRemoval) (any, error) {
				return acts.Projections().PreviewRemoval(ctx, in.Projection, in.Tables)
			},
			Would: func(in *projectionRemoval, found any) string {
				removal := found.(admin.Removal)
				failed := table.Count(removal.Campaigns, "failed campaign")
				switch {
				case !in.Tables:
					return fmt.Sprintf("remove projection %s with %s and without its tables", in.Projection, failed)
				case len(removal.Tables) == 0:
					return fmt.Sprintf("remove projection %s, which has no tables, with %s", in.Projection, failed)
				}
				return fmt.Sprintf("remove projection %s with %s and what is in %s", in.Projection, failed,
					strings.Join(removal.Tables, ", "))
			},
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *projectionRemoval) (*admin.Outcome, error) {
				return acts.Projections().Remove(ctx, by, in.Projection, in.Tables)
			},
			Told: func(in *projectionRemoval, _ *admin.Outcome) Told {
				kept := "; its tables stay"
				if in.Tables {
					kept = " with its tables"
				}
				return Told{fmt.Sprintf("Removed projection %s%s.", in.Projection, kept), []string{"projection", "list"}}
			},
		}),
	}
}

// begun tells of an operation that workers do bit by bit.
func begun(done *admin.Outcome, does string) Told {
	id := fmt.Sprint(detail[admin.Operation](done).ID)
	return Told{fmt.Sprintf("Operation %s has begun: a worker %s.", id, does), []string{"operation", "show", id}}
}
