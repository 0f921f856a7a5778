package cli

import (
	"bytes"
	"context"
	"strings"
	"time"
)

// What a terminal is told between two frames of a watch: each is written over the one before, so that nothing flickers.
const (
	clearScreen = "\x1b[2J"
	home        = "\x1b[H"
	clearLine   = "\x1b[K\n"
	clearRest   = "\x1b[J"
)

// Watch calls show again and again, with interval between, until ctx ends, which is no error. On a
// terminal each call's output takes the place of the one before; elsewhere they follow each other.
// A database that goes away after the first call is waited for.
func (e *Env) Watch(ctx context.Context, interval time.Duration, show func(context.Context, *Env) error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for first := true; ; first = false {
		frame := *e
		var out bytes.Buffer
		frame.Out = &out
		switch err := show(ctx, &frame); {
		case ctx.Err() != nil:
			return nil
		case err != nil && (first || !Unavailable(err)):
			return err
		case err != nil:
			e.Note("%v: trying again", err)
		default:
			if err := e.writeFrame(out.String(), first); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (e *Env) writeFrame(text string, first bool) error {
	if e.Terminal {
		text = home + strings.ReplaceAll(text, "\n", clearLine) + clearRest
		if first {
			text = clearScreen + text
		}
	}
	_, err := e.Out.Write([]byte(text))
	return err
}
