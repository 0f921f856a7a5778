package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Confirmation is what a person has to type before much is changed.
type Confirmation struct {
	What string // what is about to happen, as in "requeue 241"
	Type string // what has to be typed: the number of rows, or a name
	Yes  bool   // it was said on the command line
	Look string // how to look first; "": with --dry-run
}

// Confirm returns nil once the person has typed what the confirmation asks for, or has said so on
// the command line. Everything else, a terminal that is not there included, is an [ExitError] with
// [ExitDeclined].
func (e *Env) Confirm(ctx context.Context, c Confirmation) error {
	if c.Yes {
		return nil
	}
	if !e.InTerminal {
		look := "--dry-run"
		if c.Look != "" {
			look = c.Look
		}
		return Exitf(ExitDeclined,
			"this would %s and wants a confirmation, but stdin is no terminal: add --yes, or look first with %s", c.What, look)
	}
	_, _ = fmt.Fprintf(e.Err, "This would %s. Type %s to go on: ", c.What, c.Type)
	typed, err := e.readLine(ctx)
	if err != nil {
		e.Note("")
		return err
	}
	if typed != c.Type {
		return Exitf(ExitDeclined, "declined: %q was typed, not %s; nothing was changed", typed, c.Type)
	}
	return nil
}

// readLine reads one line from stdin. A read that waits for a person cannot be interrupted, so it
// is left behind when ctx ends: the process ends then too.
func (e *Env) readLine(ctx context.Context) (string, error) {
	type answer struct {
		line string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		line, err := bufio.NewReader(e.In).ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		answers <- answer{strings.TrimSpace(line), err}
	}()
	select {
	case a := <-answers:
		return a.line, a.err
	case <-ctx.Done():
		return "", Exitf(ExitDeclined, "interrupted: nothing was changed")
	}
}
