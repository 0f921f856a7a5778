// Package sinks lists the kinds of sinks that a configuration can name. Each is a package below this one.
package sinks

import (
	"github.com/tidemark-go/tidemark/internal/sinks/file"
	"github.com/tidemark-go/tidemark/internal/sinks/kafka"
	"github.com/tidemark-go/tidemark/internal/sinks/log"
	"github.com/tidemark-go/tidemark/internal/sinks/nats"
	"github.com/tidemark-go/tidemark/internal/sinks/postgres"
	"github.com/tidemark-go/tidemark/internal/sinks/rabbitmq"
	"github.com/tidemark-go/tidemark/internal/sinks/redis"
	"github.com/tidemark-go/tidemark/internal/sinks/statistics"
	"github.com/tidemark-go/tidemark/internal/sinks/webhook"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Kinds lists them. A new kind is one folder, and one line here.
func Kinds() []publisher.Kind {
	return []publisher.Kind{
		file.Kind(),
		kafka.Kind(),
		log.Kind(),
		nats.Kind(),
		postgres.Kind(),
		rabbitmq.Kind(),
		redis.Kind(),
		statistics.Kind(),
		webhook.Kind(),
	}
}
