package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// MostItems is how many items one operation takes: more are the next one's.
const MostItems = 1_000_000

const (
	freezePage = 5000
	sampleSize = 10
)

// FailedFilter chooses failed campaigns; what is empty is left open. Its tags besides JSON's are those of parameters of
// acts and views, which internal/operator reads.
type FailedFilter struct {
	Group       string   `json:"group,omitempty" of:"group" help:"only in this consumer group"`
	Projection  string   `json:"projection,omitempty" of:"projection" help:"only of this projection"`
	CampaignID  string   `json:"campaign_id,omitempty" name:"campaign" of:"failed" help:"only this campaign"`
	EventType   string   `json:"event_type,omitempty" name:"type" help:"only where an event of this type failed"`
	Class       string   `json:"class,omitempty" among:"failure classes" help:"only failures of this class"`
	Code        string   `json:"code,omitempty" help:"only this code: a SQLSTATE, panic, deadline, crash, decode, error"`
	Fingerprint string   `json:"fingerprint,omitempty" of:"fingerprint" help:"only this fingerprint; stats lists them"`
	Status      []string `json:"status,omitempty" choices:"failed,dead" help:"only this status; several may be given"`
}

// Filter answers what internal/store/failed takes.
func (f FailedFilter) Filter() failed.Filter {
	out := failed.Filter{
		Group: f.Group, Projection: f.Projection, CampaignID: f.CampaignID, EventType: f.EventType, Class: f.Class,
		Code: f.Code, Fingerprint: f.Fingerprint,
	}
	for _, s := range f.Status {
		out.Status = append(out.Status, failed.Status(s))
	}
	return out
}

// ParkedFilter chooses parked events; what is empty is left open. Its tags are as those of [FailedFilter].
type ParkedFilter struct {
	Topic      string `json:"topic,omitempty" of:"topic" help:"only events of this topic"`
	Publisher  string `json:"publisher,omitempty" of:"publisher" help:"only events that this publisher could not send"`
	CampaignID string `json:"campaign_id,omitempty" name:"campaign" of:"parked" help:"only events of this campaign"`
	EventType  string `json:"event_type,omitempty" name:"type" help:"only events of this type"`
	Status     string `json:"status,omitempty" choices:"retrying,parked" help:"only this status (default both)"`
	Message    string `json:"message,omitempty" help:"only errors that match this regular expression (POSIX)"`
}

// Filter answers what internal/store/publications takes.
func (f ParkedFilter) Filter() publications.ParkedFilter {
	return publications.ParkedFilter{
		Topic: f.Topic, Publisher: f.Publisher, CampaignID: f.CampaignID,
		EventType: f.EventType, Status: f.Status, MessagePattern: f.Message,
	}
}

// Bulk is an act on all that a filter chooses.
type Bulk struct {
	Kind   OperationKind `json:"kind"`             // OpRequeue or OpResolve; with Parked OpRetryParked or OpResolveParked
	Failed *FailedFilter `json:"failed,omitempty"` //
	Parked *ParkedFilter `json:"parked,omitempty"` //
	Limit  int64         `json:"limit,omitempty"`  // at most so many, those that are due or failed first; 0: all

	// AsOf is when the preview was made, by the database's clock: what has failed since is left out. Acts that
	// resolve need it, for none may leave out an event that was not counted.
	AsOf *time.Time `json:"as_of,omitempty"`
}

// Preview is what a bulk act would be about.
type Preview struct {
	Bulk
	Count   int64  `json:"count"`
	More    bool   `json:"more"`    // there are more than the limit, or MostItems
	Sample  []Item `json:"sample"`  // the first ones
	Confirm string `json:"confirm"` // what is to be typed
}

// names are the names in its filter.
func (b Bulk) names() Names {
	if b.Failed != nil {
		return Names{Group: b.Failed.Group, Projection: b.Failed.Projection}
	}
	return Names{Topic: b.Parked.Topic, Publisher: b.Parked.Publisher}
}

// most is how many items it takes.
func (b Bulk) most() int64 {
	if b.Limit == 0 {
		return MostItems
	}
	return b.Limit
}

func (b Bulk) check() error {
	if b.Limit < 0 || b.Limit > MostItems {
		return fmt.Errorf("%w: limit %d: give 1 to %d, or 0 for as many as one operation takes", ErrInvalid, b.Limit,
			MostItems)
	}
	switch b.Kind {
	case OpRequeue, OpResolve:
		if b.Failed != nil && b.Parked == nil {
			return nil
		}
		return fmt.Errorf("%w: %s is about failed campaigns: fill in failed, and not parked", ErrInvalid, b.Kind)
	case OpRetryParked, OpResolveParked:
		if b.Parked != nil && b.Failed == nil {
			return nil
		}
		return fmt.Errorf("%w: %s is about parked events: fill in parked, and not failed", ErrInvalid, b.Kind)
	}
	return fmt.Errorf("%w: kind %q: use requeue, resolve, retry_parked or resolve_parked", ErrInvalid, b.Kind)
}

// confirm is what is to be typed for so many.
func (b Bulk) confirm(n int64) string {
	return fmt.Sprintf("%s %d", strings.ReplaceAll(string(b.Kind), "_", " "), n)
}

// agreed answers up to how many a person has agreed to, and whether what was typed says so.
func (b Bulk) agreed(typed string) (int64, bool) {
	verb, _, _ := strings.Cut(b.confirm(0), "0")
	number, is := strings.CutPrefix(strings.TrimSpace(typed), verb)
	n, err := strconv.ParseInt(number, 10, 64)
	return n, is && err == nil && n >= 0
}

// PreviewBulk counts what a bulk act would be about and shows some of it. It changes nothing.
// Errors: [ErrInvalid].
func (a *Acts) PreviewBulk(ctx context.Context, b Bulk) (*Preview, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	if err := b.names().Check(ctx, a.cfg.Pool); err != nil {
		return nil, err
	}
	p := &Preview{Bulk: b, Sample: []Item{}}
	err := a.cfg.Pool.QueryRow(ctx, queryNow).Scan(&p.AsOf)
	if err != nil {
		return nil, err
	}
	if b.Failed != nil {
		p.Count, p.Sample, err = previewFailed(ctx, a.cfg.Pool, *b.Failed, b.most())
	} else {
		p.Count, p.Sample, err = previewParked(ctx, a.cfg.Pool, *b.Parked, b.most())
	}
	if p.More = p.Count > b.most(); p.More {
		p.Count = b.most()
	}
	p.Confirm = b.confirm(p.Count)
	return p, err
}

func previewFailed(ctx context.Context, db journal.Querier, of FailedFilter, most int64) (int64, []Item, error) {
	f := of.Filter()
	if len(f.Status) == 0 {
		f.Status = []failed.Status{failed.Failed, failed.Dead}
	}
	f.Limit = int(min(sampleSize, most))
	list, err := failed.List(ctx, db, f)
	if err != nil {
		return 0, nil, err
	}
	sample := []Item{}
	for _, p := range list {
		sample = append(sample, Item{CampaignID: p.CampaignID, Subject: p.Projection, Seq: p.NextSeq})
	}
	f.Limit = int(most) + 1
	n, err := failed.Count(ctx, db, f)
	return n, sample, err
}

func previewParked(ctx context.Context, db journal.Querier, of ParkedFilter, most int64) (int64, []Item, error) {
	f := of.Filter()
	f.Limit = int(min(sampleSize, most))
	list, err := publications.ListParked(ctx, db, f)
	if err != nil {
		return 0, nil, err
	}
	sample := []Item{}
	for _, p := range list {
		if p.Status != "draining" {
			sample = append(sample, parkedItem(p))
		}
	}
	f.Limit = int(most) + 1
	n, err := publications.CountParked(ctx, db, f)
	return n, sample, err
}

func parkedItem(p publications.Parked) Item {
	return Item{CampaignID: p.CampaignID, Subject: p.Topic + "/" + p.Publisher, Seq: p.Seq}
}

// StartBulk freezes what a bulk act is about and has workers do it. typed is what [Preview].Confirm
// asked for: the act is about at most as many as it says, those that come first and had failed by
// b.AsOf. What has failed meanwhile is left for the next one, and what has gone is not missed.
// [ErrDeclined] says that something else was typed, [ErrNotFound] that there is nothing left.
// Resolving needs a reason. The outcome's detail is the [Operation].
func (a *Acts) StartBulk(ctx context.Context, r Request, b Bulk, typed string) (*Outcome, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	resolves := b.Kind == OpResolve || b.Kind == OpResolveParked
	if resolves && r.Who.Role < ActResolve.Role() {
		return nil, fmt.Errorf("%s is for role %s, and %q is %s: %w", b.Kind, ActResolve.Role(), r.Who.Name, r.Who.Role,
			ErrForbidden)
	}
	if resolves && b.AsOf == nil {
		return nil, fmt.Errorf("%w: as_of is missing: %s leaves out what was previewed, so send back the preview's as_of",
			ErrInvalid, b.Kind)
	}
	if err := b.names().Check(ctx, a.cfg.Pool); err != nil {
		return nil, err
	}
	return a.do(ctx, act{Request: r, kind: ActStartOperation, request: b, reason: resolves},
		func(ctx context.Context, tx pgx.Tx) (any, error) {
			id, err := insertOperation(ctx, tx, b.Kind, b, r)
			if err != nil {
				return nil, err
			}
			var n int64
			agreed, said := b.agreed(typed)
			most := b.most()
			if said {
				most = min(most, agreed)
			}
			if b.Failed != nil {
				n, err = freezeFailed(ctx, tx, id, *b.Failed, b.AsOf, most)
			} else {
				n, err = freezeParked(ctx, tx, id, *b.Parked, b.AsOf, most)
			}
			switch {
			case err != nil:
				return nil, err
			case !said:
				return nil, fmt.Errorf("%w: %q was typed: type %q", ErrDeclined, typed, b.confirm(n))
			case n == 0:
				return nil, fmt.Errorf("%w that the filter chooses", ErrNotFound)
			}
			if _, err := tx.Exec(ctx, querySetTotal, id, n); err != nil {
				return nil, err
			}
			return readOperation(ctx, tx, id)
		})
}

// freezeFailed writes the failed campaigns that a filter chooses into the items of the operation, if they had failed
// by a time.
func freezeFailed(
	ctx context.Context, tx pgx.Tx, id int64, of FailedFilter, asOf *time.Time, most int64,
) (n int64, err error) {
	f := of.Filter()
	if asOf != nil {
		if err := tx.QueryRow(ctx, querySince, *asOf).Scan(&f.OlderThan); err != nil {
			return 0, err
		}
		f.OlderThan = max(f.OlderThan, 0)
	}
	for n < most {
		f.Limit = int(min(freezePage, most-n))
		places, err := failed.Choose(ctx, tx, f)
		if err != nil {
			return 0, err
		}
		items := make([][]any, len(places))
		for i, p := range places {
			n++
			items[i] = []any{id, n, p.CampaignID, p.Projection, p.NextSeq}
		}
		if err := copyItems(ctx, tx, items); err != nil || len(places) < f.Limit {
			return n, err
		}
		f.After = &places[len(places)-1]
	}
	return n, nil
}

// freezeParked does the same with parked events.
func freezeParked(
	ctx context.Context, tx pgx.Tx, id int64, of ParkedFilter, asOf *time.Time, most int64,
) (n int64, err error) {
	f := of.Filter()
	f.Limit = freezePage
	for n < most {
		list, err := publications.ListParked(ctx, tx, f)
		if err != nil {
			return 0, err
		}
		var items [][]any
		for _, p := range list {
			late := asOf != nil && p.FirstFailedAt != nil && p.FirstFailedAt.After(*asOf)
			if p.Status != "draining" && !late && n < most {
				n++
				items = append(items, []any{id, n, p.CampaignID, p.Topic + "/" + p.Publisher, p.Seq})
			}
		}
		if err := copyItems(ctx, tx, items); err != nil || len(list) < f.Limit {
			return n, err
		}
		f.After = &list[len(list)-1]
	}
	return n, nil
}

func copyItems(ctx context.Context, tx pgx.Tx, items [][]any) error {
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"tidemark", "operation_items"},
		[]string{"operation_id", "ord", "campaign_id", "subject", "seq"}, pgx.CopyFromRows(items))
	return err
}

// document is JSON as a parameter, NULL where there is none.
func document(doc []byte) any {
	if doc == nil {
		return nil
	}
	return string(doc)
}

func insertOperation(ctx context.Context, tx pgx.Tx, kind OperationKind, request any, r Request) (id int64, err error) {
	doc, err := json.Marshal(request)
	if err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, queryInsertOperation, kind, document(doc), r.Who.Name, r.Reason).Scan(&id)
	return id, err
}
