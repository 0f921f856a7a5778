package publisher

import (
	"context"
	"log/slog"
	"net/url"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Event is an event of the journal on its way to a sink. Its ID, CampaignID, Seq and Position are
// the same whenever it is sent again.
type Event struct {
	journal.Event
	Topic string // under which it is published

	fault error // the catalogue cannot bring it to its current version: it is refused without asking the sink
}

// Sink sends events somewhere. It may also implement [HealthChecker], and io.Closer.
//
// Publish sends a batch and returns when the other side has taken responsibility for it, or an
// error:
//
//   - nil: all events are published
//   - a [*BatchError]: those it names are not published, all others are
//   - any other error: nothing is known of any of them. The pair waits and sends all of them again; an
//     event loses an attempt only if, sent alone, it fails where others get through, or at a sink that
//     is healthy before and after. What is certainly no event's fault is an [Outage]
//
// Events of a campaign come in the order of Seq, and must arrive so: once one of them has failed,
// those after it in the batch must not be sent, and are named with [ErrNotTried]. Events of other
// campaigns are independent. A batch is never empty, holds a campaign's next events, and may be one
// that was sent before.
//
// Publish is called from several goroutines at once, never for the same campaign and topic. It
// obeys ctx, which carries the publisher's timeout. The slice and what it refers to are only lent:
// keep nothing of it, and change nothing in it, since other sinks read the same events.
//
// A sink connects when it is first needed, connects again by itself, and does not retry on its own
// for longer than ctx allows.
type Sink interface {
	// Name says which sink this is, in logs and in errors.
	Name() string
	Publish(ctx context.Context, events []Event) error
}

// HealthChecker is implemented by sinks that can tell whether the other side is there. It is asked
// after failures, to tell a broker that is down from an event that it refuses.
type HealthChecker interface {
	Healthy(ctx context.Context) error
}

// Kind is a kind of sink that a configuration can name.
type Kind struct {
	Name    string   // e.g. "kafka"; also the scheme of its URLs
	Schemes []string // further schemes, e.g. "amqps"
	// Open checks the settings and returns a sink, without waiting for the other side. Its errors
	// name the setting, the value and the remedy.
	Open func(Settings) (Sink, error)
}

// Settings is what a configuration says of one sink.
type Settings struct {
	Publisher string   // the publisher's name, which the sink takes for its own
	URL       *url.URL // nil where the configuration names no URL
	Encoder   Encoder
	Logger    *slog.Logger // never nil

	// Decode reads the settings under the sink's own key into a pointer to a struct, by its yaml tags.
	// What the struct does not know is an error, with its line. It is never nil.
	Decode func(into any) error
}
