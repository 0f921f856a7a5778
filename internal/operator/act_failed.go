package operator

import (
	"context"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/store/failed"
)

// failedCampaign names a campaign that a projection has failed in.
type failedCampaign struct {
	Projection string `arg:"PROJECTION" of:"projection" help:"the projection"`
	CampaignID string `arg:"CAMPAIGN" name:"campaign" of:"failed" help:"the campaign"`
}

func (f failedCampaign) key() failed.Key {
	return failed.Key{Projection: f.Projection, CampaignID: f.CampaignID}
}

// next is the command that shows what becomes of it.
func (f failedCampaign) next() []string { return []string{"campaign", "show", f.CampaignID} }

// failedEvent names the event that is left out, or is to be, of it.
type failedEvent struct {
	failedCampaign
	Seq int64 `required:"true" min:"1" help:"the event; the first one is 1"`
}

func failedActs() []*Act {
	return []*Act{
		act(Act{
			Kind: admin.ActRequeue, Name: "requeueFailed", Command: "failed requeue",
			Path:  "/failed/{projection}/{campaign}/requeue",
			Short: "Try a failed campaign of a projection again, as if it had not failed before",
			Long: "Try a failed campaign of a projection again at once, as if it had not failed before: what to do once the " +
				"projection is mended.",
			Examples: []string{"failed requeue scores oak"},
			Button:   "Requeue",
		}, does[*failedCampaign]{
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *failedCampaign) (*admin.Outcome, error) {
				return acts.Failures().Requeue(ctx, by, in.key())
			},
			Told: func(in *failedCampaign, _ *admin.Outcome) Told {
				return Told{fmt.Sprintf("Requeued %s in %s: a worker tries it now.", in.Projection, in.CampaignID), in.next()}
			},
		}),
		act(Act{
			Kind: admin.ActResolve, Name: "resolveFailed", Command: "failed resolve",
			Path:  "/failed/{projection}/{campaign}/resolve",
			Short: "Leave the event that a projection failed at out for good",
			Long: "Leave the event that a projection failed at out for good. The projection goes on with the event after " +
				"it, and its rows stay as if the event had never been, also after a replay, a rebuild or a repair. Every set " +
				"of tables of the projection leaves it out; unresolve takes that back. failed show names the event.",
			Examples: []string{"failed resolve scores oak --seq 7 --reason 'test data, see #812'"},
			Button:   "Resolve", Reason: true, Danger: true,
		}, does[*failedEvent]{
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *failedEvent) (*admin.Outcome, error) {
				return acts.Failures().Resolve(ctx, by, in.key(), in.Seq)
			},
			Told: func(in *failedEvent, _ *admin.Outcome) Told {
				return Told{
					fmt.Sprintf("Resolved: %s goes on in %s without event %d.", in.Projection, in.CampaignID, in.Seq),
					in.next(),
				}
			},
		}),
		act(Act{
			Kind: admin.ActUnresolve, Name: "unresolveFailed", Command: "failed unresolve",
			Path:  "/failed/{projection}/{campaign}/unresolve",
			Short: "Take back that an event is left out: the projection applies it after all",
			Long: "Take back that an event is left out of a projection in a campaign. Workers delete the projection's rows of " +
				"the campaign and apply all of its events again, this one among them, in each set of tables that has gone " +
				"past it. If the event still fails, the projection stops there again.",
			Examples: []string{"failed unresolve scores oak --seq 7 --reason 'it was no test data'"},
			Button:   "Take back", Reason: true, Danger: true,
			Hint: "The projection applies the campaign anew, with this event.",
		}, does[*failedEvent]{
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *failedEvent) (*admin.Outcome, error) {
				return acts.Failures().Unresolve(ctx, by, in.key(), in.Seq)
			},
			Told: func(in *failedEvent, _ *admin.Outcome) Told {
				return Told{
					fmt.Sprintf("Taken back: %s applies %s anew, with event %d.", in.Projection, in.CampaignID, in.Seq),
					in.next(),
				}
			},
		}),
	}
}
