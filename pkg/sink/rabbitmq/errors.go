package rabbitmq

import (
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// tooLarge tells whether the broker has closed the channel because of the message that it was sent.
func tooLarge(err error) bool {
	var closed *amqp.Error
	return errors.As(err, &closed) && (closed.Code == amqp.PreconditionFailed || closed.Code == amqp.ContentTooLarge)
}

// explain adds to an error what to do, where that is not plain from it, and that no event is at fault, where that is.
func (s *sink) explain(err error) error {
	var closed *amqp.Error
	if !errors.As(err, &closed) {
		return err
	}
	switch closed.Code {
	case amqp.NotFound:
		return publisher.Outage(fmt.Errorf("exchange %q: %w: declare it, or let the sink do so with exchange_type",
			s.cfg.Exchange, err))
	case amqp.AccessRefused:
		return publisher.Outage(fmt.Errorf("exchange %q: %w: give the user the permission to write, and to configure if "+
			"the sink is to declare it", s.cfg.Exchange, err))
	case amqp.PreconditionFailed:
		return fmt.Errorf("exchange %q: %w: leave exchange_type out, or name the one it has", s.cfg.Exchange, err)
	}
	return err
}
