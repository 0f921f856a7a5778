package app

import (
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/config"
)

func TestTheProjectorIsToldWhatTheEnvironmentSays(t *testing.T) {
	t.Setenv("TIDEMARK_RETRY_ATTEMPTS", "3")
	t.Setenv("TIDEMARK_RETRY_BASE", "2s")
	t.Setenv("TIDEMARK_RETRY_MAX", "4s")
	t.Setenv("TIDEMARK_FAILURE_LOG_RETENTION", "48h")
	t.Setenv("TIDEMARK_GAP_RATE", "0")
	settings, set := config.NewWorker(pflag.NewFlagSet("worker", pflag.ContinueOnError))
	if err := set.Finish(); err != nil {
		t.Fatal(err)
	}
	cfg := projectorConfig(*settings)
	if p := cfg.OnFailure; p.Attempts != 3 || p.Base != 2*time.Second || p.Max != 4*time.Second {
		t.Errorf("the policy is %+v", p)
	}
	if cfg.FailureLogRetention != 48*time.Hour || cfg.GapRate >= 0 {
		t.Errorf("the log is kept for %v, gaps are looked for in %d campaigns a second", cfg.FailureLogRetention, cfg.GapRate)
	}
}
