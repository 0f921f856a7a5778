package operator

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/admin"
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

// failedChoice chooses failed campaigns.
type failedChoice struct {
	Group       string        `of:"group" help:"only in this consumer group"`
	Projection  string        `of:"projection" help:"only of this projection"`
	CampaignID  string        `name:"campaign" of:"failed" help:"only this campaign"`
	EventType   string        `name:"type" help:"only where an event of this type failed"`
	Class       string        `choices:"infrastructure,transient,permanent,lock" help:"only failures of this class"`
	Code        string        `help:"only failures with this code: a SQLSTATE, panic, deadline, crash, decode, error"`
	Fingerprint string        `of:"fingerprint" help:"only failures with this fingerprint; stats lists them"`
	Message     string        `help:"only failures whose message matches this regular expression (POSIX)"`
	Status      []string      `choices:"failed,dead" help:"only with this status; may be given several times"`
	OlderThan   time.Duration `help:"only what first failed longer ago, such as 2h or 7d"`
	NewerThan   time.Duration `help:"only what first failed since, such as 2h or 7d"`
}

type manyFailed struct {
	failedChoice
	many
}

func (in manyFailed) open() bool {
	return !in.All && reflect.DeepEqual(in.failedChoice, failedChoice{})
}

func (in manyFailed) bulk(kind admin.OperationKind) admin.Bulk {
	pairs := admin.PairFilter{
		Group: in.Group, Projection: in.Projection, CampaignID: in.CampaignID, EventType: in.EventType, Class: in.Class,
		Code: in.Code, Fingerprint: in.Fingerprint, Message: in.Message, Status: in.Status,
	}
	if in.OlderThan != 0 {
		pairs.OlderThan = in.OlderThan.String()
	}
	if in.NewerThan != 0 {
		pairs.NewerThan = in.NewerThan.String()
	}
	return admin.Bulk{Kind: kind, Pairs: &pairs, Limit: in.Limit, AsOf: in.asOf()}
}

func (in manyFailed) since(asOf time.Time) manyFailed {
	in.AsOf = asOf
	return in
}

// parkedChoice chooses parked events.
type parkedChoice struct {
	Topic      string `of:"topic" help:"only events of this topic"`
	Publisher  string `of:"publisher" help:"only events that this publisher could not send"`
	CampaignID string `name:"campaign" of:"parked" help:"only events of this campaign"`
	EventType  string `name:"type" help:"only events of this type"`
	Status     string `choices:"retrying,parked" help:"only events with this status (default both)"`
	Message    string `help:"only events whose error matches this regular expression (POSIX)"`
}

type manyParked struct {
	parkedChoice
	many
}

func (in manyParked) open() bool { return !in.All && in.parkedChoice == parkedChoice{} }

func (in manyParked) bulk(kind admin.OperationKind) admin.Bulk {
	filter := admin.ParkedFilter(in.parkedChoice)
	return admin.Bulk{Kind: kind, Parked: &filter, Limit: in.Limit, AsOf: in.asOf()}
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
	a.Kind, a.NoForm = admin.ActStartOperation, true
	return act(a, does[*In]{
		Check: func(in *In) error {
			if (*in).open() {
				return &ParamError{"all", "", "true", "nothing chooses", "choose with other parameters, or say all"}
			}
			return nil
		},
		Preview: func(ctx context.Context, acts *admin.Acts, _ admin.Request, in *In) (any, error) {
			return acts.PreviewBulk(ctx, (*in).bulk(kind))
		},
		Agree: func(found any) string { return found.(*admin.Preview).Confirm },
		Counted: func(found any) (int64, []admin.Item) {
			return found.(*admin.Preview).Count, found.(*admin.Preview).Sample
		},
		Would: func(_ *In, found any) string { return verb + " " + counted(found.(*admin.Preview).Count, thing) },
		Fix: func(in *In, found any) *In {
			if !a.Danger {
				return in
			}
			then := (*in).since(*found.(*admin.Preview).AsOf)
			return &then
		},
		Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *In) (*admin.Outcome, error) {
			return acts.StartBulk(ctx, by, (*in).bulk(kind), by.Confirm)
		},
		Told: func(_ *In, done *admin.Outcome) Told {
			return begun(done, fmt.Sprintf("is to %s %s", verb, counted(detail[admin.Operation](done).Total, thing)))
		},
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
				"failed requeue --status dead --message 'violates not-null' --limit 500 --yes --reason 'fixed in 1.4.2'",
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
			Button: "Resolve", Reason: true, Danger: true, NeedsToo: admin.ActResolve,
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
			Button: "Resolve", Reason: true, Danger: true, NeedsToo: admin.ActResolveParked,
		}, admin.OpResolveParked, "event"),
	}
}
