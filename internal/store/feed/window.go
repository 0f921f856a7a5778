package feed

import (
	"context"
	"fmt"
)

// Window says which events [ReadWindow] reads: those with After < position <= Floor.
type Window struct {
	After, Floor int64 // Floor is what [Progress] or [Floor] answered before
	Events       int   // stop after so many events
	Bytes        int64 // stop once payload and metadata come to about so many bytes, but not before the first event
	// what is beyond Bytes is sent as well, and thrown away here: quicker by a third, if there is hardly ever anything
	Small bool
}

// ReadWindow reads events in order of position, and answers up to which position there are no
// others: Floor, unless a limit has ended it before.
func ReadWindow(ctx context.Context, db Querier, w Window) (events []Event, until int64, err error) {
	query, args := queryWindow, []any{w.After, w.Floor, w.Events, w.Bytes}
	if w.Small {
		query, args = queryJournalPage, args[:3]
	}
	expected := min(int64(w.Events), w.Floor-w.After)
	events, size, err := collectSome(ctx, db, int(expected), w.Bytes, query, args...)
	if err != nil {
		return nil, 0, fmt.Errorf("read journal after position %d: %w", w.After, err)
	}
	// A value of jsonb takes up to six times as much as its text, and what else an event has is little.
	cut := w.Small && size >= w.Bytes || !w.Small && size > w.Bytes/16
	if n := len(events); n > 0 && (n >= w.Events || cut) {
		return events, events[n-1].Position, nil
	}
	return events, w.Floor, nil
}
