package publisher

import (
	"context"
	"log/slog"
	"net/url"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// Event is a journal event on its way to a sink. Its ID, CampaignID, Seq and Position are the same
// whenever it is sent again.
type Event struct {
	event.Event
	Topic string // under which it is published

	fault error // the catalogue cannot bring it to its current version: it is refused without calling the sink
}

// Sink sends events somewhere. It may also implement [HealthChecker], and io.Closer.
//
// Publish sends a batch and returns when the other side has taken responsibility for it, or an error:
//
//   - nil: all events are published
//   - a [*BatchError]: those it names are not published, all others are
//   - any other error: the fate of all of them is unknown. The pair waits and sends all of them again.
//     An event loses an attempt only if, sent alone, it fails while others get through, or at a sink
//     that is healthy before and after. Mark an error that is certainly no event's fault as an [Outage]
//
// Events of a campaign come, and must arrive, in the order of Seq. Once one of them has failed, do not
// send the later ones in the batch, and name them with [ErrNotTried]. Events of other campaigns are
// independent. A batch is never empty, has a campaign's next events, and may have been sent before.
//
// Publish is called from several goroutines at once, but never for the same campaign and topic. It
// must obey ctx, which carries the publisher's timeout. The slice and what it refers to are only
// lent: keep nothing of it and change nothing in it, since other sinks read the same events.
//
// A sink connects when first needed, reconnects by itself, and does not retry for longer than ctx allows.
type Sink interface {
	// Name names the sink in logs and errors.
	Name() string
	Publish(ctx context.Context, events []Event) error
}

// HealthChecker is implemented by sinks that can check whether the other side is up. The relay
// calls it after failures, to tell a broker that is down from an event that it refuses.
type HealthChecker interface {
	Healthy(ctx context.Context) error
}

// Kind is a kind of sink that a configuration can name.
type Kind struct {
	Name    string   // e.g. "kafka"; also the scheme of its URLs
	Schemes []string // further schemes, e.g. "amqps"
	// Open checks the settings and returns a sink, without waiting for the other side. Its errors name
	// the setting, the value and the remedy.
	Open func(Settings) (Sink, error)
}

// Settings is the configuration of one sink.
type Settings struct {
	Publisher string   // the publisher's name, which is also the sink's
	URL       *url.URL // nil: not configured
	Encoder   Encoder
	Logger    *slog.Logger // never nil

	// Decode decodes the settings under the sink's own key into a pointer to a struct, by its yaml
	// tags. A field that the struct lacks is an error, with its line. It is never nil.
	Decode func(into any) error
}
