// Package clientless lists the kinds of sinks that link no broker's client.
package clientless

import (
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/sink/log"
	"github.com/tidemark-go/tidemark/pkg/sink/postgres"
	"github.com/tidemark-go/tidemark/pkg/sink/statistics"
	"github.com/tidemark-go/tidemark/pkg/sink/webhook"
)

// Kinds lists them.
func Kinds() []publisher.Kind {
	return []publisher.Kind{log.Kind(), postgres.Kind(), statistics.Kind(), webhook.Kind()}
}
