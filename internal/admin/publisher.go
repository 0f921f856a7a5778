package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// publicationRequest is what is asked of a pair of a topic and a publisher.
type publicationRequest struct {
	Topic     string     `json:"topic"`
	Publisher string     `json:"publisher"`
	For       string     `json:"for,omitempty"`
	Position  *int64     `json:"position,omitempty"`
	Time      *time.Time `json:"time,omitempty"`
	End       bool       `json:"end,omitempty"`
}

// Reset is where a pair goes, or would go.
type Reset struct {
	From      int64 `json:"from"`
	To        int64 `json:"to"`
	Sent      int64 `json:"sent"`      // events of the journal that are published again
	Skipped   int64 `json:"skipped"`   // events of the journal that are never published
	Forgotten int64 `json:"forgotten"` // parked events that are met again
}

// Resets is what became of each publication that was reset, or would.
type Resets struct {
	Publications []ResetOf `json:"publications"`
}

// ResetOf is what became of one.
type ResetOf struct {
	Topic     string `json:"topic"`
	Publisher string `json:"publisher"`
	Reset
}

// Pause stops a publisher for d, or until it is resumed if d is 0. Without a topic it stops those of its
// publications that have not failed, all or none. Errors: [publications.ErrNotFound], and those of
// [publications.Suspend].
func (a Publishers) Pause(ctx context.Context, r Request, key publications.Key, d time.Duration) (*Outcome, error) {
	asked := publicationRequest{Topic: key.Topic, Publisher: key.Publisher}
	if d < 0 {
		return nil, fmt.Errorf("%w: for %v: give a time that lies ahead, or none for a pause that lasts until it is resumed",
			ErrInvalid, d)
	} else if d > 0 {
		asked.For = d.String()
	}
	return a.acts.do(ctx, act{Request: r, kind: ActPausePublisher, request: asked, logs: true},
		func(ctx context.Context, tx pgx.Tx) (any, error) {
			keys, err := publicationsOf(ctx, tx, key, func(p publications.Publication) bool { return p.Status != "FAILED" })
			for _, key := range keys {
				if err == nil {
					err = publications.Suspend(ctx, tx, key, d, r.publisher())
				}
			}
			return asked, err
		})
}

// Resume ends a pause: without a topic, those of all paused publications of a publisher, all or none. Errors:
// [publications.ErrNotFound], and those of [publications.Resume].
func (a Publishers) Resume(ctx context.Context, r Request, key publications.Key) (*Outcome, error) {
	asked := publicationRequest{Topic: key.Topic, Publisher: key.Publisher}
	return a.acts.do(ctx, act{Request: r, kind: ActResumePublisher, request: asked, logs: true},
		func(ctx context.Context, tx pgx.Tx) (any, error) {
			keys, err := publicationsOf(ctx, tx, key, func(p publications.Publication) bool { return p.Status == "PAUSED" })
			for _, key := range keys {
				if err == nil {
					err = publications.Resume(ctx, tx, key, r.publisher())
				}
			}
			return asked, err
		})
}

// Reset moves a publisher, and forgets its errors; without a topic all of its publications, all or none. end:
// to where the journal ends now. To move it, the request confirms with the publisher's name. Errors: [ErrDeclined],
// [publications.ErrNotFound], and those of [publications.Reset].
func (a Publishers) Reset(
	ctx context.Context, r Request, key publications.Key, to publications.ResetTo, end bool,
) (*Outcome, error) {
	asked := publicationRequest{Topic: key.Topic, Publisher: key.Publisher, Position: to.Position, End: end}
	if !to.Time.IsZero() {
		asked.Time = &to.Time
	}
	to.DryRun = false
	t := act{Request: r, kind: ActResetPublisher, request: asked, logs: true}
	if to.Position != nil || !to.Time.IsZero() || end {
		t.confirm = key.Publisher
	}
	return a.acts.do(ctx, t, func(ctx context.Context, tx pgx.Tx) (any, error) { return reset(ctx, tx, r, key, to, end) })
}

// PreviewReset answers what [Publishers.Reset] would do, and does nothing. Errors are those of it.
func (a Publishers) PreviewReset(
	ctx context.Context, r Request, key publications.Key, to publications.ResetTo, end bool,
) (Resets, error) {
	to.DryRun = true
	return reset(ctx, a.acts.cfg.Pool, r, key, to, end)
}

func reset(
	ctx context.Context, db publications.DB, r Request, key publications.Key, to publications.ResetTo, end bool,
) (Resets, error) {
	done := Resets{[]ResetOf{}}
	places := 0
	for _, given := range []bool{to.Position != nil, !to.Time.IsZero(), end} {
		if given {
			places++
		}
	}
	if places > 1 {
		return done, fmt.Errorf("%w: a reset goes to one place: name a position, a time, or the end", ErrInvalid)
	}
	keys, err := publicationsOf(ctx, db, key, func(publications.Publication) bool { return true })
	if err != nil {
		return done, err
	}
	if end {
		floor, err := feed.Floor(ctx, db)
		if err != nil {
			return done, err
		}
		to.Position = &floor
	}
	for _, key := range keys {
		result, err := publications.Reset(ctx, db, key, to, r.publisher())
		if err != nil {
			return done, err
		}
		done.Publications = append(done.Publications, ResetOf{key.Topic, key.Publisher, Reset(result)})
	}
	return done, nil
}

// publicationsOf answers the publications of a publisher, or the one of a topic: those that are able, or all of them if
// none is, so that the act says what is wrong with them. Errors: [publications.ErrNotFound].
func publicationsOf(
	ctx context.Context, db journal.Querier, key publications.Key, able func(publications.Publication) bool,
) ([]publications.Key, error) {
	list, err := publications.List(ctx, db, key)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: %w: a publication is known once a worker has begun it", strings.TrimPrefix(key.String(),
			"/"), publications.ErrNotFound)
	}
	var some, all []publications.Key
	for _, p := range list {
		if all = append(all, p.Key); able(p) {
			some = append(some, p.Key)
		}
	}
	if len(some) == 0 {
		return all, nil
	}
	return some, nil
}

// Sent is an event that was sent to a sink to try it, or would be.
type Sent struct {
	Topic      string `json:"topic"`
	Publisher  string `json:"publisher"`
	MadeUp     bool   `json:"made_up"`
	CampaignID string `json:"campaign_id"`
	Seq        int64  `json:"seq"`
	EventID    string `json:"event_id"`
	Type       string `json:"type"`
}

// sending finds the sink and the event: one of a campaign, or without one an event that is made up.
func (a Publishers) sending(
	ctx context.Context, key publications.Key, campaignID string, seq int64,
) (to publisher.Publisher, event publisher.Event, _ Sent, err error) {
	if to, err = a.sink(&key); err != nil {
		return to, event, Sent{}, err
	}
	if campaignID == "" {
		event, err = publisher.TestEvent(key.Topic, time.Now().UTC())
	} else {
		event.Topic = key.Topic
		event.Event, err = journal.Get(ctx, a.acts.cfg.Pool, campaignID, seq)
		if err == nil && a.acts.cfg.Catalogue != nil {
			event.Event, err = a.acts.cfg.Catalogue.Current(event.Event)
		}
	}
	return to, event, Sent{
		key.Topic, key.Publisher, campaignID == "", event.CampaignID, event.Seq, event.ID.String(), event.Type,
	}, err
}

// PreviewSend answers what [Publishers.TestSend] would send.
func (a Publishers) PreviewSend(ctx context.Context, key publications.Key, campaignID string, seq int64) (Sent, error) {
	_, _, sent, err := a.sending(ctx, key, campaignID, seq)
	return sent, err
}

// sendRequest is what is sent where.
type sendRequest struct {
	publicationRequest
	CampaignID string `json:"campaign_id,omitempty"` // "": an event that is made up
	Seq        int64  `json:"seq,omitempty"`
}

// holdSlack is what an idempotency key is held beyond the time that the sink has.
const holdSlack = time.Minute

// TestSend sends an event of the journal, with the id it has, or without a campaign one that is made up, to a
// publisher's sink, in one attempt. Errors: [ErrNotHere] for a publisher that this process does not have, [ErrUnderWay]
// while the same request is being sent, [journal.ErrNotFound], [ErrSink] for a publisher whose sink takes nothing; then
// the idempotency key may be used again.
func (a Publishers) TestSend(
	ctx context.Context, r Request, key publications.Key, campaignID string, seq int64,
) (*Outcome, error) {
	asked := sendRequest{publicationRequest{Topic: key.Topic, Publisher: key.Publisher}, campaignID, seq}
	return a.acts.doWith(ctx, act{Request: r, kind: ActTestSend, request: asked, logs: true},
		func(ctx context.Context, db *recorder) (detail any, err error) {
			to, event, sent, err := a.sending(ctx, key, campaignID, seq)
			if err != nil {
				return nil, err
			}
			if err := db.note(sent); err != nil { // before it is written down, for a key that comes again
				return nil, err
			}
			if err := db.hold(ctx, max(to.Timeout, holdSlack)+holdSlack); err != nil {
				return nil, err
			}
			defer func() {
				if err != nil {
					db.release(ctx)
				}
			}()
			took := &taking{Sink: to.Sink}
			to.Sink, db.void = took, func() bool { return !took.it.Load() }
			if err := publisher.TestSend(ctx, db, to, event, r.publisher()); err != nil && db.void() {
				return nil, fmt.Errorf("%w: %w", ErrSink, err)
			} else if err != nil {
				return nil, err
			}
			return sent, nil
		})
}

// taking is a sink that remembers whether it has taken what it was given.
type taking struct {
	publisher.Sink
	it atomic.Bool
}

// Publish is the sink's.
func (t *taking) Publish(ctx context.Context, batch []publisher.Event) error {
	err := t.Sink.Publish(ctx, batch)
	t.it.Store(err == nil)
	return err
}

// sink answers a publisher, and names its first topic where none is named.
func (a Publishers) sink(key *publications.Key) (publisher.Publisher, error) {
	for _, p := range a.acts.cfg.Publishers {
		if p.Name != key.Publisher {
			continue
		}
		if key.Topic == "" {
			key.Topic = p.Topics[0]
		}
		if !slices.Contains(p.Topics, key.Topic) {
			return p, fmt.Errorf("topic %q: %w: publisher %q has %s", key.Topic, ErrNotFound, p.Name,
				strings.Join(p.Topics, ", "))
		}
		return p, nil
	}
	return publisher.Publisher{}, fmt.Errorf("publisher %q: %w", key.Publisher, ErrNotHere)
}

// parkedRequest is which parked event an act is about.
type parkedRequest struct {
	Topic      string `json:"topic,omitempty"`
	Publisher  string `json:"publisher"`
	CampaignID string `json:"campaign_id"`
	Seq        int64  `json:"seq"`
}

// RetryParked has a parked event tried again at once. Errors are those of [publications.Retry].
func (a Publishers) RetryParked(
	ctx context.Context, r Request, key publications.Key, campaignID string, seq int64,
) (*Outcome, error) {
	return a.onParked(ctx, r, ActRetryParked, parkedRequest{key.Topic, key.Publisher, campaignID, seq}, publications.Retry)
}

// ResolveParked leaves a parked event out, for good. It needs a reason, and the request confirms
// with the seq. Errors: [ErrDeclined], and those of [publications.Resolve].
func (a Publishers) ResolveParked(
	ctx context.Context, r Request, key publications.Key, campaignID string, seq int64,
) (*Outcome, error) {
	return a.onParked(ctx, r, ActResolveParked, parkedRequest{key.Topic, key.Publisher, campaignID, seq},
		publications.Resolve)
}

func (a Publishers) onParked(ctx context.Context, r Request, kind Kind, asked parkedRequest,
	do func(context.Context, publications.DB, publications.ParkedFilter, publications.Act) (int64, error),
) (*Outcome, error) {
	if asked.Publisher == "" || asked.CampaignID == "" || asked.Seq < 1 {
		return nil, fmt.Errorf("%w: name the publisher, the campaign and the seq of the event", ErrInvalid)
	}
	f := publications.ParkedFilter{
		Topic: asked.Topic, Publisher: asked.Publisher, CampaignID: asked.CampaignID,
		Seq: asked.Seq,
	}
	t := act{Request: r, kind: kind, request: asked, logs: true}
	if kind == ActResolveParked {
		t.reason, t.confirm = true, fmt.Sprint(asked.Seq)
	}
	return a.acts.do(ctx, t, func(ctx context.Context, tx pgx.Tx) (any, error) {
		n, err := do(ctx, tx, f, r.publisher())
		return countResult{n}, err
	})
}

// publisher is who and why, for pkg/publisher.
func (r Request) publisher() publications.Act {
	return publications.Act{
		By: r.Who.Name, Reason: r.Reason, Way: r.Who.Way, TokenID: r.Who.TokenID, Address: r.Who.Address,
	}
}
