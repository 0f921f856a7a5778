package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/journal"
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
			Button: "Replay", Counts: true,
		}, func(in *admin.GroupReplay) does {
			return does{
				Preview: planReplay(in.Replay()),
				Do: func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
					n, err := failed.CountReplay(ctx, tx, in.Replay())
					if err != nil {
						return nil, err
					}
					return admin.Start(ctx, tx, by, admin.OpReplay, in, n)
				},
				Told: begun("replays group " + in.Group),
			}
		}),
		act(Act{
			Kind: admin.ActStartOperation, Name: "repairGaps", Command: "gaps repair", Path: "/groups/{group}/repair-gaps",
			Short: "Look for the gaps of a group in all of the journal, and repair them",
			Long: "Have workers look for the gaps of a group in all of the journal, and repair them. A campaign without a " +
				"work item, though events stand past its checkpoint, is a gap: no worker would come to it. Workers look for gaps " +
				"every hour; this looks now. It asks for the group's name.",
			Examples: []string{"gaps repair default --dry-run", "gaps repair default --reason 'restored from a backup' --yes"},
			Button:   "Look and repair", Confirms: true, Counts: true,
		}, func(in *oneGroup) does {
			return does{
				Typed:   in.Group,
				Preview: in.planRepair,
				Do: func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
					if err := knownGroup(ctx, tx, in.Group); err != nil {
						return nil, err
					}
					return admin.Start(ctx, tx, by, admin.OpRepairGaps, admin.GapRepair{Group: in.Group}, 0)
				},
				Told: begun("looks for gaps of group " + in.Group),
			}
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
			Button: "Remove", Role: auth.Admin, Danger: true, Confirms: true,
		}, func(in *oneGroup) does {
			return does{
				Typed:   in.Group,
				Would:   "remove group " + in.Group + " with its work items, checkpoints and pauses",
				Preview: in.planRemoval,
				Alone: func(ctx context.Context, _ *admin.Acts, db *admin.Recorder) (any, error) {
					return nil, outbox.Unregister(ctx, db, in.Group, db.Who.Name, db.Reason)
				},
				Told: told("Removed group "+in.Group+" with its work items, checkpoints and pauses.", "group", "list"),
			}
		}),
	}
}

// knownGroup answers [outbox.ErrNotRegistered] for a consumer group that there is not.
func knownGroup(ctx context.Context, db journal.Querier, name string) error {
	groups, err := outbox.Groups(ctx, db)
	if err == nil && !slices.ContainsFunc(groups, func(g outbox.Group) bool { return g.Name == name }) {
		err = fmt.Errorf("group %q: %w", name, outbox.ErrNotRegistered)
	}
	return err
}

// gapSample is how many gaps a plan names.
const gapSample = 10

// gaps is how many gaps a group has, and the first ones: the event behind the checkpoint of each.
type gaps struct {
	Count  int64        `json:"count"`
	Sample []admin.Item `json:"sample"`
}

// planRepair looks for gaps in all of the journal.
func (in *oneGroup) planRepair(ctx context.Context, acts *admin.Acts, _ admin.Request) (*Plan, error) {
	if err := knownGroup(ctx, acts.Pool(), in.Group); err != nil {
		return nil, err
	}
	found, after := gaps{Sample: []admin.Item{}}, ""
	for more := true; more; more = after != "" {
		some, next, err := outbox.Gaps(ctx, acts.Pool(), in.Group, after, 0)
		if err != nil {
			return nil, err
		}
		found.Count += int64(len(some))
		for _, g := range some[:min(len(some), gapSample-len(found.Sample))] {
			found.Sample = append(found.Sample,
				admin.Item{CampaignID: g.CampaignID, Subject: g.Group, Seq: g.Checkpoint + 1})
		}
		after = next
	}
	return &Plan{
		Detail: found, Count: found.Count, First: found.Sample,
		Words: fmt.Sprintf("repair %s of group %s", table.Count(found.Count, "gap"), in.Group),
	}, nil
}

// planRemoval answers [outbox.ErrInUse] for a group that has projections.
func (in *oneGroup) planRemoval(ctx context.Context, acts *admin.Acts, _ admin.Request) (*Plan, error) {
	if err := knownGroup(ctx, acts.Pool(), in.Group); err != nil {
		return nil, err
	}
	all, err := rebuild.Projections(ctx, acts.Pool())
	for _, p := range all {
		if p.Group == in.Group {
			return nil, fmt.Errorf("group %q has projection %q: %w", in.Group, p.Name, outbox.ErrInUse)
		}
	}
	return &Plan{Detail: removal{Group: in.Group, Tables: []string{}}}, err
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
			Button:   "Drain", Role: auth.Admin, Danger: true, Confirms: true,
		}, func(in *oneWorker) does {
			return does{
				Typed: in.Owner,
				Would: "have worker " + in.Owner + " take no more campaigns",
				Preview: func(ctx context.Context, acts *admin.Acts, _ admin.Request) (*Plan, error) {
					workers, err := lease.Workers(ctx, acts.Pool())
					for _, w := range workers {
						if w.Owner == in.Owner {
							return &Plan{Detail: w}, nil
						}
					}
					return nil, cmp.Or(err, in.found(false))
				},
				Do: func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
					there, err := lease.Drain(ctx, tx, in.Owner, by.Who.Name)
					return nil, cmp.Or(err, in.found(there))
				},
				Told: told("Worker "+in.Owner+" finishes what it has and takes no more.", "workers", "list"),
			}
		}),
		act(Act{
			Kind: admin.ActUndrain, Name: "undrainWorker", Command: "workers undrain", Path: "/workers/{owner}/undrain",
			Short:    "Let a worker that was drained claim campaigns again",
			Examples: []string{"workers undrain box/4711/1f0c"},
			Button:   "Undrain", Role: auth.Admin,
		}, func(in *oneWorker) does {
			return does{
				Do: func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, _ admin.Request) (any, error) {
					there, err := lease.Undrain(ctx, tx, in.Owner)
					return nil, cmp.Or(err, in.found(there))
				},
				Told: told("Worker "+in.Owner+" claims campaigns again.", "workers", "list"),
			}
		}),
	}
}

// found answers [admin.ErrNotFound] for a worker that is not there.
func (in *oneWorker) found(there bool) error {
	if there {
		return nil
	}
	return fmt.Errorf("worker %q: %w", in.Owner, admin.ErrNotFound)
}

type newToken struct {
	Name    string `arg:"NAME" help:"who has it: the operators' log names them"`
	Role    string `choices:"viewer,operator,admin" default:"viewer" help:"viewer, operator or admin"`
	Expires string `help:"how long it holds, such as 30d, or never (default 90d)"`
}

// holds answers for how long.
func (in *newToken) holds() (time.Duration, error) {
	switch in.Expires {
	case "":
		return auth.DefaultExpiry, nil
	case "never":
		return auth.Never, nil
	}
	d, err := param.ParseDuration(in.Expires)
	if err != nil {
		err = param.Refuse("expires", in.Expires, "more than 0, or never", err.Error(),
			"write it like 12h or 30d, or say never")
	}
	return d, err
}

// NewToken is a token that was made. Neither the log nor what is kept of an idempotency key has the token itself.
type NewToken struct {
	Name    string `json:"name"`
	Role    string `json:"role"`
	Expires string `json:"expires"`         // a Go duration, or "never"
	Token   string `json:"token,omitempty"` // "" in the answer to a request that is repeated: revoke it, and make another
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
			Button: "Create", Role: auth.Admin, Logs: true,
		}, func(in *newToken) does {
			made := NewToken{Name: in.Name, Role: in.Role, Expires: in.Expires}
			holds, err := in.holds()
			if holds > 0 {
				made.Expires = holds.String()
			}
			return does{
				Wrong: err,
				Do: func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
					role, err := auth.ParseRole(in.Role)
					if err != nil {
						return nil, fmt.Errorf("%w: %w", admin.ErrInvalid, err)
					}
					kept := made
					made.Token, err = auth.Create(ctx, tx, in.Name, role, holds, by.Who, by.Reason)
					return kept, err
				},
				Reveal: func() any { return made },
				Told:   told("This is the token of " + in.Name + ", " + in.Role + ". It cannot be shown again."),
			}
		}),
		act(Act{
			Kind: admin.ActRevokeToken, Name: "revokeToken", Command: "token revoke", Path: "/tokens/{name}/revoke",
			Short:    "End a token, and the sessions begun with it, at once",
			Examples: []string{"token revoke ada --reason 'she has left'"},
			Button:   "Revoke", Role: auth.Admin, Danger: true, Logs: true,
		}, func(in *oneToken) does {
			return does{
				Do: func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
					return nil, auth.Revoke(ctx, tx, in.Name, by.Who, by.Reason)
				},
				Told: told("Token "+in.Name+" holds no more.", "token", "list"),
			}
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
		}, func(in *oneOperation) does {
			return does{
				Do: func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
					return admin.Abort(ctx, tx, by, in.ID)
				},
				Told: func(done *admin.Outcome) Told {
					o := detail[admin.Operation](done)
					return Told{
						fmt.Sprintf("Operation %d, %s, is aborted: %d of %d were done, and stay so.", in.ID, o.Kind, o.Done,
							o.Total),
						[]string{"operation", "show", fmt.Sprint(in.ID)},
					}
				},
			}
		}),
	}
}
