package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

func TestConfirmWantsExactlyWhatItAsksFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, typed string
		terminal    bool
		yes         bool
		code        int
		said        string
	}{
		{"the number", "241\n", true, false, ExitOK, "This would requeue 241 pairs. Type 241 to continue: "},
		{"the number among blanks", " 241 \r\n", true, false, ExitOK, ""},
		{"the number without an end of line", "241", true, false, ExitOK, ""},
		{"another number", "24\n", true, false, ExitDeclined, ""},
		{"a yes", "yes\n", true, false, ExitDeclined, ""},
		{"nothing", "", true, false, ExitDeclined, ""},
		{"--yes", "", false, true, ExitOK, ""},
		{"the number, but not from a terminal", "241\n", false, false, ExitDeclined, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var errs bytes.Buffer
			env := &Env{In: strings.NewReader(tt.typed), Err: &errs, InTerminal: tt.terminal}
			err := env.Confirm(t.Context(), Confirmation{What: "requeue 241 pairs", Type: "241", Yes: tt.yes})
			if ExitCode(err) != tt.code || !strings.Contains(errs.String(), tt.said) {
				t.Errorf("got %v, said %q: want exit code %d, %q", err, errs.String(), tt.code, tt.said)
			}
		})
	}
	t.Run("and says what to do where nobody can be asked", func(t *testing.T) {
		t.Parallel()
		err := (&Env{}).Confirm(t.Context(), Confirmation{What: "requeue 241 pairs", Type: "241"})
		if err == nil || !strings.Contains(err.Error(), "requeue 241 pairs") || !strings.Contains(err.Error(), "--yes") ||
			!strings.Contains(err.Error(), "--dry-run") {
			t.Errorf("got %v", err)
		}
	})
}

func TestConfirmEndsWhenItIsInterrupted(t *testing.T) {
	t.Parallel()
	in, typing := io.Pipe()
	defer func() { _ = typing.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := (&Env{In: in, Err: io.Discard, InTerminal: true}).Confirm(ctx,
		Confirmation{What: "requeue 241 pairs", Type: "241"})
	if ExitCode(err) != ExitDeclined || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("got %v", err)
	}
}
