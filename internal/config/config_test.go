package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/config"
)

// parse reads a worker's settings from flags and the test's environment.
func parse(t *testing.T, args ...string) (*config.Worker, error) {
	t.Helper()
	flags := pflag.NewFlagSet("worker", pflag.ContinueOnError)
	worker, set := config.NewWorker(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return worker, set.Finish()
}

func TestWorkerTakesAFlagBeforeTheEnvironmentAndThatBeforeTheDefault(t *testing.T) {
	t.Setenv("TIDEMARK_POLL_INTERVAL", "300ms")
	t.Setenv("TIDEMARK_CLAIM_CAMPAIGNS", "7")
	t.Setenv("TIDEMARK_LISTEN", "false")
	t.Setenv("TIDEMARK_LEASE_TTL", "")
	worker, err := parse(t, "--poll-interval", "5s")
	if err != nil {
		t.Fatal(err)
	}
	if worker.Projector.PollInterval != 5*time.Second || worker.Projector.ClaimCampaigns != 7 || worker.Listen ||
		worker.Projector.LeaseTTL != 30*time.Second {
		t.Errorf("got %+v", worker)
	}
}

func TestWorkerReportsAllMistakesByTheNameThatTheyWereMadeUnder(t *testing.T) {
	t.Setenv("TIDEMARK_LEASE_TTL", "10ms")
	t.Setenv("TIDEMARK_LOG_FORMAT", "xml")
	t.Setenv("TIDEMARK_LISTEN", "perhaps")
	_, err := parse(t, "--group-events", "many")
	if err == nil {
		t.Fatal("no mistake was reported")
	}
	for _, want := range []string{
		`TIDEMARK_LEASE_TTL="10ms" is too short, at least 1s is needed`,
		`TIDEMARK_LOG_FORMAT="xml" must be one of auto, tint, json`,
		`TIDEMARK_LISTEN="perhaps" is neither true nor false`,
		`--group-events="many" is not a whole number`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
}

func TestALongestWaitBelowTheFirstIsRefused(t *testing.T) {
	t.Setenv("TIDEMARK_RETRY_MAX", "2s")
	worker, err := parse(t, "--retry-base", "1m")
	if err != nil {
		t.Fatal(err)
	}
	if err := config.CheckRetries(worker); err == nil || !strings.Contains(err.Error(),
		"TIDEMARK_RETRY_MAX is 2s and TIDEMARK_RETRY_BASE is 1m0s") {
		t.Errorf("got %v", err)
	}
}
