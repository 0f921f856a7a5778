// Package sinks lists the kinds of sinks of the stock programs. Each is a package of pkg/sink.
package sinks

import (
	"github.com/tidemark-go/tidemark/internal/sinks/clientless"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/sink/kafka"
	"github.com/tidemark-go/tidemark/pkg/sink/nats"
)

// Kinds lists them. A new kind is one folder, and one line here.
func Kinds() []publisher.Kind {
	return append(clientless.Kinds(), kafka.Kind(), nats.Kind())
}
