package operator

import (
	"context"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

func groupActs() []*Act {
	return []*Act{
		act(Act{
			Kind: admin.ActStartOperation, Name: "replayGroup", Command: "group replay", Path: "/groups/{group}/replay",
			Short: "Apply the events of all campaigns of a group again",
			Long: "Have workers apply the events of all campaigns of a group again, bit by bit: from scratch, after deleting " +
				"the campaign's rows, or from an event on with the rows as they are. Live work goes on; readers never see a " +
				"campaign half done. With --wait it shows progress until nothing is on its way any more. Beyond 100 campaigns " +
				"of a projection it asks.",
			Examples: []string{
				"group replay default --projection scores --dry-run",
				"group replay default --projection scores --from 1000 --wait",
			},
			Button: "Replay",
		}, does[*admin.GroupReplay]{
			Preview: func(ctx context.Context, acts *admin.Acts, _ admin.Request, in *admin.GroupReplay) (any, error) {
				return acts.PreviewReplay(ctx, failed.ReplayRequest{
					Group: in.Group, Projection: in.Projection, From: in.From,
				})
			},
			Counted: countFiled,
			Would:   func(_ *admin.GroupReplay, found any) string { return "replay " + filed(found) },
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *admin.GroupReplay) (*admin.Outcome, error) {
				return acts.StartReplay(ctx, by, *in)
			},
			Told: func(in *admin.GroupReplay, done *admin.Outcome) Told { return begun(done, "replays group "+in.Group) },
		}),
		act(Act{
			Kind: admin.ActStartOperation, Name: "repairGaps", Command: "gaps repair", Path: "/groups/{group}/repair-gaps",
			Short: "Look for the gaps of a group in all of the journal, and repair them",
			Long: "Have workers look for the gaps of a group in all of the journal, and repair them. A campaign without a " +
				"work item, though events stand past its checkpoint, is a gap: no worker would come to it. Workers look for gaps " +
				"every hour; this looks now. It asks for the group's name.",
			Examples: []string{"gaps repair default --dry-run", "gaps repair default --reason 'restored from a backup' --yes"},
			Button:   "Look and repair",
		}, does[*oneGroup]{
			Confirm: func(in *oneGroup) string { return in.Group },
			Preview: func(ctx context.Context, acts *admin.Acts, _ admin.Request, in *oneGroup) (any, error) {
				return acts.PreviewRepair(ctx, in.Group)
			},
			Counted: func(found any) (int64, []admin.Item) {
				return found.(admin.Gaps).Count, found.(admin.Gaps).Sample
			},
			Would: func(in *oneGroup, found any) string {
				return fmt.Sprintf("repair %s of group %s", table.Count(found.(admin.Gaps).Count, "gap"), in.Group)
			},
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *oneGroup) (*admin.Outcome, error) {
				return acts.StartRepair(ctx, by, admin.GapRepair{Group: in.Group})
			},
			Told: func(in *oneGroup, done *admin.Outcome) Told { return begun(done, "looks for gaps of group "+in.Group) },
		}),
		act(Act{
			Kind: admin.ActRemoveGroup, Name: "removeGroup", Command: "group remove", Path: "/groups/{group}/remove",
			Short: "End a consumer group that has no projections any more",
			Long: "End a consumer group that has no projections any more: appends give it no more work items, and those that " +
				"it has, its checkpoints and its pauses are deleted. A group of the same name begins anew, with the first " +
				"event of every campaign. Stop its workers first: they would register it again when they start. It waits for " +
				"appends that are open, and asks for the group's name. Interrupted, the same command goes on.",
			Examples: []string{
				"group remove search --dry-run", "group remove search --reason 'the index is gone'",
			},
			Button: "Remove", Danger: true,
		}, does[*oneGroup]{
			Confirm: func(in *oneGroup) string { return in.Group },
			Preview: func(ctx context.Context, acts *admin.Acts, _ admin.Request, in *oneGroup) (any, error) {
				return acts.PreviewGroupRemoval(ctx, in.Group)
			},
			Would: func(in *oneGroup, _ any) string {
				return "remove group " + in.Group + " with its work items, checkpoints and pauses"
			},
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *oneGroup) (*admin.Outcome, error) {
				return acts.RemoveGroup(ctx, by, in.Group)
			},
			Told: func(in *oneGroup, _ *admin.Outcome) Told {
				return Told{
					"Removed group " + in.Group + " with its work items, checkpoints and pauses.",
					[]string{"group", "list"},
				}
			},
		}),
	}
}

type oneWorker struct {
	Owner string `arg:"OWNER" of:"worker" help:"the worker, as workers list names it"`
}

func workerActs() []*Act {
	return []*Act{
		act(Act{
			Kind: admin.ActDrain, Name: "drainWorker", Command: "workers drain", Path: "/workers/{owner}/drain",
			Short: "Let a worker finish what it has and claim no more campaigns",
			Long: "Let a worker finish what it has and claim no more campaigns, until it is undrained or ends. It notices " +
				"within about a second. What it publishes goes on, and so do other workers. It asks for the worker's name.",
			Examples: []string{"workers drain box/4711/1f0c --reason 'the machine is replaced'"},
			Button:   "Drain", Danger: true,
		}, does[*oneWorker]{
			Confirm: func(in *oneWorker) string { return in.Owner },
			Preview: func(ctx context.Context, acts *admin.Acts, _ admin.Request, in *oneWorker) (any, error) {
				return acts.PreviewDrain(ctx, in.Owner)
			},
			Would: func(in *oneWorker, _ any) string { return "have worker " + in.Owner + " take no more campaigns" },
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *oneWorker) (*admin.Outcome, error) {
				return acts.DrainWorker(ctx, by, in.Owner)
			},
			Told: func(in *oneWorker, _ *admin.Outcome) Told {
				return Told{"Worker " + in.Owner + " finishes what it has and takes no more.", []string{"workers", "list"}}
			},
		}),
		act(Act{
			Kind: admin.ActUndrain, Name: "undrainWorker", Command: "workers undrain", Path: "/workers/{owner}/undrain",
			Short:    "Let a worker that was drained claim campaigns again",
			Examples: []string{"workers undrain box/4711/1f0c"},
			Button:   "Undrain",
		}, does[*oneWorker]{
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *oneWorker) (*admin.Outcome, error) {
				return acts.UndrainWorker(ctx, by, in.Owner)
			},
			Told: func(in *oneWorker, _ *admin.Outcome) Told {
				return Told{"Worker " + in.Owner + " claims campaigns again.", []string{"workers", "list"}}
			},
		}),
	}
}

type newToken struct {
	Name    string `arg:"NAME" help:"who has it: the operators' log names them"`
	Role    string `choices:"viewer,operator,admin" default:"viewer" help:"viewer, operator or admin"`
	Expires string `help:"how long it holds, such as 30d, or never (default 90d)"`
}

type oneToken struct {
	Name string `arg:"NAME" of:"token" help:"the token"`
}

func tokenActs() []*Act {
	return []*Act{
		act(Act{
			Kind: admin.ActCreateToken, Name: "createToken", Command: "token create", NoForm: true,
			Path:  "/tokens/{name}/create",
			Short: "Make a token, and show it this once",
			Long: "Make a token, and print it on stdout, this once. NAME is who has it: the log of what operators did names " +
				"them. A viewer looks, an operator also does what loses nothing, an admin also what leaves events out, moves " +
				"positions and exchanges tables.",
			Examples: []string{
				"token create ada --role operator", "token create ci --role viewer --expires 30d",
			},
			Button: "Create",
		}, does[*newToken]{
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *newToken) (*admin.Outcome, error) {
				role, err := auth.ParseRole(in.Role)
				if err != nil {
					return nil, fmt.Errorf("%w: %w", admin.ErrInvalid, err)
				}
				expires := auth.Never
				if in.Expires == "" {
					expires = 0
				} else if in.Expires != "never" {
					if expires, err = param.ParseDuration(in.Expires); err != nil {
						return nil, param.Refuse(
							"expires", in.Expires, "more than 0, or never", err.Error(),
							"write it like 12h or 30d, or say never",
						)
					}
				}
				return acts.CreateToken(ctx, by, in.Name, role, expires)
			},
			Told: func(in *newToken, _ *admin.Outcome) Told {
				return Told{"This is the token of " + in.Name + ", " + in.Role + ". It cannot be shown again.", nil}
			},
		}),
		act(Act{
			Kind: admin.ActRevokeToken, Name: "revokeToken", Command: "token revoke", Path: "/tokens/{name}/revoke",
			Short:    "End a token, and the sessions begun with it, at once",
			Examples: []string{"token revoke ada --reason 'she has left'"},
			Button:   "Revoke", Danger: true,
		}, does[*oneToken]{
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *oneToken) (*admin.Outcome, error) {
				return acts.RevokeToken(ctx, by, in.Name)
			},
			Told: func(in *oneToken, _ *admin.Outcome) Told {
				return Told{"Token " + in.Name + " holds no more.", []string{"token", "list"}}
			},
		}),
	}
}

type oneOperation struct {
	ID int64 `arg:"ID" min:"1" of:"operation" help:"the operation's number"`
}

func operationActs() []*Act {
	return []*Act{
		act(Act{
			Kind: admin.ActAbortOperation, Name: "abortOperation", Command: "operation abort",
			Path:     "/operations/{id}/abort",
			Short:    "End an operation after the batch that is under way; what was done stays done",
			Examples: []string{"operation abort 7 --reason 'it makes things worse'"},
			Button:   "Abort",
		}, does[*oneOperation]{
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *oneOperation) (*admin.Outcome, error) {
				return acts.Abort(ctx, by, in.ID)
			},
			Told: func(in *oneOperation, done *admin.Outcome) Told {
				o := detail[admin.Operation](done)
				return Told{
					fmt.Sprintf("Operation %d, %s, is aborted: %d of %d were done, and stay so.", in.ID, o.Kind, o.Done, o.Total),
					[]string{"operation", "show", fmt.Sprint(in.ID)},
				}
			},
		}),
	}
}
