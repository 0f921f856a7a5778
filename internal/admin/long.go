package admin

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// GroupReplay replays all campaigns of a group.
type GroupReplay struct {
	Group      string `json:"group"`
	Projection string `json:"projection,omitempty"` // "": all of the group
	From       int64  `json:"from,omitempty"`       // the first event to apply again; 0: from scratch
}

// GapRepair repairs all gaps of a group.
type GapRepair struct {
	Group string `json:"group"`
}

// Verification compares rows of a projection with the journal.
type Verification struct {
	Projection string   `json:"projection"`
	Campaigns  []string `json:"campaigns,omitempty"` // these
	Sample     int      `json:"sample,omitempty"`    // or so many at random; neither: all
	Ignore     []string `json:"ignore,omitempty"`    // columns that may differ
	Proof      bool     `json:"proof,omitempty"`     // apply nothing: see [Prove]; of all campaigns
}

// Republication sends a slice of a campaign to a publisher again.
type Republication struct {
	Topic      string `json:"topic"`
	Publisher  string `json:"publisher"`
	CampaignID string `json:"campaign_id"`
	From       int64  `json:"from"`            // the first seq
	Until      int64  `json:"until,omitempty"` // the last one; 0: what is there when it starts
}

// StartReplay has workers replay all campaigns of a group. Errors are those of
// [deferred.CountReplay]. The outcome's detail is the [Operation].
func (a *Acts) StartReplay(ctx context.Context, r Request, g GroupReplay) (*Outcome, error) {
	if g.Group == "" || g.From < 0 {
		return nil, fmt.Errorf("%w: name the group, and a seq of 1 or more, or 0 for from scratch", ErrInvalid)
	}
	return a.start(ctx, r, OpReplay, g, func(ctx context.Context, tx pgx.Tx) (int64, error) {
		return deferred.CountReplay(ctx, tx, deferred.ReplayRequest{Group: g.Group, Projection: g.Projection, From: g.From})
	})
}

// ProjectionBackfill has a projection apply the campaigns that it has nothing of.
type ProjectionBackfill struct {
	Group      string `json:"group"`
	Projection string `json:"projection"`
}

// StartBackfill has workers look for the campaigns that a projection has nothing of, and file them.
// The outcome's detail is the [Operation]. Errors are those of [deferred.CountBackfill].
func (a *Acts) StartBackfill(ctx context.Context, r Request, projection string) (*Outcome, error) {
	p, err := registered(ctx, a.cfg.Pool, projection)
	if err != nil {
		return nil, fmt.Errorf("backfill: %w", err)
	}
	return a.start(ctx, r, OpBackfill, ProjectionBackfill{p.Group, projection},
		func(ctx context.Context, tx pgx.Tx) (int64, error) {
			return deferred.CountBackfill(ctx, tx, p.Group, projection)
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

// StartVerify has a worker that has the projection's code verify it, or any worker prove it. The
// outcome's detail is the [Operation]. Errors: [rebuild.ErrUnknownProjection].
func (a *Acts) StartVerify(ctx context.Context, r Request, v Verification) (*Outcome, error) {
	if v.Projection == "" || v.Sample < 0 || len(v.Campaigns) > 0 && v.Sample > 0 || len(v.Campaigns) > 5000 {
		return nil, fmt.Errorf("%w: name the projection, and up to 5000 campaigns, or the size of a sample, or neither "+
			"for all", ErrInvalid)
	}
	if v.Proof && (len(v.Campaigns) > 0 || v.Sample > 0 || len(v.Ignore) > 0) {
		return nil, fmt.Errorf("%w: a proof is of all campaigns and of no columns: leave out campaigns, sample and ignore",
			ErrInvalid)
	}
	return a.start(ctx, r, OpVerify, v, func(ctx context.Context, tx pgx.Tx) (int64, error) {
		_, err := registered(ctx, tx, v.Projection)
		return 0, err
	})
}

// StartRepublication has a worker that has the publisher send a slice of a campaign again. The
// request confirms with the publisher's name. The outcome's detail is the [Operation]. Errors:
// [ErrDeclined], [publications.ErrNotFound], [journal.ErrNotFound].
func (a *Acts) StartRepublication(ctx context.Context, r Request, p Republication) (*Outcome, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return a.startConfirmed(ctx, r, p.Publisher, OpRepublish, p, func(ctx context.Context, tx pgx.Tx) (int64, error) {
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
