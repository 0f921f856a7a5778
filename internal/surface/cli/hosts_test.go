package cli_test

import (
	"context"
	"log/slog"
	"net"
	"net/url"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// silent returns the address of a host that accepts connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func TestACommandTriesTheSecondHostOfAURLThatEndsWithANewline(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	address.Host = silent(t) + "," + address.Host
	open := cli.OpenAt(func(context.Context, *slog.Logger) (string, func() error, error) {
		return address.String() + "\n", func() error { return nil }, nil
	}, nil)
	_, closePool, err := open(t.Context(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := closePool(); err != nil {
		t.Error(err)
	}
}
