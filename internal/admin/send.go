package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Sent is an event of a test send, done or planned.
type Sent struct {
	Topic      string `json:"topic"`
	Publisher  string `json:"publisher"`
	MadeUp     bool   `json:"made_up"`
	CampaignID string `json:"campaign_id"`
	Seq        int64  `json:"seq"`
	EventID    string `json:"event_id"`
	Type       string `json:"type"`
}

// sending returns the sink and the event: an event of the campaign, or a test event without a campaign.
func (a *Acts) sending(
	ctx context.Context, key publications.Key, campaignID string, seq int64,
) (to publisher.Publisher, event publisher.Event, _ Sent, err error) {
	if to, err = a.sink(&key); err != nil {
		return to, event, Sent{}, err
	}
	if campaignID == "" {
		event, err = publisher.TestEvent(key.Topic, time.Now().UTC())
	} else {
		event.Topic = key.Topic
		event.Event, err = journal.Get(ctx, a.cfg.Pool, campaignID, seq)
		if err == nil && a.cfg.Catalogue != nil {
			event.Event, err = a.cfg.Catalogue.Current(event.Event)
		}
	}
	return to, event, Sent{
		key.Topic, key.Publisher, campaignID == "", event.CampaignID, event.Seq, event.ID.String(), event.Type,
	}, err
}

// PreviewSend returns what [Acts.TestSend] would send.
func (a *Acts) PreviewSend(ctx context.Context, key publications.Key, campaignID string, seq int64) (Sent, error) {
	_, _, sent, err := a.sending(ctx, key, campaignID, seq)
	return sent, err
}

// holdSlack is how long an idempotency key is held beyond the sink's timeout.
const holdSlack = time.Minute

// TestSend sends one event to a publisher's sink, in one attempt: an event of the journal with its own id,
// or a test event without a campaign. Errors: [ErrNotHere] for a publisher that this process does not
// have, [ErrUnderWay] while the same request is running, [journal.ErrNotFound], and [ErrSink] if the
// sink fails. After ErrSink the idempotency key can be used again.
func (a *Acts) TestSend(
	ctx context.Context, db *Recorder, key publications.Key, campaignID string, seq int64,
) (_ Sent, err error) {
	to, event, sent, err := a.sending(ctx, key, campaignID, seq)
	if err != nil {
		return sent, err
	}
	if err := db.note(sent); err != nil { // before the record is written, for requests that repeat the key
		return sent, err
	}
	if err := db.hold(ctx, max(to.Timeout, holdSlack)+holdSlack); err != nil {
		return sent, err
	}
	defer func() {
		if err != nil {
			db.release(ctx)
		}
	}()
	took := &taking{Sink: to.Sink}
	to.Sink, db.void = took, func() bool { return !took.it.Load() }
	if err = publisher.TestSend(ctx, db, to, event, db.Published()); err != nil && db.void() {
		err = fmt.Errorf("%w: %w", ErrSink, err)
	}
	return sent, err
}

// taking is a sink that remembers whether it accepted the batch.
type taking struct {
	publisher.Sink
	it atomic.Bool
}

func (t *taking) Publish(ctx context.Context, batch []publisher.Event) error {
	err := t.Sink.Publish(ctx, batch)
	t.it.Store(err == nil)
	return err
}

// sink returns a publisher. Without a topic in the key it sets the publisher's first.
func (a *Acts) sink(key *publications.Key) (publisher.Publisher, error) {
	for _, p := range a.cfg.Publishers {
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
