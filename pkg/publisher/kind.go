package publisher

import (
	"log/slog"
	"net/url"
)

// Kind is a kind of sink that a configuration can name.
type Kind struct {
	Name    string   // e.g. "kafka"; also the scheme of its URLs
	Schemes []string // further schemes, e.g. "amqps"
	// Open checks the settings and returns a sink. It does not wait for the other side: a broker that is down is the relay's to wait for. Its errors
	// name the setting, the value and the remedy, and are reported with the line where the sink is configured.
	Open func(Settings) (Sink, error)
}

// Settings is what a configuration says of one sink.
type Settings struct {
	Publisher string   // the publisher's name, which the sink takes for its own
	URL       *url.URL // nil where the configuration names no URL
	Encoder   Encoder
	Logger    *slog.Logger // never nil

	// Decode reads the settings under the sink's own key into a pointer to a struct, by its yaml tags. What the struct does not know is an error, with its
	// line; without such settings the struct stays as it is. It is never nil.
	Decode func(into any) error
}
