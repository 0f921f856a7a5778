package admin

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// MostItems is the maximum number of items of one operation. The next operation takes the rest.
const MostItems = 1_000_000

const (
	freezePage = 5000
	sampleSize = 10
)

// FailedFilter chooses failed campaigns. Empty fields match all. Package internal/operator/param reads
// its tags.
type FailedFilter struct {
	Group       string   `json:"group,omitempty" of:"group" help:"only in this consumer group"`
	Projection  string   `json:"projection,omitempty" of:"projection" help:"only of this projection"`
	CampaignID  string   `json:"campaign_id,omitempty" name:"campaign" of:"failed" help:"only this campaign"`
	EventType   string   `json:"event_type,omitempty" name:"type" help:"only where an event of this type failed"`
	Class       string   `json:"class,omitempty" among:"failure classes" help:"only failures of this class"`
	Code        string   `json:"code,omitempty" help:"only this code: a SQLSTATE, panic, crash, decode, key, error …"`
	Fingerprint string   `json:"fingerprint,omitempty" of:"fingerprint" help:"only this fingerprint; stats lists them"`
	Status      []string `json:"status,omitempty" choices:"failed,dead" help:"only this status; several may be given"`
}

// Filter returns the filter of the store.
func (f FailedFilter) Filter() failed.Filter {
	return failed.Filter{
		Group: f.Group, Projection: f.Projection, CampaignID: f.CampaignID, EventType: f.EventType, Class: f.Class,
		Code: f.Code, Fingerprint: f.Fingerprint,
		Status: slice.Of(f.Status, func(s string) failed.Status { return failed.Status(s) }),
	}
}

// ParkedFilter chooses parked events. Empty fields match all. The tags are like those of [FailedFilter].
type ParkedFilter struct {
	Topic      string `json:"topic,omitempty" of:"topic" help:"only events of this topic"`
	Publisher  string `json:"publisher,omitempty" of:"publisher" help:"only events that this publisher could not send"`
	CampaignID string `json:"campaign_id,omitempty" name:"campaign" of:"parked" help:"only events of this campaign"`
	EventType  string `json:"event_type,omitempty" name:"type" help:"only events of this type"`
	Status     string `json:"status,omitempty" choices:"retrying,parked" help:"only this status (default both)"`
	Message    string `json:"message,omitempty" help:"only errors that match this regular expression (POSIX)"`
}

// Filter returns the filter of the store.
func (f ParkedFilter) Filter() publications.ParkedFilter {
	return publications.ParkedFilter{
		Topic: f.Topic, Publisher: f.Publisher, CampaignID: f.CampaignID,
		EventType: f.EventType, Status: f.Status, MessagePattern: f.Message,
	}
}

// Bulk is an act on everything that a filter chooses.
type Bulk struct {
	Kind   OperationKind `json:"kind"`
	Failed *FailedFilter `json:"failed,omitempty"` // for OpRequeue and OpResolve
	Parked *ParkedFilter `json:"parked,omitempty"` // for OpRetryParked and OpResolveParked
	Limit  int64         `json:"limit,omitempty"`  // maximum number, those due or failed first; 0: all

	// AsOf is the time of the preview, by the database's clock. Later failures are left out. Resolving needs it,
	// because it may leave out only events that were counted.
	AsOf *time.Time `json:"as_of,omitempty"`
}

// Preview counts what a bulk act would change.
type Preview struct {
	Bulk
	Count   int64  `json:"count"`
	More    bool   `json:"more"`    // the count stopped at the limit or at MostItems
	Sample  []Item `json:"sample"`  // the first items
	Confirm string `json:"confirm"` // text to type
}

func (b Bulk) names() Names {
	if b.Failed != nil {
		return Names{Group: b.Failed.Group, Projection: b.Failed.Projection}
	}
	return Names{Topic: b.Parked.Topic, Publisher: b.Parked.Publisher}
}

func (b Bulk) most() int64 { return cmp.Or(b.Limit, MostItems) }

func (b Bulk) confirm(n int64) string {
	return fmt.Sprintf("%s %d", strings.ReplaceAll(string(b.Kind), "_", " "), n)
}

// agreed returns the number in the typed confirmation and reports whether it is valid.
func (b Bulk) agreed(typed string) (int64, bool) {
	verb, _, _ := strings.Cut(b.confirm(0), "0")
	number, is := strings.CutPrefix(strings.TrimSpace(typed), verb)
	n, err := strconv.ParseInt(number, 10, 64)
	return n, is && err == nil && n >= 0
}

// choice reads the items of a filter, in the order of the operation.
type choice interface {
	// count stops at a limit.
	count(ctx context.Context, tx pgx.Tx, limit int) (int64, error)
	// page returns the items of the next limit rows and reports whether there may be more.
	page(ctx context.Context, tx pgx.Tx, limit int) (items []Item, more bool, err error)
}

func (b Bulk) choice(ctx context.Context, tx pgx.Tx) (choice, error) {
	if b.Failed == nil {
		return &parkedChoice{b.Parked.Filter(), b.AsOf}, nil
	}
	f := b.Failed.Filter()
	if b.Kind == OpRequeue && failed.Replaced(f.Projection) {
		return nil, fmt.Errorf("requeue what failed in %s: %w", f.Projection, failed.ErrReplaced)
	}
	if len(f.Status) == 0 {
		f.Status = []failed.Status{failed.Failed, failed.Dead}
	}
	if b.AsOf == nil {
		return &failedChoice{f}, nil
	}
	err := tx.QueryRow(ctx, querySince, *b.AsOf).Scan(&f.OlderThan)
	f.OlderThan = max(f.OlderThan, 0)
	return &failedChoice{f}, err
}

type failedChoice struct{ failed.Filter }

func (c *failedChoice) count(ctx context.Context, tx pgx.Tx, limit int) (int64, error) {
	c.Limit = limit
	return failed.Count(ctx, tx, c.Filter)
}

func (c *failedChoice) page(ctx context.Context, tx pgx.Tx, limit int) (items []Item, more bool, err error) {
	c.Limit = limit
	places, err := failed.Choose(ctx, tx, c.Filter)
	for _, p := range places {
		c.After = &p
		items = append(items, Item{CampaignID: p.CampaignID, Subject: p.Projection, Seq: p.NextSeq})
	}
	return items, len(places) == limit, err
}

// parkedChoice leaves out draining events and events refused after asOf.
type parkedChoice struct {
	publications.ParkedFilter
	asOf *time.Time
}

func (c *parkedChoice) count(ctx context.Context, tx pgx.Tx, limit int) (int64, error) {
	c.Limit = limit
	return publications.CountParked(ctx, tx, c.ParkedFilter)
}

func (c *parkedChoice) page(ctx context.Context, tx pgx.Tx, limit int) (items []Item, more bool, err error) {
	c.Limit = limit
	list, err := publications.ListParked(ctx, tx, c.ParkedFilter)
	for _, p := range list {
		c.After = &p
		late := c.asOf != nil && p.FirstFailedAt != nil && p.FirstFailedAt.After(*c.asOf)
		if p.Status != "draining" && !late {
			items = append(items, Item{CampaignID: p.CampaignID, Subject: p.Topic + "/" + p.Publisher, Seq: p.Seq})
		}
	}
	return items, len(list) == limit, err
}

// PreviewBulk counts what a bulk act would change and returns a sample. It changes nothing.
// Errors: [UnknownNameError].
func (a *Acts) PreviewBulk(ctx context.Context, b Bulk) (*Preview, error) {
	if err := b.names().Check(ctx, a.cfg.Pool); err != nil {
		return nil, err
	}
	b.AsOf = nil
	p := &Preview{Bulk: b, Sample: []Item{}}
	err := pgx.BeginFunc(ctx, a.cfg.Pool, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, queryNow).Scan(&p.AsOf); err != nil {
			return err
		}
		chosen, err := b.choice(ctx, tx)
		if err != nil {
			return err
		}
		if p.Count, err = chosen.count(ctx, tx, int(b.most())+1); err != nil {
			return err
		}
		items, _, err := chosen.page(ctx, tx, int(min(sampleSize, b.most())))
		p.Sample = append(p.Sample, items...)
		return err
	})
	if p.More = p.Count > b.most(); p.More {
		p.Count = b.most()
	}
	p.Confirm = b.confirm(p.Count)
	return p, err
}

// StartBulk freezes the items of a bulk act and starts the operation. r.Confirm is [Preview].Confirm.
// The operation takes at most the confirmed number of items: the first ones that had failed by b.AsOf.
// Items that are gone by now are no error. Errors: [ErrDeclined] for another confirmation,
// [ErrNotFound] if nothing is left.
func (a *Acts) StartBulk(ctx context.Context, tx pgx.Tx, r Request, b Bulk) (*Operation, error) {
	if b.AsOf == nil && (b.Kind == OpResolve || b.Kind == OpResolveParked) {
		return nil, fmt.Errorf("%w: as_of is missing: %s needs the as_of of its preview",
			ErrInvalid, b.Kind)
	}
	if err := b.names().Check(ctx, a.cfg.Pool); err != nil {
		return nil, err
	}
	o, err := Start(ctx, tx, r, b.Kind, b, 0)
	if err != nil {
		return nil, err
	}
	chosen, err := b.choice(ctx, tx)
	if err != nil {
		return nil, err
	}
	most := b.most()
	agreed, said := b.agreed(r.Confirm)
	if said {
		most = min(most, agreed)
	}
	o.Total, err = freeze(ctx, tx, o.ID, chosen, most)
	switch {
	case err != nil:
		return nil, err
	case !said:
		return nil, fmt.Errorf("%w: %q was typed: type %q", ErrDeclined, r.Confirm, b.confirm(o.Total))
	case o.Total == 0:
		return nil, fmt.Errorf("%w: nothing matches the filter", ErrNotFound)
	}
	_, err = tx.Exec(ctx, querySetTotal, o.ID, o.Total)
	return o, err
}

// freeze writes up to most chosen items into an operation and returns their number.
func freeze(ctx context.Context, tx pgx.Tx, id int64, chosen choice, most int64) (n int64, err error) {
	for more := true; more && n < most; {
		var items []Item
		if items, more, err = chosen.page(ctx, tx, int(min(freezePage, most-n))); err != nil {
			return n, err
		}
		first := n + 1
		n += int64(len(items))
		_, err = tx.CopyFrom(ctx, pgx.Identifier{"tidemark", "operation_items"},
			[]string{"operation_id", "ord", "campaign_id", "subject", "seq"},
			pgx.CopyFromSlice(len(items), func(i int) ([]any, error) {
				return []any{id, first + int64(i), items[i].CampaignID, items[i].Subject, items[i].Seq}, nil
			}))
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
