// Package sinks lists the kinds of sinks of the stock programs. Each is a package of pkg/sink.
package sinks

import (
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/sink/kafka"
	"github.com/tidemark-go/tidemark/pkg/sink/log"
	"github.com/tidemark-go/tidemark/pkg/sink/nats"
	"github.com/tidemark-go/tidemark/pkg/sink/postgres"
	"github.com/tidemark-go/tidemark/pkg/sink/statistics"
	"github.com/tidemark-go/tidemark/pkg/sink/webhook"
)

// Kinds lists them. A new kind is one folder, and one line here.
func Kinds() []publisher.Kind {
	return []publisher.Kind{
		kafka.Kind(), log.Kind(), nats.Kind(), postgres.Kind(), statistics.Kind(), webhook.Kind(),
	}
}
