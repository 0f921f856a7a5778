package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

// publication names a topic and a publisher. On the command line no topic means all of the publisher's.
type publication struct {
	Publisher string `arg:"PUBLISHER" of:"publisher" help:"the publisher"`
	Topic     string `of:"topic" help:"only this topic of the publisher (default all)"`
}

func (in *publication) key() publications.Key {
	return publications.Key{Topic: in.Topic, Publisher: in.Publisher}
}

// said names what an act was about.
func (in *publication) said() string {
	if in.Topic == "" {
		return in.Publisher
	}
	return in.Topic + "/" + in.Publisher
}

func (in *publication) next() []string { return []string{"publisher", "show", in.Publisher} }

type publicationPause struct {
	publication
	lasting
}

type publicationReset struct {
	publication
	Position *int64    `help:"go on after this position of the journal; 0: publish all of it again"`
	Time     time.Time `help:"go on with the first event recorded at this time or later, such as 2026-01-31T08:00:00Z"`
	End      bool      `form:"-" help:"go on with what is appended from now on"`
}

func (in *publicationReset) to() publications.ResetTo {
	return publications.ResetTo{Position: in.Position, Time: in.Time}
}

// moves says whether it goes elsewhere; else it forgets errors and stays.
func (in *publicationReset) moves() bool { return in.Position != nil || !in.Time.IsZero() || in.End }

type testSend struct {
	publication
	CampaignID string `name:"campaign" form:"-" of:"campaign" help:"with seq: an event of the journal (default made up)"`
	Seq        int64  `form:"-" min:"1" help:"with campaign: the event's place in it"`
}

func publisherActs() []*Act {
	const path = "/publishers/{topic}/{publisher}"
	return []*Act{
		act(Act{
			Kind: admin.ActPausePublisher, Name: "pausePublisher", Command: "publisher pause", Path: path + "/pause",
			Short: "Stop a publisher until it is resumed, or for a time",
			Long: "Stop a publisher until it is resumed, or for a time. Workers notice within a second; a batch under way is " +
				"finished. Nothing is lost: it goes on where it was. Paused again, it gets the new reason and the new end. A " +
				"topic whose publication has failed stays as it is.",
			Examples: []string{
				"publisher pause archive --reason 'the broker moves'",
				"publisher pause archive --topic orders --for 2h --reason 'the broker moves'",
			},
			Button: "Pause", Hint: "Events wait in the journal and are sent when it is resumed.",
		}, does[*publicationPause]{
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *publicationPause) (*admin.Outcome, error) {
				return acts.Publishers().Pause(ctx, by, in.key(), in.For)
			},
			Told: func(in *publicationPause, _ *admin.Outcome) Told {
				return Told{
					fmt.Sprintf("Paused publisher %s %s.", in.said(), in.until()),
					[]string{"publisher", "resume", in.Publisher},
				}
			},
		}),
		act(Act{
			Kind: admin.ActResumePublisher, Name: "resumePublisher", Command: "publisher resume", Path: path + "/resume",
			Short:    "Let a publisher that was paused go on",
			Examples: []string{"publisher resume archive --reason 'the broker has moved'"},
			Button:   "Resume", Hint: "It goes on where it was.",
		}, does[*publication]{
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *publication) (*admin.Outcome, error) {
				return acts.Publishers().Resume(ctx, by, in.key())
			},
			Told: func(in *publication, _ *admin.Outcome) Told {
				return Told{"Resumed publisher " + in.said() + ".", in.next()}
			},
		}),
		act(Act{
			Kind: admin.ActResetPublisher, Name: "resetPublisher", Command: "publisher reset", Path: path + "/reset",
			Short: "Let a publisher that has failed go on, publish again from an earlier place, or leave out what is before " +
				"a later one",
			Long: "Reset a publisher: it becomes active, and its errors are forgotten. Without a place it goes on where it " +
				"stands. Taken back, it publishes again what comes after the new place; taken ahead, it never publishes what " +
				"is before it. What is under way is published again. Parked events behind the new place are met again; " +
				"campaigns that are parked before it stay so. With a place it asks for the publisher's name.",
			Examples: []string{
				"publisher reset archive --reason 'disk is full no more'",
				"publisher reset archive --topic orders --time 2026-01-31T08:00:00Z --dry-run",
				"publisher reset archive --topic orders --position 4711 --reason 'the consumer lost a day'",
			},
			Button: "Reset", Danger: true,
		}, does[*publicationReset]{
			Check: func(in *publicationReset) error {
				if in.Position != nil && !in.Time.IsZero() || in.End && (in.Position != nil || !in.Time.IsZero()) {
					return param.Refuse("position", "", "1", "a reset goes to one place", "name a position, a time, or the end")
				}
				return nil
			},
			Confirm: func(in *publicationReset) string {
				if in.moves() {
					return in.Publisher
				}
				return ""
			},
			Preview: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *publicationReset) (any, error) {
				return acts.Publishers().PreviewReset(ctx, by, in.key(), in.to(), in.End)
			},
			Would: func(in *publicationReset, found any) string {
				var sent, skipped int64
				for _, r := range found.(admin.Resets).Publications {
					sent, skipped = sent+r.Sent, skipped+r.Skipped
				}
				return fmt.Sprintf("reset publisher %s: %s sent again, %s never sent", in.said(), table.Count(sent, "event"),
					table.Count(skipped, "event"))
			},
			Fix: func(in *publicationReset, found any) *publicationReset {
				same := *in
				if all := found.(admin.Resets).Publications; in.moves() && len(all) > 0 {
					same.Position, same.Time, same.End = &all[0].To, time.Time{}, false
				}
				return &same
			},
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *publicationReset) (*admin.Outcome, error) {
				return acts.Publishers().Reset(ctx, by, in.key(), in.to(), in.End)
			},
			Told: func(in *publicationReset, done *admin.Outcome) Told {
				var parts []string
				for _, r := range detail[admin.Resets](done).Publications {
					parts = append(parts, fmt.Sprintf("%s/%s stands at position %d now, %s sent again, %s never sent", r.Topic,
						r.Publisher, r.To, table.Count(r.Sent, "event"), table.Count(r.Skipped, "event")))
				}
				return Told{strings.Join(parts, "; ") + ".", in.next()}
			},
		}),
		act(Act{
			Kind: admin.ActTestSend, Name: "testSend", Command: "publisher test-send",
			Path:  path + "/test-send",
			Short: "Send one event to a publisher's sink: one that is made up and says so, or one of the journal",
			Long: "Send one event to a publisher's sink, with the settings and in the format of the workers: it shows whether " +
				"the sink can be reached and takes what it gets. The event is made up: its type is tidemark.test, its campaign " +
				"tidemark-test, its position 0. With campaign and seq it is one of the journal, with the id it has. It is sent " +
				"once, and positions stay as they are.",
			Examples: []string{
				"publisher test-send archive --publishers publishers.yaml",
				"publisher test-send archive --campaign oak --seq 2 --reason 'does it take large ones now?'",
			},
			Button: "Test send",
			Hint:   "Sends one event that is made up, of type tidemark.test, and waits until the sink has taken it.",
		}, does[*testSend]{
			Check: func(in *testSend) error {
				if (in.CampaignID == "") != (in.Seq == 0) {
					return param.Refuse(
						"seq", fmt.Sprint(in.Seq), "1 or more", "an event of the journal has a campaign and a seq",
						"name both, or neither for an event that is made up",
					)
				}
				return nil
			},
			Preview: func(ctx context.Context, acts *admin.Acts, _ admin.Request, in *testSend) (any, error) {
				return acts.Publishers().PreviewSend(ctx, in.key(), in.CampaignID, in.Seq)
			},
			Would: func(in *testSend, found any) string {
				event := found.(admin.Sent)
				return fmt.Sprintf("send event %s, %s, to %s", event.EventID, event.Type, in.Publisher)
			},
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *testSend) (*admin.Outcome, error) {
				return acts.Publishers().TestSend(ctx, by, in.key(), in.CampaignID, in.Seq)
			},
			Told: func(in *testSend, done *admin.Outcome) Told {
				event := detail[admin.Sent](done)
				return Told{
					fmt.Sprintf("The sink of %s has taken event %s, %s.", in.said(), event.EventID, event.Type), in.next(),
				}
			},
		}),
		act(Act{
			Kind: admin.ActStartOperation, Name: "republish", Command: "publisher replay", Path: path + "/replay",
			Short: "Send a slice of a campaign to a publisher again",
			Long: "Let a worker that has the publisher send a slice of a campaign again: to give a consumer back what it has " +
				"lost. Events come in order, with the ids they had, at least once; those that the topic does not have are left " +
				"out. The publisher's own position stays where it is, and goes on beside it. It ends at what is committed when " +
				"it starts, or at until. While the sink fails it is tried again, ten times in a row; an event that the sink " +
				"refuses ends it, and the operation's progress says how far it came. It asks for the publisher's name.",
			Examples: []string{
				"publisher replay archive oak --topic orders --from 1 --dry-run",
				"publisher replay archive oak --topic orders --from 40 --until 60 --reason lost --wait",
			},
			Button: "Send again", Danger: true,
		}, does[*admin.Republication]{
			Confirm: func(in *admin.Republication) string { return in.Publisher },
			Preview: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *admin.Republication) (any, error) {
				return acts.Publishers().PreviewRepublication(ctx, by, *in)
			},
			Counted: func(found any) (int64, []admin.Item) {
				slice := found.(admin.Slice)
				return slice.Through - slice.From + 1, nil
			},
			Would: func(in *admin.Republication, found any) string {
				slice := found.(admin.Slice)
				if slice.Events == nil {
					return fmt.Sprintf("send those of events %d to %d of %s to %s again that are of the topic", slice.From,
						slice.Through, in.CampaignID, in.Publisher)
				}
				return fmt.Sprintf("send %s of %s to %s again, up to %d", table.Count(*slice.Events, "event"), in.CampaignID,
					in.Publisher, slice.Through)
			},
			Fix: func(in *admin.Republication, found any) *admin.Republication {
				bounded := *in
				bounded.Until = found.(admin.Slice).Through // no more than was counted
				return &bounded
			},
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *admin.Republication) (*admin.Outcome, error) {
				return acts.Publishers().Republish(ctx, by, *in)
			},
			Told: func(in *admin.Republication, done *admin.Outcome) Told {
				return begun(done, "that has "+in.Publisher+" sends the events of "+in.CampaignID+" again")
			},
		}),
	}
}

type parkedEvent struct {
	publication
	CampaignID string `arg:"CAMPAIGN" name:"campaign" of:"parked" help:"the campaign"`
	Seq        int64  `arg:"SEQ" min:"1" help:"the event's place in it"`
}

func parkedActs() []*Act {
	const path = "/parked/{topic}/{publisher}/{campaign}/{seq}"
	next := []string{"publisher", "parked", "list"}
	return []*Act{
		act(Act{
			Kind: admin.ActRetryParked, Name: "retryParked", Command: "publisher parked retry", Path: path + "/retry",
			Short:    "Send a refused event again at once, with all its attempts before it",
			Examples: []string{"publisher parked retry archive oak 2"},
			Button:   "Send again",
		}, does[*parkedEvent]{
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *parkedEvent) (*admin.Outcome, error) {
				return acts.Publishers().RetryParked(ctx, by, in.key(), in.CampaignID, in.Seq)
			},
			Told: func(in *parkedEvent, _ *admin.Outcome) Told {
				return Told{fmt.Sprintf("Event %d of %s is sent again now.", in.Seq, in.CampaignID), next}
			},
		}),
		act(Act{
			Kind: admin.ActResolveParked, Name: "resolveParked", Command: "publisher parked resolve", Path: path + "/resolve",
			Short: "Leave a refused event out for good: the publisher never sends it",
			Long: "Leave a refused event out for good: the publisher never sends it, and its campaign goes on behind it. It " +
				"asks for the event's seq.",
			Examples: []string{"publisher parked resolve archive oak 2 --reason 'test data'"},
			Button:   "Resolve", Reason: true, Danger: true,
		}, does[*parkedEvent]{
			Confirm: func(in *parkedEvent) string { return fmt.Sprint(in.Seq) },
			Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *parkedEvent) (*admin.Outcome, error) {
				return acts.Publishers().ResolveParked(ctx, by, in.key(), in.CampaignID, in.Seq)
			},
			Told: func(in *parkedEvent, _ *admin.Outcome) Told {
				return Told{fmt.Sprintf("Resolved: %s goes on in %s without event %d.", in.said(), in.CampaignID, in.Seq), next}
			},
		}),
	}
}
