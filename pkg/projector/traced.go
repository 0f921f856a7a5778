package projector

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/internal/tracing"
)

// traced makes a span of a part of a rebuild.
func (b *base) traced(ctx context.Context, what string, k *known) (context.Context, *tracing.Span) {
	if b.cfg.TracerProvider == nil {
		return ctx, nil
	}
	return tracing.New(b.cfg.TracerProvider, what+" "+k.spec.Name, trace.SpanKindInternal, attribute.String("tidemark.consumer_group", b.cfg.ConsumerGroup), attribute.String("tidemark.projection", k.spec.Name),
		attribute.Int("tidemark.projection_version", k.spec.Version)).Start(ctx)
}

// wrong is an error that something went wrong, and not that there is nothing to do.
func wrong(err error) error {
	if errors.Is(err, errNotCopying) || errors.Is(err, errNotYet) {
		return nil
	}
	return err
}
