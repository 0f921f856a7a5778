package demo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errTooLong is in the error of an await whose condition has not come true in time.
var errTooLong = errors.New("it takes too long")

// await asks every [interval] until the answer is yes, an error, or time is up.
func await(ctx context.Context, within time.Duration, ask func() (bool, error)) error {
	return awaitEvery(ctx, interval, within, ask)
}

func awaitEvery(ctx context.Context, every, within time.Duration, ask func() (bool, error)) error {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	late := time.NewTimer(within)
	defer late.Stop()
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		select {
		case <-ticks.C:
		case <-late.C:
			return fmt.Errorf("%w: not done after %s", errTooLong, within)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
