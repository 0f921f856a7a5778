package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Requests have the same tags as [FailedFilter].

// GroupReplay replays all campaigns of a group.
type GroupReplay struct {
	Group      string `json:"group" arg:"GROUP" of:"group" help:"the consumer group"`
	Projection string `json:"projection,omitempty" of:"projection" help:"only this projection (default all of the group)"`
	From       int64  `json:"from,omitempty" min:"1" help:"the first event, with the rows kept (default from scratch)"`
}

// Replay returns the request of the store.
func (g GroupReplay) Replay() failed.ReplayRequest {
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
	Sample     int      `json:"sample,omitempty" max:"1000000" help:"number of random campaigns (default all)"`
	Ignore     []string `json:"ignore,omitempty" form:"-" help:"columns that may differ: column or table.column"`
	Proof      bool     `json:"proof,omitempty" form:"-" help:"prove that every event was applied in order; apply none"`
}

// Republication sends a slice of a campaign to a publisher again.
type Republication struct {
	Topic      string `json:"topic" of:"topic" required:"true" help:"the topic of the events"`
	Publisher  string `json:"publisher" arg:"PUBLISHER" of:"publisher" help:"the publisher"`
	CampaignID string `json:"campaign_id" arg:"CAMPAIGN" name:"campaign" of:"campaign" help:"the campaign"`
	From       int64  `json:"from" min:"1" required:"true" help:"the first event"`
	Until      int64  `json:"until,omitempty" min:"1" help:"the last event (default the last one)"`
}

// Last returns the last event of the campaign. Errors: [publications.ErrNotFound], [event.ErrNotFound].
func (p Republication) Last(ctx context.Context, db event.Querier) (last event.Event, err error) {
	key := publications.Key{Topic: p.Topic, Publisher: p.Publisher}
	pairs, err := publications.List(ctx, db, key)
	if err == nil && len(pairs) == 0 {
		err = fmt.Errorf("%s: %w", key, publications.ErrNotFound)
	}
	if err != nil {
		return last, err
	}
	return journal.Last(ctx, db, p.CampaignID)
}

// here returns the replay with a process's topic and publisher. It is not ok without one of them.
func (p Republication) here(topics []publisher.Topic, to []publisher.Publisher) (_ publisher.ReplayRequest, ok bool) {
	i := slices.IndexFunc(topics, func(t publisher.Topic) bool { return t.Name == p.Topic })
	j := slices.IndexFunc(to, func(q publisher.Publisher) bool { return q.Name == p.Publisher })
	if i < 0 || j < 0 {
		return publisher.ReplayRequest{}, false
	}
	return publisher.ReplayRequest{
		Topic: topics[i], To: to[j], CampaignID: p.CampaignID, From: p.From, Until: p.Until,
	}, true
}

// ProjectionRollback puts back the tables that a rebuild replaced.
type ProjectionRollback struct {
	Projection   string        `json:"projection"`
	FromVersion  int           `json:"from_version"`  // of the live tables
	Version      int           `json:"version"`       // of the tables to put back
	RegisteredAt time.Time     `json:"registered_at"` // distinguishes them from other tables of that version
	AllowBehind  int64         `json:"allow_behind,omitempty"`
	Keep         time.Duration `json:"keep,omitempty"`
}

// Start starts an operation of total items, 0 if unknown, in the transaction of its act.
func Start(
	ctx context.Context, tx pgx.Tx, r Request, kind OperationKind, request any, total int64,
) (*Operation, error) {
	doc, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	return rows.One(ctx, tx, pgx.RowToAddrOfStructByPos[Operation], "start an operation", queryInsertOperation, kind,
		document(doc), r.Who.Name, r.Reason, total)
}

// StartRollback starts the operation that puts back replaced tables. A worker does it, because the swap
// runs code that the workers' role has created among the read models, which must not run with the
// caller's rights. If the swap fails, the operation has the error. Errors: [ErrRollingBack].
func StartRollback(ctx context.Context, tx pgx.Tx, r Request, back ProjectionRollback) (*Operation, error) {
	var other int64
	switch err := tx.QueryRow(ctx, queryRollingBack, back.Projection).Scan(&other); {
	case err == nil:
		return nil, fmt.Errorf("roll projection %q back: %w: it is operation %d", back.Projection, ErrRollingBack, other)
	case !errors.Is(err, pgx.ErrNoRows):
		return nil, err
	}
	return Start(ctx, tx, r, OpRollback, back, 1)
}

// document returns JSON as a statement parameter; nil: NULL.
func document(doc []byte) any {
	if doc == nil {
		return nil
	}
	return string(doc)
}

// Slice is the part of a campaign to send.
type Slice struct {
	From    int64  `json:"from"`
	Through int64  `json:"through"` // the last seq
	Events  *int64 `json:"events"`  // number of the topic's events; null: the topic is not configured here
}

// PreviewRepublication returns what a [Republication] would send. It reads and counts the events if this
// process has the topic and the publisher. Errors: [publications.ErrNotFound], and [event.ErrNotFound]
// for a campaign without events from p.From on.
func (a *Acts) PreviewRepublication(ctx context.Context, r Request, p Republication) (Slice, error) {
	last, err := p.Last(ctx, a.cfg.Pool)
	if err == nil && last.Seq < p.From {
		err = fmt.Errorf("campaign %q from seq %d on: %w", p.CampaignID, p.From, event.ErrNotFound)
	}
	found := Slice{From: p.From, Through: last.Seq}
	if p.Until != 0 {
		found.Through = min(p.Until, last.Seq)
	}
	replay, here := p.here(a.cfg.Topics, a.cfg.Publishers)
	if err != nil || !here {
		return found, err
	}
	replay.Catalogue, replay.DryRun, replay.By = a.cfg.Catalogue, true, r.Published().By
	counted, err := publisher.Replay(ctx, a.cfg.Pool, replay)
	found.Events, found.Through = &counted.Sent, counted.Through
	return found, err
}
