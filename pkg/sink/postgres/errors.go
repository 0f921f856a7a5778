package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// SQLSTATEs, see https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	undefinedTable        = "42P01"
	undefinedColumn       = "42703"
	noUniqueColumn        = "42P10"
	insufficientPrivilege = "42501"
	invalidSchema         = "3F000"
	raisedException       = "P0001"
	dataException         = "22"
	constraintViolation   = "23"
	programLimit          = "54"
	noResources           = "53"
	readOnly              = "25006"
)

func is(err error, state string) bool { return feed.SQLState(err) == state }

// permanent reports whether the database would refuse the event again because of its content.
func permanent(err error) bool {
	state := feed.SQLState(err)
	return strings.HasPrefix(state, dataException) || strings.HasPrefix(state, constraintViolation) ||
		strings.HasPrefix(state, programLimit)
}

// refused reports whether an event is at fault, rather than the connection, the server, the table
// or its privileges. A trigger that raised an exception may accept the event later.
func refused(err error) bool { return permanent(err) || is(err, raisedException) }

// explain adds remedies that errors lack, and marks errors that are no event's fault as outages.
func explain(err error, table string) error {
	remedy := ""
	switch _, batch := errors.AsType[*publisher.BatchError](err); {
	case err == nil || batch:
		return err
	case is(err, undefinedTable):
		remedy = "create the table"
	case is(err, invalidSchema):
		remedy = "create its schema"
	case is(err, undefinedColumn):
		remedy = "the table has not all columns that docs/reference/sinks.md lists; name another table, or add them"
	case is(err, noUniqueColumn):
		remedy = "campaign_id and event_id together must be the primary key or unique"
	case is(err, insufficientPrivilege):
		remedy = "grant INSERT and SELECT on it, and CREATE on its schema if the sink is to create it"
	case is(err, readOnly) || strings.HasPrefix(feed.SQLState(err), noResources):
		return publisher.Outage(err)
	default:
		return err
	}
	return publisher.Outage(fmt.Errorf("table %s: %w: %s", table, err, remedy))
}
