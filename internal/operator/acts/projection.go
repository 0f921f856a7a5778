package acts

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

type projectionRemoval struct {
	oneProjection
	Tables bool `help:"drop its tables too"`
}

func projectionActs() []*Act {
	return []*Act{
		define(Act{
			Kind: admin.ActStartOperation, Name: "verifyProjection", Command: "projection verify", ByHand: true,
			Path:   "/projections/{projection}/verify",
			Short:  "Compare the rows of a projection with the journal",
			Button: "Verify", Hint: "A worker with the projection's code applies the events beside its tables and " +
				"compares the rows.",
		}, func(in *admin.Verification, d *does) {
			d.Wrong = checkVerification(in)
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				if _, err := admin.Registered(ctx, tx, in.Projection); err != nil {
					return nil, err
				}
				return admin.Start(ctx, tx, by, admin.OpVerify, in, 0)
			}
			d.Told = begun("verifies " + in.Projection)
		}),
		define(Act{
			Kind: admin.ActRemove, Name: "removeProjection", Command: "projection remove",
			Path:  "/projections/{projection}/remove",
			Short: "Remove a projection from the registry",
			Long: "Remove a projection from the registry, with its failed campaigns and its pause. --tables also " +
				"drops its tables with all rows. The command waits for what its group is applying. Running workers " +
				"that have the projection ignore it from then on, but a worker that starts with it registers it " +
				"again: remove it from the program first. It asks for the projection's name.",
			Examples: []string{
				"projection remove scores --dry-run",
				"projection remove scores --tables --reason 'totals has replaced it'",
			},
			Button: "Remove", Role: auth.Admin, Danger: true, Confirms: true,
		}, func(in *projectionRemoval, d *does) {
			kept := "; its tables stay"
			if in.Tables {
				kept = " with its tables"
			}
			d.Typed = in.Projection
			d.Preview = in.plan
			d.Alone = func(ctx context.Context, db *admin.Recorder) (any, error) {
				err := rebuild.Remove(ctx, db, in.Projection, in.Tables, db.Failed())
				const dependentObjects = "2BP01"
				if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == dependentObjects {
					err = fmt.Errorf("%w: %w (%s): nothing was removed; leave out its tables to keep them", admin.ErrNeeded,
						err, pgErr.Detail)
				}
				return nil, err
			}
			d.Told = told(fmt.Sprintf("Removed projection %s%s.", in.Projection, kept), "projection", "list")
		}),
	}
}

func checkVerification(in *admin.Verification) error {
	switch {
	case len(in.Campaigns) > 5000:
		return param.Refuse("campaigns", fmt.Sprint(len(in.Campaigns)), "5000", "there are too many", "verify all instead")
	case len(in.Campaigns) > 0 && in.Sample > 0:
		return param.Refuse("sample", fmt.Sprint(in.Sample), "0", "it cannot be combined with campaigns", "leave one out")
	case in.Proof && (len(in.Campaigns) > 0 || in.Sample > 0 || len(in.Ignore) > 0):
		return param.Refuse("proof", "true", "false", "a proof covers all campaigns and ignores no columns",
			"leave out campaigns, sample and ignore")
	}
	return nil
}

type removal struct {
	Group      string   `json:"group"`
	Projection *string  `json:"projection"` // null: the group
	Campaigns  int64    `json:"campaigns"`  // failed campaigns
	Tables     []string `json:"tables"`     // to drop
}

func (in *projectionRemoval) plan(ctx context.Context, acts *admin.Acts, _ admin.Request) (*Plan, error) {
	p, err := admin.Registered(ctx, acts.Pool(), in.Projection)
	if err != nil {
		return nil, err
	}
	found := removal{Group: p.Group, Projection: &in.Projection, Tables: []string{}}
	found.Campaigns, err = failed.Count(ctx, acts.Pool(), failed.Filter{Group: p.Group, Projection: in.Projection})
	if err != nil {
		return nil, err
	}
	behind, kept := table.Count(found.Campaigns, "failed campaign"), " and without its tables"
	if in.Tables {
		found.Tables = slice.Of(p.Tables, func(table string) string { return p.Schema + "." + table })
		kept = " and what is in " + strings.Join(found.Tables, ", ")
	}
	words := fmt.Sprintf("remove projection %s with %s%s", in.Projection, behind, kept)
	if in.Tables && len(found.Tables) == 0 {
		words = fmt.Sprintf("remove projection %s, which has no tables, with %s", in.Projection, behind)
	}
	return &Plan{Detail: found, Words: words}, nil
}

func begun(does string) func(*admin.Outcome) Told {
	return func(done *admin.Outcome) Told {
		id := fmt.Sprint(detail[admin.Operation](done).ID)
		return Told{fmt.Sprintf("Operation %s has begun: a worker %s.", id, does), []string{"operation", "show", id}}
	}
}
