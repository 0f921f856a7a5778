package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Requests have the tags of parameters besides JSON's, as [FailedFilter] has.

// GroupReplay replays all campaigns of a group.
type GroupReplay struct {
	Group      string `json:"group" arg:"GROUP" of:"group" help:"the consumer group"`
	Projection string `json:"projection,omitempty" of:"projection" help:"only this projection (default all of the group)"`
	From       int64  `json:"from,omitempty" min:"1" help:"the first event, on rows as they are (default from scratch)"`
}

// request is the same for internal/store/failed.
func (g GroupReplay) request() failed.ReplayRequest {
	return failed.ReplayRequest{Group: g.Group, Projection: g.Projection, From: g.From}
}

// GapRepair repairs all gaps of a group.
type GapRepair struct {
	Group string `json:"group"`
}

// Verification compares rows of a projection with the journal.
type Verification struct {
	Projection string   `json:"projection" arg:"PROJECTION" of:"projection" help:"the projection"`
	Campaigns  []string `json:"campaigns,omitempty" form:"-" of:"campaign" help:"only these campaigns"`
	Sample     int      `json:"sample,omitempty" max:"1000000" help:"so many campaigns, at random (default all)"`
	Ignore     []string `json:"ignore,omitempty" form:"-" help:"columns that may differ: column or table.column"`
	Proof      bool     `json:"proof,omitempty" form:"-" help:"show that every event was applied in its turn; apply none"`
}

// Republication sends a slice of a campaign to a publisher again.
type Republication struct {
	Topic      string `json:"topic" of:"topic" required:"true" help:"the topic whose events are sent, and under which"`
	Publisher  string `json:"publisher" arg:"PUBLISHER" of:"publisher" help:"the publisher"`
	CampaignID string `json:"campaign_id" arg:"CAMPAIGN" name:"campaign" of:"campaign" help:"the campaign"`
	From       int64  `json:"from" min:"1" required:"true" help:"the first event"`
	Until      int64  `json:"until,omitempty" min:"1" help:"the last event (default the last that there is)"`
}

// StartReplay has workers replay all campaigns of a group. Errors are those of
// [failed.CountReplay]. The outcome's detail is the [Operation].
func (a *Acts) StartReplay(ctx context.Context, r Request, g GroupReplay) (*Outcome, error) {
	if g.Group == "" || g.From < 0 {
		return nil, fmt.Errorf("%w: name the group, and a seq of 1 or more, or 0 for from scratch", ErrInvalid)
	}
	return a.start(ctx, r, OpReplay, g, func(ctx context.Context, tx pgx.Tx) (int64, error) {
		return failed.CountReplay(ctx, tx, g.request())
	})
}

// StartRepair has workers look for gaps of a group in all of the journal, and repair them. The
// request confirms with the group's name. The outcome's detail is the [Operation]. Errors:
// [ErrDeclined], [outbox.ErrNotRegistered].
func (a *Acts) StartRepair(ctx context.Context, r Request, g GapRepair) (*Outcome, error) {
	if g.Group == "" {
		return nil, fmt.Errorf("%w: name the group", ErrInvalid)
	}
	return a.startConfirmed(ctx, r, g.Group, OpRepairGaps, g, func(ctx context.Context, tx pgx.Tx) (int64, error) {
		return 0, knownGroup(ctx, tx, g.Group)
	})
}

// Verify has a worker that has the projection's code verify it, or any worker prove it. The
// outcome's detail is the [Operation]. Errors: [rebuild.ErrUnknownProjection].
func (a Projections) Verify(ctx context.Context, r Request, v Verification) (*Outcome, error) {
	if v.Projection == "" || v.Sample < 0 || len(v.Campaigns) > 0 && v.Sample > 0 || len(v.Campaigns) > 5000 {
		return nil, fmt.Errorf("%w: name the projection, and up to 5000 campaigns, or the size of a sample, or neither "+
			"for all", ErrInvalid)
	}
	if v.Proof && (len(v.Campaigns) > 0 || v.Sample > 0 || len(v.Ignore) > 0) {
		return nil, fmt.Errorf("%w: a proof is of all campaigns and of no columns: leave out campaigns, sample and ignore",
			ErrInvalid)
	}
	return a.acts.start(ctx, r, OpVerify, v, func(ctx context.Context, tx pgx.Tx) (int64, error) {
		_, err := registered(ctx, tx, v.Projection)
		return 0, err
	})
}

// Republish has a worker that has the publisher send a slice of a campaign again. The
// request confirms with the publisher's name. The outcome's detail is the [Operation]. Errors:
// [ErrDeclined], [publications.ErrNotFound], [journal.ErrNotFound].
func (a Publishers) Republish(ctx context.Context, r Request, p Republication) (*Outcome, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return a.acts.startConfirmed(ctx, r, p.Publisher, OpRepublish, p, func(ctx context.Context, tx pgx.Tx) (int64, error) {
		if err := published(ctx, tx, publications.Key{Topic: p.Topic, Publisher: p.Publisher}); err != nil {
			return 0, err
		}
		_, err := journal.Last(ctx, tx, p.CampaignID)
		return 0, err
	})
}

func (p Republication) check() error {
	if p.Topic == "" || p.Publisher == "" || p.CampaignID == "" || p.From < 1 || p.Until != 0 && p.Until < p.From {
		return fmt.Errorf("%w: name the topic, the publisher and the campaign, and seqs: from is 1 or more, until not "+
			"less, or 0 for the last one", ErrInvalid)
	}
	return nil
}

func (a *Acts) start(
	ctx context.Context, r Request, kind OperationKind, request any, total func(context.Context, pgx.Tx) (int64, error),
) (*Outcome, error) {
	return a.startConfirmed(ctx, r, "", kind, request, total)
}

func (a *Acts) startConfirmed(
	ctx context.Context, r Request, confirm string, kind OperationKind, request any,
	total func(context.Context, pgx.Tx) (int64, error),
) (*Outcome, error) {
	asked := struct {
		Kind    OperationKind `json:"kind"`
		Request any           `json:"request"`
	}{kind, request}
	return a.do(ctx, act{Request: r, kind: ActStartOperation, request: asked, confirm: confirm},
		func(ctx context.Context, tx pgx.Tx) (any, error) {
			id, err := insertOperation(ctx, tx, kind, request, r)
			if err != nil {
				return nil, err
			}
			n, err := total(ctx, tx)
			if err != nil {
				return nil, err
			}
			if _, err := tx.Exec(ctx, querySetTotal, id, n); err != nil {
				return nil, err
			}
			return readOperation(ctx, tx, id)
		})
}

// Filing is how many campaigns would be filed, each counted once for each projection.
type Filing struct {
	Campaigns int64 `json:"campaigns"`
}

// PreviewReplay answers what a replay would file; no campaigns are all. Errors are those of [failed.CountReplay].
func (a *Acts) PreviewReplay(ctx context.Context, replay failed.ReplayRequest) (Filing, error) {
	if replay.Group == "" || replay.From < 0 {
		return Filing{}, fmt.Errorf("%w: name the group, and a seq of 1 or more, or 0 for from scratch", ErrInvalid)
	}
	n, err := failed.CountReplay(ctx, a.cfg.Pool, replay)
	return Filing{n}, err
}

// Slice is what of a campaign would be sent.
type Slice struct {
	From    int64  `json:"from"`
	Through int64  `json:"through"` // the last seq
	Events  *int64 `json:"events"`  // those of them that are the topic's; null: this process does not have the topic
}

// PreviewRepublication answers what [Publishers.Republish] would send, and reads all of it where this process has
// the topic and the publisher. Errors are its, and [journal.ErrNotFound] for a campaign without an event from there on.
func (a Publishers) PreviewRepublication(ctx context.Context, r Request, p Republication) (Slice, error) {
	if err := p.check(); err != nil {
		return Slice{}, err
	}
	if err := published(ctx, a.acts.cfg.Pool, publications.Key{Topic: p.Topic, Publisher: p.Publisher}); err != nil {
		return Slice{}, err
	}
	last, err := journal.Last(ctx, a.acts.cfg.Pool, p.CampaignID)
	if err == nil && last.Seq < p.From {
		err = fmt.Errorf("campaign %q from seq %d on: %w", p.CampaignID, p.From, journal.ErrNotFound)
	}
	found := Slice{From: p.From, Through: last.Seq}
	if p.Until != 0 {
		found.Through = min(p.Until, last.Seq)
	}
	topic := slices.IndexFunc(a.acts.cfg.Topics, func(t publisher.Topic) bool { return t.Name == p.Topic })
	to := slices.IndexFunc(a.acts.cfg.Publishers, func(q publisher.Publisher) bool { return q.Name == p.Publisher })
	if err != nil || topic < 0 || to < 0 {
		return found, err
	}
	counted, err := publisher.Replay(ctx, a.acts.cfg.Pool, publisher.ReplayRequest{
		Topic: a.acts.cfg.Topics[topic], To: a.acts.cfg.Publishers[to],
		CampaignID: p.CampaignID, From: p.From, Until: p.Until,
		Catalogue: a.acts.cfg.Catalogue, DryRun: true,
	}, r.publisher())
	found.Events, found.Through = &counted.Sent, counted.Through
	return found, err
}

// Gaps is how many gaps a group has, and the first ones: the event behind the checkpoint of each.
type Gaps struct {
	Count  int64  `json:"count"`
	Sample []Item `json:"sample"`
}

// PreviewRepair answers what [Acts.StartRepair] would repair, and looks at all of the journal for that. Errors:
// [outbox.ErrNotRegistered].
func (a *Acts) PreviewRepair(ctx context.Context, group string) (Gaps, error) {
	found := Gaps{Sample: []Item{}}
	if err := knownGroup(ctx, a.cfg.Pool, group); err != nil {
		return found, err
	}
	for after := ""; ; {
		some, next, err := outbox.Gaps(ctx, a.cfg.Pool, group, after, 0)
		if err != nil {
			return found, err
		}
		found.Count += int64(len(some))
		for _, g := range some[:min(len(some), sampleSize-len(found.Sample))] {
			found.Sample = append(found.Sample, Item{CampaignID: g.CampaignID, Subject: g.Group, Seq: g.Checkpoint + 1})
		}
		if after = next; next == "" {
			return found, nil
		}
	}
}
