package acts

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/failed"
)

type failedCampaign struct{ operator.FailedCampaign }

func (f failedCampaign) told(format string, args ...any) func(*admin.Outcome) Told {
	return told(fmt.Sprintf(format, args...), "campaign", "show", f.CampaignID)
}

type failedEvent struct {
	failedCampaign
	Seq int64 `required:"true" min:"1" help:"the event; the first one is 1"`
}

func failedActs() []*Act {
	return []*Act{
		define(Act{
			Kind: admin.ActRequeue, Name: "requeueFailed", Command: "failed requeue",
			Path:     "/failed/{projection}/{campaign}/requeue",
			Short:    "Retry a failed campaign as if it had never failed",
			Long:     "Retry a failed campaign at once, as if it had never failed. Use it once the projection is fixed.",
			Examples: []string{"failed requeue scores oak"},
			Button:   "Requeue",
		}, func(in *failedCampaign, d *does) {
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				return nil, failed.Requeue(ctx, tx, in.Key(), by.Failed())
			}
			d.Told = in.told("Requeued %s in %s: a worker tries it now.", in.Projection, in.CampaignID)
		}),
		define(Act{
			Kind: admin.ActResolve, Name: "resolveFailed", Command: "failed resolve",
			Path:  "/failed/{projection}/{campaign}/resolve",
			Short: "Leave out the event that a projection failed at",
			Long: "Leave out the event that a projection failed at. The projection continues with the next event. " +
				"Its rows stay as if the event had never existed, also after a replay, a rebuild or a repair. Every " +
				"set of tables of the projection leaves it out. To take this back, use failed unresolve. failed show " +
				"names the event.",
			Examples: []string{"failed resolve scores oak --seq 7 --reason 'test data, see #812'"},
			Button:   "Resolve", Role: auth.Admin, Reason: true, Danger: true,
		}, func(in *failedEvent, d *does) {
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				return nil, failed.Resolve(ctx, tx, in.Key(), in.Seq, by.Failed())
			}
			d.Told = in.told("Resolved: %s goes on in %s without event %d.", in.Projection, in.CampaignID, in.Seq)
		}),
		define(Act{
			Kind: admin.ActUnresolve, Name: "unresolveFailed", Command: "failed unresolve",
			Path:  "/failed/{projection}/{campaign}/unresolve",
			Short: "Undo failed resolve: the projection applies the event after all",
			Long: "Apply an event that was left out of a projection. Workers delete the projection's rows of the " +
				"campaign and apply all its events again, this one included, in each set of tables that is past it. " +
				"If the event still fails, the projection stops there again.",
			Examples: []string{"failed unresolve scores oak --seq 7 --reason 'it was not test data'"},
			Button:   "Take back", Role: auth.Admin, Reason: true, Danger: true,
			Hint: "The projection applies the whole campaign again, with this event.",
		}, func(in *failedEvent, d *does) {
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				return nil, failed.Unresolve(ctx, tx, in.Key(), in.Seq, by.Failed())
			}
			d.Told = in.told("Undone: %s applies %s again, with event %d.", in.Projection, in.CampaignID, in.Seq)
		}),
	}
}
