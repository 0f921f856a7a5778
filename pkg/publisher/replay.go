package publisher

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// ReplayRequest is a slice of a campaign, and where to send it.
type ReplayRequest struct {
	Topic      Topic // only its events are sent
	To         Publisher
	CampaignID string
	From       int64                // the first seq; at least 1
	Until      int64                // the last seq; 0: up to what is committed when it starts
	Catalogue  *catalogue.Catalogue // as in [Config]
	Attempts   int                  // consecutive failures of the sink before it gives up; default 10
	DryRun     bool                 // only count
	Progress   func(seq, sent int64)

	By     string // who asked for it; required
	Reason string // optional; the log of acts has both
}

// DB begins transactions: a *pgxpool.Pool or a *pgx.Conn.
type DB interface {
	event.Querier
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Replayed is the progress of a [Replay].
type Replayed struct {
	Sent    int64 // events, or in a dry run how many would be
	Through int64 // all events of the topic up to this seq are sent; From - 1: none
}

const replayAttempts = 10

// Replay sends a slice of a campaign again, in order and with the same ids, to any publisher's
// sink. It does not use positions and runs beside the relays. An event may arrive more than once;
// an event that the sink refuses ends it. It writes to tidemark.operator_log before its first event
// and when it ends, even after an error.
func Replay(ctx context.Context, db DB, r ReplayRequest) (Replayed, error) {
	done := Replayed{Through: r.From - 1}
	to, err := r.To.withDefaults()
	switch {
	case r.By == "":
		err = publications.ErrNoActor
	case r.CampaignID == "":
		err = errors.New("replay: the campaign is missing")
	case r.From < 1 || r.Until != 0 && r.Until < r.From:
		err = fmt.Errorf("replay events %d to %d: seqs begin with 1, and the last is not before the first", r.From, r.Until)
	}
	if err != nil {
		return done, err
	}
	if r.To = to; r.Attempts == 0 {
		r.Attempts = replayAttempts
	}
	floor, err := feed.Floor(ctx, db)
	if err != nil {
		return done, err
	}
	if r.DryRun {
		err = r.each(ctx, db, floor, &done, func([]Event) error { return nil })
		return done, err
	}
	act := publications.Act{By: r.By, Reason: r.Reason}
	key := publications.Key{Topic: r.Topic.Name, Publisher: to.Name}
	detail := map[string]any{"from": r.From, "until": r.Until}
	if err := publications.Note(ctx, db, act, publications.ActReplaying, key, r.CampaignID, r.From, detail); err != nil {
		return done, err
	}
	failure := r.each(ctx, db, floor, &done, func(events []Event) error { return r.send(ctx, &done, events) })
	detail["sent"], detail["through"], detail["error"] = done.Sent, done.Through, nil
	if failure != nil {
		detail["error"] = redact.Error(failure)
	}
	return done, errors.Join(failure, publications.Note(ctx, db, act, publications.ActReplayed, key, r.CampaignID, r.From,
		detail))
}

// each reads the slice and calls do with each batch of the topic's events.
func (r *ReplayRequest) each(
	ctx context.Context, db event.Querier, floor int64, done *Replayed, do func([]Event) error,
) error {
	for {
		of := part{r.Topic.Name, &r.Topic.Filter, r.Catalogue, r.CampaignID, done.Through + 1, floor, r.To.BatchSize}
		page, err := r.To.read(ctx, db, of)
		if err != nil {
			return err
		}
		events := page.Events
		if beyond := slices.IndexFunc(events, func(e event.Event) bool {
			return r.Until > 0 && e.Seq > r.Until
		}); beyond >= 0 {
			events = events[:beyond]
		}
		if len(events) == 0 {
			return nil
		}
		page.Events = events
		if batch := of.batch(page); len(batch) > 0 {
			if err := do(batch); err != nil {
				return err
			}
			done.Sent += int64(len(batch))
		}
		if done.Through = events[len(events)-1].Seq; r.Progress != nil {
			r.Progress(done.Through, done.Sent)
		}
	}
}

// send retries a batch until all of it has arrived. On an error it adds what has arrived to done.
func (r *ReplayRequest) send(ctx context.Context, done *Replayed, batch []Event) error {
	s := &sender{to: &r.To, trusted: func() bool { return true }}
	rest := batch
	for failures := 1; ; failures++ {
		sent := make([]bool, len(rest))
		refused, err := s.batch(ctx, rest, sent)
		first := slices.Index(sent, false)
		if first < 0 {
			return nil
		}
		if rest = rest[first:]; first > 0 {
			failures = 1
		}
		final := isPause(err)
		if len(refused) > 0 {
			err, final = refused[0].err, refused[0].permanent
		}
		if !final && failures < r.Attempts {
			if loops.Sleep(ctx, r.To.backoff(failures, err)) {
				continue
			}
			err = ctx.Err()
		}
		done.Sent += int64(len(batch) - len(rest))
		done.Through = rest[0].Seq - 1
		return fmt.Errorf("event %d of campaign %s (%s, %s) was not sent to %s: %w", rest[0].Seq, rest[0].CampaignID,
			rest[0].Type, rest[0].ID, r.To.Name, err)
	}
}
