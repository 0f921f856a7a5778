package config_test

import (
	"slices"
	"testing"

	"github.com/tidemark-go/tidemark/internal/config"
)

func TestAVariableThatNothingReadsIsNamedWithTheOneMostLikeIt(t *testing.T) {
	t.Parallel()
	got := config.Stray([]string{
		"HOME=/root", "TIDEMARK_DATABASE_URL=x", "TIDEMARK_DATABSE_URL=x", "TIDEMARK_POL_INTERVAL=2s",
		"TIDEMARK_LEASE_TTL=", "TIDEMARK_TEST_DATABASE_URL=x", "TIDEMARK_BENCH_DATABASE_URL=x",
		"TIDEMARK_POSTGRES_BIN=x", "TIDEMARK_SERVICE_HOST=10.0.0.1", "TIDEMARK_WORKER_SERVICE_PORT_HTTP=80",
		"TIDEMARK_WORKER_PORT=tcp://10.0.0.1:80", "TIDEMARK_PORT_80_TCP_ADDR=10.0.0.1",
	})
	want := []string{
		"TIDEMARK_DATABSE_URL is set, but it is not a setting; the closest is TIDEMARK_DATABASE_URL",
		"TIDEMARK_POL_INTERVAL is set, but it is not a setting; the closest is TIDEMARK_POLL_INTERVAL",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
