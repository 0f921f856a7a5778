package acts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/event"
)

func groupActs() []*Act {
	return []*Act{
		define(Act{
			Kind: admin.ActStartOperation, Name: "replayGroup", Command: "group replay", Path: "/groups/{group}/replay",
			Short: "Apply the events of all campaigns of a group again",
			Long: "Apply the events of all campaigns of a group again. Workers do it in batches. By default they " +
				"delete the campaign's rows and start with the first event; with from they start there and keep the " +
				"rows. Live work goes on, and readers never see a campaign half done. --wait shows progress until all " +
				"campaigns have caught up. The command asks before it replays more than 100 campaigns of a " +
				"projection.",
			Examples: []string{
				"group replay default --projection scores --dry-run",
				"group replay default --projection scores --from 1000 --wait",
			},
			Button: "Replay", Counts: true,
		}, func(in *admin.GroupReplay, d *does) {
			d.Preview = planReplay(in.Replay())
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				n, err := failed.CountReplay(ctx, tx, in.Replay())
				if err != nil {
					return nil, err
				}
				return admin.Start(ctx, tx, by, admin.OpReplay, in, n)
			}
			d.Told = begun("replays group " + in.Group)
		}),
		define(Act{
			Kind: admin.ActStartOperation, Name: "repairGaps", Command: "gaps repair", Path: "/groups/{group}/repair-gaps",
			Short: "Find and repair the gaps of a group",
			Long: "Search the whole journal for gaps of a group and repair them. A gap is a campaign with events " +
				"past its checkpoint but no work item, so no worker would process it. Workers look for gaps every " +
				"hour; this command looks now. It asks for the group's name.",
			Examples: []string{"gaps repair default --dry-run", "gaps repair default --reason 'restored from a backup' --yes"},
			Button:   "Look and repair", Confirms: true, Counts: true,
		}, func(in *oneGroup, d *does) {
			d.Typed = in.Group
			d.Preview = in.planRepair
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				if err := knownGroup(ctx, tx, in.Group); err != nil {
					return nil, err
				}
				return admin.Start(ctx, tx, by, admin.OpRepairGaps, admin.GapRepair{Group: in.Group}, 0)
			}
			d.Told = begun("looks for gaps of group " + in.Group)
		}),
		define(Act{
			Kind: admin.ActRemoveGroup, Name: "removeGroup", Command: "group remove", Path: "/groups/{group}/remove",
			Short: "Remove a consumer group that has no projections",
			Long: "Remove a consumer group that has no projections. Its work items, checkpoints and pauses are " +
				"deleted, and appends add no more work items for it. A new group of the same name starts with the " +
				"first event of every campaign. Stop its workers first: a worker registers its group when it starts. " +
				"The command waits for open appends and asks for the group's name. If it is interrupted, run it " +
				"again.",
			Examples: []string{
				"group remove search --dry-run", "group remove search --reason 'the index is gone'",
			},
			Button: "Remove", Role: auth.Admin, Danger: true, Confirms: true,
		}, func(in *oneGroup, d *does) {
			d.Typed = in.Group
			d.Would = "remove group " + in.Group + " with its work items, checkpoints and pauses"
			d.Preview = in.planRemoval
			d.Alone = func(ctx context.Context, db *admin.Recorder) (any, error) {
				return nil, outbox.Unregister(ctx, db, in.Group, db.Who.Name, db.Reason)
			}
			d.Told = told("Removed group "+in.Group+" with its work items, checkpoints and pauses.", "group", "list")
		}),
	}
}

// knownGroup returns [outbox.ErrNotRegistered] for an unknown consumer group.
func knownGroup(ctx context.Context, db event.Querier, name string) error {
	groups, err := outbox.Groups(ctx, db)
	if err == nil && !slices.ContainsFunc(groups, func(g outbox.Group) bool { return g.Name == name }) {
		err = fmt.Errorf("group %q: %w", name, outbox.ErrNotRegistered)
	}
	return err
}

// gapSample is the maximum number of gaps that a plan names.
const gapSample = 10

// gaps counts the gaps of a group. An item of the sample names the first event after its checkpoint.
type gaps struct {
	Count  int64        `json:"count"`
	Sample []admin.Item `json:"sample"`
}

// planRepair searches the whole journal for gaps.
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

// planRemoval returns [outbox.ErrInUse] for a group that has projections.
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
		define(Act{
			Kind: admin.ActDrain, Name: "drainWorker", Command: "workers drain", Path: "/workers/{owner}/drain",
			Short: "Stop a worker from claiming campaigns",
			Long: "Stop a worker from claiming campaigns until it is undrained or ends. It finishes the campaigns " +
				"that it holds, and notices within about a second. Its publishers and other workers go on. The " +
				"command asks for the worker's name.",
			Examples: []string{"workers drain box/4711/1f0c --reason 'the machine is replaced'"},
			Button:   "Drain", Role: auth.Admin, Danger: true, Confirms: true,
		}, func(in *oneWorker, d *does) {
			d.Typed = in.Owner
			d.Would = "stop worker " + in.Owner + " from claiming campaigns"
			d.Preview = func(ctx context.Context, acts *admin.Acts, _ admin.Request) (*Plan, error) {
				workers, err := lease.Workers(ctx, acts.Pool())
				for _, w := range workers {
					if w.Owner == in.Owner {
						return &Plan{Detail: w}, nil
					}
				}
				return nil, cmp.Or(err, in.found(false))
			}
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				there, err := lease.Drain(ctx, tx, in.Owner, by.Who.Name)
				return nil, cmp.Or(err, in.found(there))
			}
			d.Told = told("Worker "+in.Owner+" finishes what it holds and claims no more.", "workers", "list")
		}),
		define(Act{
			Kind: admin.ActUndrain, Name: "undrainWorker", Command: "workers undrain", Path: "/workers/{owner}/undrain",
			Short:    "Let a drained worker claim campaigns again",
			Examples: []string{"workers undrain box/4711/1f0c"},
			Button:   "Undrain", Role: auth.Admin,
		}, func(in *oneWorker, d *does) {
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, _ admin.Request) (any, error) {
				there, err := lease.Undrain(ctx, tx, in.Owner)
				return nil, cmp.Or(err, in.found(there))
			}
			d.Told = told("Worker "+in.Owner+" claims campaigns again.", "workers", "list")
		}),
	}
}

// found returns [admin.ErrNotFound] unless the worker is there.
func (in *oneWorker) found(there bool) error {
	if there {
		return nil
	}
	return fmt.Errorf("worker %q: %w", in.Owner, admin.ErrNotFound)
}

type newToken struct {
	Name    string `arg:"NAME" help:"the owner's name in the operators' log"`
	Role    string `choices:"viewer,operator,admin" default:"viewer" help:"viewer, operator or admin"`
	Expires string `help:"lifetime, such as 30d, or never (default 90d)"`
}

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

// NewToken is a created token. Neither the log nor the record of an idempotency key has the token itself.
type NewToken struct {
	Name    string `json:"name"`
	Role    string `json:"role"`
	Expires string `json:"expires"`         // a Go duration, or "never"
	Token   string `json:"token,omitempty"` // "" for a repeated request: revoke the token and create another
}

type oneToken struct {
	Name string `arg:"NAME" of:"token" help:"the token"`
}

func tokenActs() []*Act {
	return []*Act{
		define(Act{
			Kind: admin.ActCreateToken, Name: "createToken", Command: "token create", NoForm: true,
			Path:  "/tokens/{name}/create",
			Short: "Create a token and show it once",
			Long: "Create a token and print it on stdout. It is shown only once. NAME is the owner, as the " +
				"operators' log names them. A viewer reads. An operator also does what loses nothing. An admin also " +
				"leaves out events, moves positions and swaps tables.",
			Examples: []string{
				"token create ada --role operator", "token create ci --role viewer --expires 30d",
			},
			Button: "Create", Role: auth.Admin, Logs: true,
		}, func(in *newToken, d *does) {
			made := NewToken{Name: in.Name, Role: in.Role, Expires: in.Expires}
			holds, err := in.holds()
			if holds > 0 {
				made.Expires = holds.String()
			}
			d.Wrong = err
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				role, err := auth.ParseRole(in.Role)
				if err != nil {
					return nil, fmt.Errorf("%w: %w", admin.ErrInvalid, err)
				}
				kept := made
				made.Token, err = auth.Create(ctx, tx, in.Name, role, holds, by.Who, by.Reason)
				return kept, err
			}
			d.Reveal = func() any { return made }
			d.Told = told("This is the token of " + in.Name + ", " + in.Role + ". It cannot be shown again.")
		}),
		define(Act{
			Kind: admin.ActRevokeToken, Name: "revokeToken", Command: "token revoke", Path: "/tokens/{name}/revoke",
			Short:    "Revoke a token and end its sessions at once",
			Examples: []string{"token revoke ada --reason 'she has left'"},
			Button:   "Revoke", Role: auth.Admin, Danger: true, Logs: true,
		}, func(in *oneToken, d *does) {
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				return nil, auth.Revoke(ctx, tx, in.Name, by.Who, by.Reason)
			}
			d.Told = told("Revoked token "+in.Name+".", "token", "list")
		}),
	}
}

func operationActs() []*Act {
	return []*Act{
		define(Act{
			Kind: admin.ActAbortOperation, Name: "abortOperation", Command: "operation abort",
			Path:     "/operations/{id}/abort",
			Short:    "Abort an operation after its current batch; what is done stays done",
			Examples: []string{"operation abort 7 --reason 'it makes things worse'"},
			Button:   "Abort",
		}, func(in *operator.Operation, d *does) {
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				return admin.Abort(ctx, tx, by, in.ID)
			}
			d.Told = func(done *admin.Outcome) Told {
				o := detail[admin.Operation](done)
				return Told{
					fmt.Sprintf("Operation %d, %s, is aborted: %d of %d were done, and stay so.", in.ID, o.Kind, o.Done,
						o.Total),
					[]string{"operation", "show", fmt.Sprint(in.ID)},
				}
			}
		}),
	}
}
