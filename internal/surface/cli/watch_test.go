package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// watch shows the frames. The last one ends the watch.
func watch(t *testing.T, env *Env, frames []error) (out, errs string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env.Out, env.Err = &stdout, &stderr
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	err = env.Watch(ctx, time.Millisecond, func(_ context.Context, frame *Env) error {
		failure := frames[n]
		if n++; n == len(frames) {
			cancel()
		}
		if failure == nil {
			_, _ = fmt.Fprintf(frame.Out, "frame %d\n", n)
		}
		return failure
	})
	return stdout.String(), stderr.String(), err
}

func TestWatch(t *testing.T) {
	t.Parallel()
	lost := &UnavailableError{errors.New("gone")}
	t.Run("writes frame after frame where nobody can move the cursor", func(t *testing.T) {
		t.Parallel()
		out, errs, err := watch(t, &Env{}, []error{nil, nil, nil})
		if out != "frame 1\nframe 2\n" || errs != "" || err != nil {
			t.Errorf("got %q, %q, %v: want two frames; the third was interrupted", out, errs, err)
		}
	})
	t.Run("writes each frame over the one before on a terminal", func(t *testing.T) {
		t.Parallel()
		out, _, err := watch(t, &Env{Terminal: true}, []error{nil, nil, nil})
		if want := "\x1b[2J\x1b[Hframe 1\x1b[K\n\x1b[J\x1b[Hframe 2\x1b[K\n\x1b[J"; out != want || err != nil {
			t.Errorf("got %q, %v, want %q", out, err, want)
		}
	})
	t.Run("waits for a database that went away", func(t *testing.T) {
		t.Parallel()
		out, errs, err := watch(t, &Env{}, []error{nil, lost, nil, nil})
		if out != "frame 1\nframe 3\n" || errs != "database unavailable: gone: trying again\n" || err != nil {
			t.Errorf("got %q, %q, %v", out, errs, err)
		}
	})
	t.Run("ends at once when there is none to begin with, and for every other error", func(t *testing.T) {
		t.Parallel()
		if _, _, err := watch(t, &Env{}, []error{lost, nil, nil}); ExitCode(err) != ExitUnavailable {
			t.Errorf("got %v", err)
		}
		if _, _, err := watch(t, &Env{}, []error{nil, errors.New("no such table"), nil}); ExitCode(err) != ExitFailed {
			t.Errorf("got %v", err)
		}
	})
}
