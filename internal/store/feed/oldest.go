package feed

import (
	"context"
	"fmt"
	"time"
)

// OpenAppend is a transaction that has appended and has neither committed nor rolled back. Its zero value is none.
type OpenAppend struct {
	Age    time.Duration // of the transaction
	PID    int           // its backend; 0: none, not to be seen, or it is prepared
	Holder string        // which it is: a process and its application, or the name of a prepared transaction
	Remedy string        // the statement that ends it
}

// OldestAppend answers the oldest append that is open: readers of the whole journal wait for it.
func OldestAppend(ctx context.Context, db Querier) (OpenAppend, error) {
	var open OpenAppend
	var seconds float64
	if err := scanOne(ctx, db, queryOldestAppend, []any{&seconds, &open.PID, &open.Holder, &open.Remedy}); err != nil {
		return OpenAppend{}, fmt.Errorf("look for open appends: %w", err)
	}
	open.Age = time.Duration(seconds * float64(time.Second))
	return open, nil
}
