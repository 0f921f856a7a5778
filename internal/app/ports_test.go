package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func TestAWorkerWhosePortIsTakenStartsNothing(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	for flag, variable := range map[string]string{
		"--http-addr": "TIDEMARK_HTTP_ADDR", "--admin-addr": "TIDEMARK_ADMIN_ADDR",
	} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			var said bytes.Buffer
			started := false
			cmd := NewCommand(Options{Server: func(context.Context, *slog.Logger) (string, func() error, error) {
				started = true
				return "", nil, errors.New("there is no Postgres in this test")
			}})
			env := &cli.Env{In: strings.NewReader(""), Out: &said, Err: &said}
			args := []string{"--dev", "--publish-url=log:", "--http-addr=127.0.0.1:0", flag + "=" + taken.Addr().String()}
			code := cli.Run(t.Context(), cmd, env, args)
			if code != cli.ExitFailed {
				t.Errorf("it ends with %d, want %d", code, cli.ExitFailed)
			}
			for _, want := range []string{taken.Addr().String(), "address already in use", flag, variable} {
				if !strings.Contains(said.String(), want) {
					t.Errorf("it does not say %q: %s", want, &said)
				}
			}
			if strings.Contains(said.String(), "psql") {
				t.Errorf("the database is not to blame: %s", &said)
			}
			if started {
				t.Error("it started a Postgres before")
			}
		})
	}
}
