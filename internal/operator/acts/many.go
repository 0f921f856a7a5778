package acts

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

// many has the parameters of bulk acts besides the filter.
type many struct {
	Limit int64     `min:"1" max:"1000000" help:"maximum number, those due or failed first (default all)"`
	All   bool      `help:"all of them; needed if no other filter is given"`
	AsOf  time.Time `help:"ignore failures after this time, the as_of of a dry run; resolve needs it"`
}

func (m *many) since(asOf time.Time) { m.AsOf = asOf }

func (m many) asOf() *time.Time {
	if m.AsOf.IsZero() {
		return nil
	}
	return &m.AsOf
}

type manyFailed struct {
	admin.FailedFilter
	many
}

func (in manyFailed) open() bool { return !in.All && reflect.ValueOf(in.FailedFilter).IsZero() }

func (in manyFailed) bulk(kind admin.OperationKind) admin.Bulk {
	return admin.Bulk{Kind: kind, Failed: &in.FailedFilter, Limit: in.Limit, AsOf: in.asOf()}
}

type manyParked struct {
	admin.ParkedFilter
	many
}

func (in manyParked) open() bool { return !in.All && in.ParkedFilter == admin.ParkedFilter{} }

func (in manyParked) bulk(kind admin.OperationKind) admin.Bulk {
	return admin.Bulk{Kind: kind, Parked: &in.ParkedFilter, Limit: in.Limit, AsOf: in.asOf()}
}

// choice is a pointer to a filter of a bulk act.
type choice[In any] interface {
	*In
	bulk(kind admin.OperationKind) admin.Bulk
	open() bool // reports that neither a filter nor all is given
	since(asOf time.Time)
}

// onMany builds the act that starts an operation on everything that In chooses.
func onMany[In any, P choice[In]](a Act, kind admin.OperationKind, thing string) *Act {
	verb := strings.ReplaceAll(string(kind), "_parked", "")
	a.Kind, a.Confirms, a.Counts = admin.ActStartOperation, true, true
	return define(a, func(in *In, d *does) {
		if P(in).open() {
			d.Wrong = param.Refuse("all", "", "true", "nothing chooses", "choose with other parameters, or say all")
		}
		d.Preview = func(ctx context.Context, acts *admin.Acts, _ admin.Request) (*Plan, error) {
			found, err := acts.PreviewBulk(ctx, P(in).bulk(kind))
			if err != nil {
				return nil, err
			}
			plan := &Plan{
				Detail: found, Words: verb + " " + table.Count(found.Count, thing), Typed: found.Confirm,
				Count: found.Count, First: found.Sample,
			}
			if a.Danger {
				same := new(*in)
				P(same).since(*found.AsOf)
				plan.In = same
			}
			return plan, nil
		}
		d.Do = func(ctx context.Context, acts *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
			return acts.StartBulk(ctx, tx, by, P(in).bulk(kind))
		}
		d.Told = func(done *admin.Outcome) Told {
			return begun(fmt.Sprintf("is to %s %s", verb, table.Count(detail[admin.Operation](done).Total, thing)))(done)
		}
	})
}

func manyActs() []*Act {
	return []*Act{
		onMany[manyFailed](Act{
			Name: "requeueManyFailed", Command: "failed requeue", Path: "/failed/requeue",
			Short: "Retry failed campaigns as if they had never failed",
			Long: "Retry failed and dead campaigns as if they had never failed. Use it once the projection is " +
				"fixed. Workers do it in batches, in the order in which the campaigns are due. The command asks " +
				"before it requeues more than 100.",
			Examples: []string{
				"failed requeue --projection scores --fingerprint 3f2a8c1d90be --dry-run",
				"failed requeue --status dead --fingerprint 3f2a8c1d90be --limit 500 --yes --reason 'fixed in 1.4.2'",
			},
			Button: "Requeue",
		}, admin.OpRequeue, "failed campaign"),
		onMany[manyFailed](Act{
			Name: "resolveManyFailed", Command: "failed resolve", Path: "/failed/resolve",
			Short: "Leave out the events that projections failed at",
			Long: "Leave out the events that projections failed at: each projection continues with the next event. " +
				"Workers do it in batches. Failures after the preview are left alone. To take it back one by one, use " +
				"failed unresolve.",
			Examples: []string{
				"failed resolve --projection scores --fingerprint 3f2a8c1d90be --dry-run --reason 'test data, see #812'",
			},
			Button: "Resolve", Role: auth.Admin, Reason: true, Danger: true,
		}, admin.OpResolve, "failed campaign"),
		onMany[manyParked](Act{
			Name: "retryManyParked", Command: "publisher parked retry", Path: "/parked/retry",
			Short: "Send refused events again, with all attempts restored",
			Long: "Send refused events again, with all attempts restored. Use it once the receiver is fixed. " +
				"Campaigns that wait behind them catch up in order. Workers do it in batches. The command asks before " +
				"it sends more than 100 events.",
			Examples: []string{
				"publisher parked retry --publisher archive --message 'too large' --dry-run",
				"publisher parked retry --all --yes --reason 'the limit is 8 MB now'",
			},
			Button: "Send again",
		}, admin.OpRetryParked, "event"),
		onMany[manyParked](Act{
			Name: "resolveManyParked", Command: "publisher parked resolve", Path: "/parked/resolve",
			Short: "Leave out refused events for good",
			Long: "Leave out refused events for good: the publisher never sends them, and campaigns that wait " +
				"behind them go on. Workers do it in batches. Events refused after the preview are left alone.",
			Examples: []string{
				"publisher parked resolve --publisher archive --type noted --dry-run --reason 'test data, see #812'",
			},
			Button: "Resolve", Role: auth.Admin, Reason: true, Danger: true,
		}, admin.OpResolveParked, "event"),
	}
}
