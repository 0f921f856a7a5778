package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Confirmation describes what the user must type before a change.
type Confirmation struct {
	What string // the change, as in "requeue 241 failed campaigns"
	Type string // text to type: the number of rows or a name
	Yes  bool   // confirmed on the command line
	Look string // command that shows what is affected; default: --dry-run
}

// Confirm returns nil after the user has typed the text, or if c.Yes is set. Otherwise, and without a
// terminal, it returns an [ExitError] with [ExitDeclined].
func (e *Env) Confirm(ctx context.Context, c Confirmation) error {
	if c.Yes {
		return nil
	}
	if !e.InTerminal {
		return Exitf(ExitDeclined,
			"this would %s and needs a confirmation, but stdin is not a terminal: add --yes, or preview it with %s",
			c.What, cmp.Or(c.Look, "--dry-run"))
	}
	_, _ = fmt.Fprintf(e.Err, "This would %s. Type %s to continue: ", c.What, c.Type)
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

// readLine reads one line from stdin. A blocked read cannot be interrupted, so its goroutine stays
// behind when ctx ends. The process ends then too.
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
