package main

import (
	"context"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		os.Exit(play(ctx, role))
	}
	pgtest.Main(m)
}

func TestEachOrderHasOneInvoiceWhateverIsKilled(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	right, err := run(t.Context(), config{
		server: pgtest.Empty(t), orders: 150, kills: 5, every: 200 * time.Millisecond,
		out: &out,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !right ||
		!regexp.MustCompile(`^150 orders, 5 processes killed, \d+ deliveries of which \d+ were repeats: 150 invoices, 0 missing, 0 twice, 0 accounts wrong\n$`).MatchString(out.String()) {
		t.Error(out.String())
	}
	t.Log(out.String())
}
