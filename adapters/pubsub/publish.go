package pubsub

import (
	"context"
	"errors"
	"slices"

	"cloud.google.com/go/pubsub/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

type lane struct {
	campaign string
	indexes  []int
	results  []*pubsub.PublishResult
}

func (s *Sink) publish(ctx context.Context, topic *pubsub.Publisher, events []publisher.Event) error {
	outcome := delivery.Of(events)
	var lanes []*lane
	for _, indexes := range outcome.ByCampaign() {
		l := &lane{campaign: events[indexes[0]].CampaignID, indexes: indexes}
		if err := s.await(ctx, topic, l.campaign); err != nil {
			return err
		}
		lanes = append(lanes, l)
	}
	// publish all of them first: the client sends together what it gets within batchDelay
	messages := make([]*pubsub.Message, len(events))
	for i := range events {
		messages[i] = s.message(&events[i])
	}
	for _, l := range lanes {
		for _, i := range l.indexes {
			l.results = append(l.results, topic.Publish(ctx, messages[i]))
		}
	}
	var outage error
	for _, l := range lanes {
		if err := s.settle(ctx, topic, events, l, outcome); outage == nil {
			outage = err
		}
	}
	if outage != nil {
		return explain(outage, topic.String())
	}
	return outcome.Err()
}

// await waits for messages that an earlier call left to the client, and resumes the campaign's key.
func (s *Sink) await(ctx context.Context, topic *pubsub.Publisher, campaign string) error {
	s.leftMu.Lock()
	last := s.left[campaign]
	s.leftMu.Unlock()
	if last == nil {
		return nil
	}
	select {
	case <-last.Ready():
	case <-ctx.Done():
		return ctx.Err()
	}
	topic.ResumePublish(campaign)
	s.leftMu.Lock()
	defer s.leftMu.Unlock()
	delete(s.left, campaign)
	return nil
}

// settle waits for a lane's results. If the events are at fault it sends them again one by one, up
// to the first that is refused.
func (s *Sink) settle(
	ctx context.Context, topic *pubsub.Publisher, events []publisher.Event, l *lane, outcome *delivery.Outcome,
) (outage error) {
	for n, r := range l.results {
		_, err := r.Get(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			s.leftMu.Lock()
			defer s.leftMu.Unlock()
			s.left[l.campaign] = l.results[len(l.results)-1]
			return ctx.Err()
		case !refused(err) && !overtaken(ctx, err, l.results[n+1:]):
			s.resume(ctx, topic, l)
			return err
		default:
			s.resume(ctx, topic, l)
			return s.oneByOne(ctx, topic, events, l.campaign, l.indexes[n:], outcome)
		}
	}
	return nil
}

// overtaken reports whether the client did not send an event because a later one of its campaign
// was refused first: the client refuses a message that is too large at once and stops the key.
func overtaken(ctx context.Context, err error, later []*pubsub.PublishResult) bool {
	var stopped pubsub.ErrPublishingPaused
	return errors.As(err, &stopped) && slices.ContainsFunc(later, func(r *pubsub.PublishResult) bool {
		_, err := r.Get(ctx)
		return refused(err)
	})
}

// resume resumes the campaign's key once everything given to the client has failed too.
func (s *Sink) resume(ctx context.Context, topic *pubsub.Publisher, l *lane) {
	last := l.results[len(l.results)-1]
	select {
	case <-last.Ready():
		topic.ResumePublish(l.campaign)
	case <-ctx.Done():
		s.leftMu.Lock()
		defer s.leftMu.Unlock()
		s.left[l.campaign] = last
	}
}

func (s *Sink) oneByOne(
	ctx context.Context, topic *pubsub.Publisher, events []publisher.Event, campaign string, indexes []int,
	outcome *delivery.Outcome,
) (outage error) {
	for _, i := range indexes {
		l := &lane{
			campaign: campaign, indexes: []int{i},
			results: []*pubsub.PublishResult{topic.Publish(ctx, s.message(&events[i]))},
		}
		_, err := l.results[0].Get(ctx)
		if err == nil {
			continue
		}
		s.resume(ctx, topic, l)
		if ctx.Err() != nil || !refused(err) {
			return err
		}
		outcome.Fail(i, err, true)
		return nil
	}
	return nil
}

func (s *Sink) message(e *publisher.Event) *pubsub.Message {
	encoded := s.cfg.Encoder.Encode(e)
	attributes := make(map[string]string, len(encoded.Attributes)+1)
	for _, a := range encoded.Attributes {
		attributes[a.Name] = a.Value
	}
	attributes["content-type"] = encoded.ContentType
	return &pubsub.Message{Data: encoded.Body, Attributes: attributes, OrderingKey: encoded.Key}
}

// refused reports whether the request's content is at fault.
func refused(err error) bool {
	code := status.Code(err)
	return errors.Is(err, pubsub.ErrOversizedMessage) || code == codes.InvalidArgument || code == codes.OutOfRange
}
