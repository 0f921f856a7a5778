// Package operator does for programs what the command tidemark does for people on call: it retries and resolves
// failed campaigns, pauses, rebuilds, rolls back, replays and drains.
//
// Each method is an act of the command, the API and the pages, with the same checks, in one transaction with its
// row in the operators' log. Acts that workers carry out are operations: a method returns as soon as one has begun,
// and [Operator.Operation] tells how far it is. docs/guides/admin.md explains the acts.
//
// Stability: as of version 1, no field or method changes its meaning, and structs may get fields.
package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/acts"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
)

// Operator does acts. A literal is one. It is safe for concurrent use, unless its fields are changed.
type Operator struct {
	DB     *pgxpool.Pool // required; with roles, of a member of tidemark_operator
	Name   string        // who it is, such as "billing-bot", for the operators' log; required
	Reason string        // why, up to 4 KiB, for the log; required by Resolve and Unresolve

	// Key is an idempotency key of up to 255 bytes: an act that was done with it before is not done again, and
	// returns what it returned then. Another act with the same key is an error. "": none.
	Key string
}

// Errors of acts. Their texts name the value and the remedy.
var (
	ErrInvalid      = admin.ErrInvalid             // a value is missing or cannot be
	ErrNotFound     = admin.ErrNotFound            // there is no such worker or operation, or nothing matches
	ErrNotFailed    = failed.ErrNotFound           // the campaign is not behind in the projection: it may have caught up
	ErrChanged      = failed.ErrConflict           // the campaign has not failed, or at another event
	ErrNoTables     = rebuild.ErrNoPrevious        // no replaced tables are kept, so there is no way back
	ErrNoProjection = rebuild.ErrUnknownProjection // no such projection is registered
	ErrNeeded       = admin.ErrNeeded              // other database objects depend on the tables to drop
	ErrInUse        = outbox.ErrInUse              // the group has projections
	ErrNoGroup      = outbox.ErrNotRegistered      // there is no such consumer group
	ErrBehind       = rebuild.ErrBehind            // the replaced tables are behind: allow it, or wait
)

// Failed names a campaign of a projection. For a projection across campaigns CampaignID is a key.
type Failed struct{ Projection, CampaignID string }

// Requeue retries a failed campaign at once, as if it had never failed. Use it once the projection is fixed.
// Errors: [ErrNotFailed], [ErrChanged].
func (o Operator) Requeue(ctx context.Context, f Failed) error {
	return o.do(ctx, "requeueFailed", nil, values{"projection": {f.Projection}, "campaign": {f.CampaignID}})
}

// Resolve leaves out the event seq, at which the projection has failed, for ever: also in replays, rebuilds and
// repairs. The projection goes on with the next event. Errors: [ErrNotFailed], [ErrChanged].
func (o Operator) Resolve(ctx context.Context, f Failed, seq int64) error {
	return o.do(ctx, "resolveFailed", nil, values{
		"projection": {f.Projection}, "campaign": {f.CampaignID}, "seq": {fmt.Sprint(seq)},
	})
}

// Unresolve takes [Operator.Resolve] back: workers delete the projection's rows of the campaign and apply all its
// events again, with this one.
func (o Operator) Unresolve(ctx context.Context, f Failed, seq int64) error {
	return o.do(ctx, "unresolveFailed", nil, values{
		"projection": {f.Projection}, "campaign": {f.CampaignID}, "seq": {fmt.Sprint(seq)},
	})
}

// Target is what is paused: a consumer group, a projection, or a campaign in a group.
type Target struct {
	Group      string // with CampaignID: of the campaign
	Projection string // alone
	CampaignID string // with Group
}

// act returns the name of an act on the target, and its values.
func (t Target) act(verb string) (string, values, error) {
	switch {
	case t.Projection != "" && t.Group == "" && t.CampaignID == "":
		return verb + "Projection", values{"projection": {t.Projection}}, nil
	case t.Projection == "" && t.Group != "" && t.CampaignID == "":
		return verb + "Group", values{"group": {t.Group}}, nil
	case t.Projection == "" && t.Group != "" && t.CampaignID != "":
		return verb + "Campaign", values{"campaign": {t.CampaignID}, "group": {t.Group}}, nil
	}
	return "", nil, fmt.Errorf("%w: the target is %+v: name a projection, or a group, or a group and a campaign",
		ErrInvalid, t)
}

// Pause stops work on a target until it is resumed, or for a time; 0: until it is resumed. Its events wait and
// nothing is lost.
func (o Operator) Pause(ctx context.Context, t Target, duration time.Duration) error {
	name, with, err := t.act("pause")
	if err != nil {
		return err
	}
	if duration != 0 {
		with["for"] = []string{duration.String()}
	}
	return o.do(ctx, name, nil, with)
}

// Resume takes [Operator.Pause] back.
func (o Operator) Resume(ctx context.Context, t Target) error {
	name, with, err := t.act("resume")
	if err != nil {
		return err
	}
	return o.do(ctx, name, nil, with)
}

// Replay is events to apply again.
type Replay struct {
	Group      string   // required
	Projection string   // only this one; "": all of the group
	Campaigns  []string // required
	From       int64    // the first event, with the rows kept; 0: from scratch, and the rows are deleted first
}

// Replay applies events of campaigns again and returns how many campaigns of projections that are. Live work goes
// on, and readers never see a campaign half done.
func (o Operator) Replay(ctx context.Context, r Replay) (campaigns int64, err error) {
	with := values{"group": {r.Group}, "projection": {r.Projection}, "campaign": r.Campaigns}
	if r.From != 0 {
		with["from"] = []string{fmt.Sprint(r.From)}
	}
	var filed acts.Filing
	err = o.do(ctx, "replayCampaign", &filed, with)
	return filed.Campaigns, err
}

// Drain stops a worker from claiming campaigns until it is undrained or ends. It finishes what it holds. worker is
// its owner name, as in tidemark.workers. Errors: [ErrNotFound].
func (o Operator) Drain(ctx context.Context, worker string) error {
	return o.do(ctx, "drainWorker", nil, values{"owner": {worker}})
}

// Undrain takes [Operator.Drain] back. Errors: [ErrNotFound].
func (o Operator) Undrain(ctx context.Context, worker string) error {
	return o.do(ctx, "undrainWorker", nil, values{"owner": {worker}})
}

// values are the parameters of an act, by name.
type values map[string][]string

// do does an act and decodes its result into detail; nil: it has none. Calling a method is the
// confirmation.
func (o Operator) do(ctx context.Context, name string, detail any, with values) error {
	on, err := o.acts()
	if err != nil {
		return err
	}
	act, found := acts.Named(name)
	if !found {
		return fmt.Errorf("there is no act %s", name)
	}
	for parameter := range with {
		if !slices.Contains(param.Names(act.Params), parameter) {
			return fmt.Errorf("%s has no parameter %s", name, parameter)
		}
	}
	in, err := act.Input(func(parameter string) ([]string, bool) {
		given, ok := with[parameter]
		return given, ok
	})
	if err != nil {
		return err
	}
	confirm := act.Typed(in)
	if confirm == "" && act.Confirms { // it depends on what there is
		plan, err := act.Preview(ctx, on, o.request(""), in)
		if err != nil {
			return err
		}
		confirm = plan.Typed
	}
	done, err := act.Do(ctx, on, o.request(confirm), in)
	if err != nil || detail == nil {
		return err
	}
	return json.Unmarshal(done.Detail, detail)
}

func (o Operator) acts() (*admin.Acts, error) {
	if o.DB == nil {
		return nil, fmt.Errorf("%w: Operator.DB is missing", ErrInvalid)
	}
	return admin.On(o.DB), nil
}

func (o Operator) request(confirm string) admin.Request {
	return admin.Request{
		Who: auth.Identity{Name: o.Name, Role: auth.Admin, Via: "database"}, Reason: o.Reason, Key: o.Key, Confirm: confirm,
	}
}
