package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"
)

func TestExitCodeFollowsFromTheError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		code int
	}{
		{nil, 0},
		{errors.New("no"), 1},
		{Usagef("no"), 2},
		{Exitf(ExitDeclined, "no"), 3},
		{fmt.Errorf("requeue: %w", Exitf(ExitConflict, "no")), 5},
		{Hint(Exitf(ExitPartial, "no"), "again"), 6},
		{Exitf(ExitDifferences, "no"), 7},
		{&UnavailableError{errors.New("no")}, 8},
		{fmt.Errorf("report: %w", &pgconn.PgError{Code: "57P01"}), 8}, // the server is shutting down
		{&pgconn.PgError{Code: "57P03"}, 8},                           // the server is starting up
		{&pgconn.PgError{Code: "53300"}, 8},                           // the server has too many connections
		{&pgconn.PgError{Code: "08006"}, 8},
		{&net.OpError{Op: "read", Err: errors.New("reset")}, 8},
		{&net.OpError{Op: "listen", Err: errors.New("address already in use")}, 1},
		{fmt.Errorf("report: %w", io.ErrUnexpectedEOF), 8},
		{&pgconn.PgError{Code: "57014"}, 1}, // a statement timeout is a failure
		{&pgconn.PgError{Code: "42P01"}, 1},
		{&UnavailableError{context.Canceled}, 1},
	} {
		if got := ExitCode(tt.err); got != tt.code {
			t.Errorf("%v ends with %d, want %d", tt.err, got, tt.code)
		}
	}
}

func TestAnErrorIsFollowedByWhatToTypeNext(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		said string
	}{
		{Usagef("no such flag"), "tool: no such flag\ntry: tool do --help\n"},
		{Hint(errors.New("no such pair"), "tool list"), "tool: no such pair\ntry: tool list\n"},
		{errors.New("no"), "tool: no\n"},
		{
			&UnavailableError{errors.New("refused")},
			"tool: database unavailable: refused\ntry: psql \"$TIDEMARK_DATABASE_URL\" -c 'SELECT 1'\n",
		},
	} {
		var errs bytes.Buffer
		env := &Env{In: strings.NewReader(""), Out: io.Discard, Err: &errs}
		root := Noun("tool", "", &cobra.Command{Use: "do", RunE: func(*cobra.Command, []string) error { return tt.err }})
		if Run(t.Context(), root, env, []string{"do"}); errs.String() != tt.said {
			t.Errorf("said %q, want %q", errs.String(), tt.said)
		}
	}
}

func TestAnInterruptionIsNamedAndNotExplained(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs bytes.Buffer
	env := &Env{In: strings.NewReader(""), Out: io.Discard, Err: &errs}
	root := Noun("tool", "", &cobra.Command{Use: "do", RunE: func(cmd *cobra.Command, _ []string) error {
		return fmt.Errorf("list the outbox: %w", cmd.Context().Err())
	}})
	if code := Run(ctx, root, env, []string{"do"}); code != ExitFailed || errs.String() != "tool: interrupted\n" {
		t.Errorf("exit code %d, said %q", code, errs.String())
	}
}
