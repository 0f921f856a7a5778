package operator

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

// many is what all acts on much are told besides a filter.
type many struct {
	Limit int64     `min:"1" max:"1000000" help:"at most so many, those that are due or failed first (default all)"`
	All   bool      `help:"all that there are, if nothing else chooses them"`
	AsOf  time.Time `help:"leave out what failed after this time, the as_of of a dry run; resolving needs it"`
}

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

func (in manyFailed) since(asOf time.Time) manyFailed {
	in.AsOf = asOf
	return in
}

type manyParked struct {
	admin.ParkedFilter
	many
}

func (in manyParked) open() bool { return !in.All && in.ParkedFilter == admin.ParkedFilter{} }

func (in manyParked) bulk(kind admin.OperationKind) admin.Bulk {
	return admin.Bulk{Kind: kind, Parked: &in.ParkedFilter, Limit: in.Limit, AsOf: in.asOf()}
}

func (in manyParked) since(asOf time.Time) manyParked {
	in.AsOf = asOf
	return in
}

// choice is what chooses many things.
type choice[In any] interface {
	bulk(kind admin.OperationKind) admin.Bulk
	open() bool // nothing chooses, and all is not said
	since(asOf time.Time) In
}

// onMany completes the act of an operation on all that In chooses.
func onMany[In choice[In]](a Act, kind admin.OperationKind, thing string) *Act {
	verb := strings.ReplaceAll(string(kind), "_parked", "")
	a.Kind, a.Confirms, a.Counts = admin.ActStartOperation, true, true
	return act(a, func(in *In) does {
		var wrong error
		if (*in).open() {
			wrong = param.Refuse("all", "", "true", "nothing chooses", "choose with other parameters, or say all")
		}
		return does{
			Wrong: wrong,
			Preview: func(ctx context.Context, acts *admin.Acts, _ admin.Request) (*Plan, error) {
				found, err := acts.PreviewBulk(ctx, (*in).bulk(kind))
				if err != nil {
					return nil, err
				}
				plan := &Plan{
					Detail: found, Words: verb + " " + table.Count(found.Count, thing), Typed: found.Confirm,
					Count: found.Count, First: found.Sample,
				}
				if a.Danger {
					plan.In = new((*in).since(*found.AsOf))
				}
				return plan, nil
			},
			Do: func(ctx context.Context, acts *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				return acts.StartBulk(ctx, tx, by, (*in).bulk(kind))
			},
			Told: func(done *admin.Outcome) Told {
				return begun(fmt.Sprintf("is to %s %s", verb, table.Count(detail[admin.Operation](done).Total, thing)))(done)
			},
		}
	})
}

func manyActs() []*Act {
	return []*Act{
		onMany[manyFailed](Act{
			Name: "requeueManyFailed", Command: "failed requeue", Path: "/failed/requeue",
			Short: "Try failed campaigns again, as if they had not failed before",
			Long: "Try failed and dead campaigns again, as if they had not failed before: what to do once the projection is " +
				"mended. Workers do it bit by bit, those that were due first come first. It asks before it requeues more than " +
				"100.",
			Examples: []string{
				"failed requeue --projection scores --fingerprint 3f2a8c1d90be --dry-run",
				"failed requeue --status dead --fingerprint 3f2a8c1d90be --limit 500 --yes --reason 'fixed in 1.4.2'",
			},
			Button: "Requeue",
		}, admin.OpRequeue, "failed campaign"),
		onMany[manyFailed](Act{
			Name: "resolveManyFailed", Command: "failed resolve", Path: "/failed/resolve",
			Short: "Leave out, for good, the events at which projections failed",
			Long: "Leave out, for good, the events at which projections failed: each goes on with the event after it. " +
				"Workers do it bit by bit; what has failed after the preview is left alone. Unresolve takes it back, one by one.",
			Examples: []string{
				"failed resolve --projection scores --fingerprint 3f2a8c1d90be --dry-run --reason 'test data, see #812'",
			},
			Button: "Resolve", Role: auth.Admin, Reason: true, Danger: true,
		}, admin.OpResolve, "failed campaign"),
		onMany[manyParked](Act{
			Name: "retryManyParked", Command: "publisher parked retry", Path: "/parked/retry",
			Short: "Send refused events again, with all their attempts before them",
			Long: "Have refused events sent again, with all their attempts before them: what to do once the other side is " +
				"mended. Campaigns that wait behind them catch up in order. Workers do it bit by bit. Beyond 100 events it asks.",
			Examples: []string{
				"publisher parked retry --publisher archive --message 'too large' --dry-run",
				"publisher parked retry --all --yes --reason 'the limit is 8 MB now'",
			},
			Button: "Send again",
		}, admin.OpRetryParked, "event"),
		onMany[manyParked](Act{
			Name: "resolveManyParked", Command: "publisher parked resolve", Path: "/parked/resolve",
			Short: "Leave refused events out for good",
			Long: "Leave refused events out, for good: they are never published to that publisher, and campaigns that wait " +
				"behind them go on. Workers do it bit by bit; what is refused after the preview is left alone.",
			Examples: []string{
				"publisher parked resolve --publisher archive --type noted --dry-run --reason 'test data, see #812'",
			},
			Button: "Resolve", Role: auth.Admin, Reason: true, Danger: true,
		}, admin.OpResolveParked, "event"),
	}
}
