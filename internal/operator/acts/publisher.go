package acts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/event"
)

type publication struct{ operator.Publication }

func (in *publication) told(text string) func(*admin.Outcome) Told {
	return told(text, "publisher", "show", in.Publisher)
}

// each calls do for the named publications that are able. If none is able it calls do for all of them,
// so that the caller gets the reason. Errors: [publications.ErrNotFound].
func (in *publication) each(
	ctx context.Context, db event.Querier, able func(publications.Publication) bool, do func(publications.Key) error,
) error {
	list, err := publications.List(ctx, db, in.Key())
	switch {
	case err != nil:
		return err
	case len(list) == 0:
		return fmt.Errorf("%s: %w: a publication appears once a worker begins it", in.Said(), publications.ErrNotFound)
	}
	none := !slices.ContainsFunc(list, able)
	for _, p := range list {
		if none || able(p) {
			if err := do(p.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

type publicationPause struct {
	publication
	lasting
}

type publicationReset struct {
	publication
	Position *int64    `help:"continue after this position of the journal; 0: publish everything again"`
	Time     time.Time `help:"continue with the first event recorded at this time or later, such as 2026-01-31T08:00:00Z"`
	End      bool      `form:"-" help:"continue with events appended from now on"`
}

// places counts the given places. Without one the reset only clears errors.
func (in *publicationReset) places() int {
	return slice.Count([]bool{in.Position != nil, !in.Time.IsZero(), in.End}, func(given bool) bool { return given })
}

type resets struct {
	Publications []resetOf `json:"publications"`
}

// resetOf is the effect of a reset on one publication, done or planned.
type resetOf struct {
	Topic     string `json:"topic"`
	Publisher string `json:"publisher"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
	Sent      int64  `json:"sent"`      // events that are published again
	Skipped   int64  `json:"skipped"`   // events that are never published
	Forgotten int64  `json:"forgotten"` // parked events that are tried again
}

func (in *publicationReset) reset(
	ctx context.Context, db publications.DB, by admin.Request, dryRun bool,
) (resets, error) {
	done, to := resets{[]resetOf{}}, publications.ResetTo{Position: in.Position, Time: in.Time, DryRun: dryRun}
	if in.End {
		floor, err := feed.Floor(ctx, db)
		if err != nil {
			return done, err
		}
		to.Position = &floor
	}
	all := func(publications.Publication) bool { return true }
	err := in.each(ctx, db, all, func(key publications.Key) error {
		r, err := publications.Reset(ctx, db, key, to, by.Published())
		done.Publications = append(done.Publications,
			resetOf{key.Topic, key.Publisher, r.From, r.To, r.Sent, r.Skipped, r.Forgotten})
		return err
	})
	return done, err
}

func (in *publicationReset) plan(ctx context.Context, acts *admin.Acts, by admin.Request) (*Plan, error) {
	found, err := in.reset(ctx, acts.Pool(), by, true)
	if err != nil {
		return nil, err
	}
	same := *in
	if all := found.Publications; in.places() > 0 {
		same.Position, same.Time, same.End = &all[0].To, time.Time{}, false
	}
	var sent, skipped int64
	for _, r := range found.Publications {
		sent, skipped = sent+r.Sent, skipped+r.Skipped
	}
	return &Plan{Detail: found, In: &same, Words: fmt.Sprintf("reset publisher %s: %s sent again, %s never sent",
		in.Said(), table.Count(sent, "event"), table.Count(skipped, "event"))}, nil
}

func publisherActs() []*Act {
	const path = "/publishers/{topic}/{publisher}"
	return []*Act{
		define(Act{
			Kind: admin.ActPausePublisher, Name: "pausePublisher", Command: "publisher pause", Path: path + "/pause",
			Short: "Pause a publisher",
			Long: "Pause a publisher until it is resumed or for a time. Workers notice within a second and finish " +
				"the current batch. Nothing is lost: it continues where it stopped. Pausing it again sets the new " +
				"reason and end. A topic whose publication has failed stays as it is.",
			Examples: []string{
				"publisher pause archive --reason 'the broker moves'",
				"publisher pause archive --topic orders --for 2h --reason 'the broker moves'",
			},
			Button: "Pause", Hint: "Events wait in the journal and are sent when it is resumed.", Logs: true,
		}, func(in *publicationPause, d *does) {
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				able := func(p publications.Publication) bool { return p.Status != "FAILED" }
				return nil, in.each(ctx, tx, able, func(key publications.Key) error {
					return publications.Suspend(ctx, tx, key, in.For, by.Published())
				})
			}
			d.Told = told(fmt.Sprintf("Paused publisher %s %s.", in.Said(), in.until()), "publisher", "resume",
				in.Publisher)
		}),
		define(Act{
			Kind: admin.ActResumePublisher, Name: "resumePublisher", Command: "publisher resume", Path: path + "/resume",
			Short:    "Resume a paused publisher",
			Examples: []string{"publisher resume archive --reason 'the broker has moved'"},
			Button:   "Resume", Hint: "It continues where it stopped.", Logs: true,
		}, func(in *publication, d *does) {
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				able := func(p publications.Publication) bool { return p.Status == "PAUSED" }
				return nil, in.each(ctx, tx, able, func(key publications.Key) error {
					return publications.Resume(ctx, tx, key, by.Published())
				})
			}
			d.Told = in.told("Resumed publisher " + in.Said() + ".")
		}),
		define(Act{
			Kind: admin.ActResetPublisher, Name: "resetPublisher", Command: "publisher reset", Path: path + "/reset",
			Short: "Restart a failed publisher, or move its position",
			Long: "Reset a publisher: it becomes active and its errors are cleared. Without a place it continues " +
				"where it is. From an earlier place it publishes again what comes after it. From a later place it " +
				"never publishes what is before it. A batch under way is published again. Parked events after the new " +
				"place are tried again; campaigns parked before it stay parked. With a place the command asks for the " +
				"publisher's name.",
			Examples: []string{
				"publisher reset archive --reason 'the disk has space again'",
				"publisher reset archive --topic orders --time 2026-01-31T08:00:00Z --dry-run",
				"publisher reset archive --topic orders --position 4711 --reason 'the consumer lost a day'",
			},
			Button: "Reset", Role: auth.Admin, Danger: true, Confirms: true, Logs: true,
		}, func(in *publicationReset, d *does) {
			if in.places() > 1 {
				d.Wrong = param.Refuse("position", "", "1", "a reset has one target", "give a position, a time, or the end")
			}
			if in.places() > 0 {
				d.Typed = in.Publisher
			}
			d.Preview = in.plan
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				return in.reset(ctx, tx, by, false)
			}
			d.Told = func(done *admin.Outcome) Told {
				var parts []string
				for _, r := range detail[resets](done).Publications {
					parts = append(parts, fmt.Sprintf("%s/%s stands at position %d now, %s sent again, %s never sent", r.Topic,
						r.Publisher, r.To, table.Count(r.Sent, "event"), table.Count(r.Skipped, "event")))
				}
				return in.told(strings.Join(parts, "; ") + ".")(done)
			}
		}),
		define(Act{
			Kind: admin.ActStartOperation, Name: "republish", Command: "publisher replay", Path: path + "/replay",
			Short: "Send a slice of a campaign to a publisher again",
			Long: "Send a slice of a campaign to a publisher again, to restore what a consumer has lost. A worker " +
				"that has the publisher does it. Events keep their order and ids and are sent at least once; events " +
				"that are not of the topic are left out. The publisher's own position does not change, and it goes on " +
				"meanwhile. The replay ends at the last event committed when it starts, or at until. While the sink " +
				"fails it retries, ten times in a row. An event that the sink refuses ends it, and the operation's " +
				"progress says how far it came. The command asks for the publisher's name.",
			Examples: []string{
				"publisher replay archive oak --topic orders --from 1 --dry-run",
				"publisher replay archive oak --topic orders --from 40 --until 60 --reason lost --wait",
			},
			Button: "Send again", Danger: true, Confirms: true, Counts: true,
		}, func(in *admin.Republication, d *does) {
			if in.Until != 0 && in.Until < in.From {
				d.Wrong = param.Refuse("until", fmt.Sprint(in.Until), fmt.Sprintf("%d or more", in.From), "it is less than from",
					"swap them")
			}
			d.Typed = in.Publisher
			d.Preview = func(ctx context.Context, acts *admin.Acts, by admin.Request) (*Plan, error) {
				slice, err := acts.PreviewRepublication(ctx, by, *in)
				events := fmt.Sprintf("events %d to %d of %s to %s again, if they are of the topic", slice.From,
					slice.Through, in.CampaignID, in.Publisher)
				if slice.Events != nil {
					events = fmt.Sprintf("%s of %s to %s again, up to %d", table.Count(*slice.Events, "event"), in.CampaignID,
						in.Publisher, slice.Through)
				}
				counted := *in
				counted.Until = slice.Through
				return &Plan{Detail: slice, Words: "send " + events, In: &counted, Count: slice.Through - slice.From + 1}, err
			}
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				if _, err := in.Last(ctx, tx); err != nil {
					return nil, err
				}
				return admin.Start(ctx, tx, by, admin.OpRepublish, in, 0)
			}
			d.Told = begun("that has " + in.Publisher + " sends the events of " + in.CampaignID + " again")
		}),
	}
}

type parkedEvent struct {
	publication
	CampaignID string `arg:"CAMPAIGN" name:"campaign" of:"parked" help:"the campaign"`
	Seq        int64  `arg:"SEQ" min:"1" help:"the event's place in it"`
}

// on wraps do for the event. The detail counts the publishers that had refused it.
func (in *parkedEvent) on(
	do func(context.Context, publications.DB, publications.ParkedFilter, publications.Act) (int64, error),
) func(context.Context, *admin.Acts, pgx.Tx, admin.Request) (any, error) {
	return func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
		n, err := do(ctx, tx, publications.ParkedFilter{
			Topic: in.Topic, Publisher: in.Publisher, CampaignID: in.CampaignID, Seq: in.Seq,
		}, by.Published())
		return map[string]int64{"count": n}, err
	}
}

func parkedActs() []*Act {
	const path = "/parked/{topic}/{publisher}/{campaign}/{seq}"
	return []*Act{
		define(Act{
			Kind: admin.ActRetryParked, Name: "retryParked", Command: "publisher parked retry", Path: path + "/retry",
			Short:    "Send a refused event again at once, with all attempts restored",
			Examples: []string{"publisher parked retry archive oak 2"},
			Button:   "Send again", Logs: true,
		}, func(in *parkedEvent, d *does) {
			d.Do = in.on(publications.Retry)
			d.Told = told(fmt.Sprintf("Event %d of %s is sent again now.", in.Seq, in.CampaignID), "publisher", "parked",
				"list")
		}),
		define(Act{
			Kind: admin.ActResolveParked, Name: "resolveParked", Command: "publisher parked resolve", Path: path + "/resolve",
			Short: "Leave out a refused event for good",
			Long: "Leave out a refused event for good: the publisher never sends it, and its campaign continues " +
				"with the next event. The command asks for the event's seq.",
			Examples: []string{"publisher parked resolve archive oak 2 --reason 'test data'"},
			Button:   "Resolve", Role: auth.Admin, Reason: true, Danger: true, Confirms: true, Logs: true,
		}, func(in *parkedEvent, d *does) {
			d.Typed = fmt.Sprint(in.Seq)
			d.Do = in.on(publications.Resolve)
			d.Told = told(fmt.Sprintf("Resolved: %s goes on in %s without event %d.", in.Said(), in.CampaignID, in.Seq),
				"publisher", "parked", "list")
		}),
	}
}
