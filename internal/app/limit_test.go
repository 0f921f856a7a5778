package app

import (
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

func TestThePoolFitsTheRolesConnectionLimit(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	super := connectTo(t, server.URL())
	tally.Exec(t, super, "CREATE ROLE limited LOGIN CONNECTION LIMIT 9")
	address, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.User("limited")
	other := connectTo(t, address.String())
	tally.Exec(t, other, "SELECT") // another program of the role
	settings := config.Worker{DatabaseURL: address.String(), Listen: true, HTTPAddr: "off"}
	settings.Projector.Concurrency, settings.Admin.Addr = 20, "off"
	var log strings.Builder
	pool, err := connect(t.Context(), settings, Options{}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if most := pool.Config().MaxConns; most != 6 || !strings.Contains(log.String(), "limit=9 wanted=25 pool=6") {
		t.Errorf("the pool has %d connections: %s", most, log.String())
	}
	for range 6 {
		var conn *pgxpool.Conn
		if conn, err = pool.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}
}
