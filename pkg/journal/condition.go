package journal

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Condition lets an append through only if no event has been added that its decision did not know.
// [Decide] returns it together with the state.
type Condition struct {
	FailIfMatch event.Query // the append fails if an event that this selects …
	// … has a position past this one, up to which everything was read: that of the last event of
	// [Read], or [Floor]. 0: if there is any
	After int64
	// of the journal that After was read from: [History] before the read, or "": the present one. After a
	// failover the append is refused if others may have the positions up to After. [Decide] sets it
	History string

	// seen are positions past After that the decision knows: events visible while an append with a
	// lower position was in flight. After stays below that append.
	seen []int64
}

// AppendIf adds events to the campaigns they name (Event.CampaignID), in the order given and in the
// caller's transaction, if the condition holds. Otherwise it appends none and returns
// [ErrConditionFailed]. Until the transaction ends, others that append what the condition's query
// selects, with conditions or without, wait.
//
// AppendIf is idempotent by event id: for events that are in the journal it returns their places,
// whatever the condition says.
//
// Under REPEATABLE READ and SERIALIZABLE make it the transaction's first statement, or it may fail
// with [ErrStaleSnapshot]. Two calls in one transaction may deadlock with two of another (SQLSTATE
// 40P01). It waits for open transactions for 10 s, or for the session's lock_timeout (SQLSTATE
// 55P03). Other errors are those of [Journal.Append], [event.ErrInvalidQuery] and [ErrInvalidCondition].
// Without events it returns an [InvalidEventError].
func (j Journal) AppendIf(
	ctx context.Context, tx Tx, events []event.Event, condition Condition,
) ([]Appended, error) {
	return j.appendIf(ctx, tx, queryAppendIf, events, condition)
}

// appendIf returns [ErrConditionFailed] itself if the query returns the matching event as a row.
func (j Journal) appendIf(
	ctx context.Context, tx Tx, query string, events []event.Event, condition Condition,
) ([]Appended, error) {
	doc, guard, err := j.encodeIf(ctx, tx, events, condition)
	if err != nil {
		return nil, err
	}
	places, err := placesOf(ctx, tx, "", len(events), query, doc, guard)
	return places, condition.explain(ctx, err)
}

// explain names the remedy if the server's time limit ended the look for events of a condition on types.
func (c Condition) explain(ctx context.Context, err error) error {
	if feed.SQLState(err) != stateCancelled || ctx.Err() != nil || !untagged(c.FailIfMatch) {
		return err
	}
	return fmt.Errorf("%w: a condition on types alone reads the journal after position %d: decide again just before, "+
		"give the events a tag, or create an index on (event_type, position)", err, c.After)
}

// appendIfAndCommit commits in the same round trip, so others wait less. It leaves an empty
// transaction open for the caller to end.
func (j Journal) appendIfAndCommit(
	ctx context.Context, tx pgx.Tx, events []event.Event, condition Condition,
) (places []Appended, err error) {
	doc, guard, err := j.encodeIf(ctx, tx, events, condition)
	if err != nil {
		return nil, err
	}
	var batch pgx.Batch
	batch.Queue(queryAppendIf, doc, guard).Query(func(found pgx.Rows) (err error) {
		places, err = placesIn(rows.Pgx(found), nil, "", len(events))
		return err
	})
	batch.Queue(queryCommit)
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, condition.explain(ctx, err)
	}
	return places, nil
}

// encodeIf validates the arguments and encodes the two documents.
func (j Journal) encodeIf(
	ctx context.Context, tx event.Querier, events []event.Event, condition Condition,
) (doc, guard string, err error) {
	if len(events) == 0 {
		return "", "", &InvalidEventError{
			Index: -1, Field: "events",
			Reason: "are none: a condition alone decides nothing, append what was decided",
		}
	}
	if err := feed.CheckQuery(condition.FailIfMatch); err != nil {
		return "", "", err
	}
	var batches []Batch
	for i := range events { // runs of one campaign, so positions follow the order given
		if last := len(batches) - 1; last >= 0 && batches[last].CampaignID == events[i].CampaignID {
			batches[last].Events = events[i-len(batches[last].Events) : i+1]
			continue
		}
		batches = append(batches, Batch{CampaignID: events[i].CampaignID, Events: events[i : i+1]})
	}
	doc, _, err = j.encodeAll(ctx, tx, batches)
	return doc, condition.encode(), err
}

func (c Condition) encode() string {
	buf := feed.AppendQuery([]byte(`{"failIfEventsMatch":`), c.FailIfMatch)
	buf = strconv.AppendInt(append(buf, `,"after":`...), c.After, 10)
	for i, position := range c.seen {
		if i == 0 {
			buf = append(buf, `,"seen":[`...)
		} else {
			buf = append(buf, ',')
		}
		buf = strconv.AppendInt(buf, position, 10)
	}
	if len(c.seen) > 0 {
		buf = append(buf, ']')
	}
	if c.History != "" {
		buf = strconv.AppendQuote(append(buf, `,"history":`...), c.History)
	}
	return string(append(buf, '}'))
}
