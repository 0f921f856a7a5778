package monitoring_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/freeport"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// server starts a Prometheus with our rules that scrapes a worker every second, and returns its
// address. It stops at the end of the test.
func server(t *testing.T, worker string) string {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("no prometheus: %v; scripts/need.sh promtool installs it", err)
	}
	port, err := freeport.TCP(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ours, err := filepath.Abs(prometheusDir)
	if err != nil {
		t.Fatal(err)
	}
	dir, addr := t.TempDir(), fmt.Sprintf("127.0.0.1:%d", port)
	target := strings.TrimSuffix(strings.TrimPrefix(worker, "http://"), "/metrics")
	cfg := fmt.Sprintf(`{"global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}, "rule_files": [%q],
		"scrape_configs": [{"job_name": "tidemark", "static_configs": [{"targets": [%q]}]}, {"job_name": "prometheus", "static_configs": [{"targets": [%q]}]}]}`, ours+"/rules/*.yml", target, addr)
	if err := os.WriteFile(dir+"/prometheus.yml", []byte(cfg), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, path, "--config.file="+dir+"/prometheus.yml", "--storage.tsdb.path="+dir+"/data",
		"--web.listen-address="+addr, "--log.level=warn")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := cmd.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("prometheus ended with: %v", err)
		}
	})
	return "http://" + addr
}

// ask calls the API of a Prometheus and returns the data.
func ask[T any](ctx context.Context, base, path string) (data T, err error) {
	var answer struct{ Data T }
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		return data, err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return data, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return data, fmt.Errorf("%s is answered %s", path, response.Status)
	}
	err = json.NewDecoder(response.Body).Decode(&answer)
	return answer.Data, err
}

// evaluated is a rule as Prometheus reports it.
type evaluated struct {
	Name, Health, LastError, State string
	LastEvaluation                 time.Time
}

// value returns the value of an expression, "" if it has none.
func value(ctx context.Context, base, expr string) (string, error) {
	found, err := ask[struct{ Result []struct{ Value [2]any } }](ctx, base, "/api/v1/query?query="+url.QueryEscape(expr))
	if err != nil || len(found.Result) == 0 {
		return "", err
	}
	return fmt.Sprint(found.Result[0].Value[1]), nil
}

func TestAPrometheusScrapesAWorkerAndEvaluatesEveryRule(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	metrics := worker(t, pool, "default", "sessions", "--publish-url", "memory://memory")
	appendEvents(t, pool, "oak", "noted", "poison", "noted")
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	// A campaign dies while Prometheus watches, which TidemarkDeadGrowing must detect.
	for dead := func() bool { return len(scrape(t, metrics)["tidemark_failed_campaigns"].GetMetric()) > 0 }; !dead(); {
		select {
		case <-ctx.Done():
			t.Fatal("no pair has died")
		case <-time.After(50 * time.Millisecond):
		}
	}
	base := server(t, metrics)
	// Wait for three evaluations after the worker's metrics have arrived: the first may have seen
	// nothing.
	scraped := time.Time{}
	look := func() error {
		targets, err := ask[struct {
			ActiveTargets []struct{ Health, LastError, ScrapePool string }
		}](ctx, base, "/api/v1/targets")
		if err != nil {
			return err
		}
		for _, target := range targets.ActiveTargets {
			if target.Health != "up" {
				return fmt.Errorf("target %s is %s: %s", target.ScrapePool, target.Health, target.LastError)
			}
		}
		if dead, err := value(ctx, base,
			`sum(job_consumer_group_projection:tidemark_dead_campaigns:sum{job="tidemark"})`); err != nil || dead != "1" {
			return fmt.Errorf("%q pairs are dead, %w; want 1", dead, err)
		}
		if scraped.IsZero() {
			scraped = time.Now()
		}
		all, err := ask[struct{ Groups []struct{ Rules []evaluated } }](ctx, base, "/api/v1/rules")
		if err != nil {
			return err
		}
		n := 0
		for _, group := range all.Groups {
			for _, r := range group.Rules {
				n++
				if r.LastError != "" || r.Health == "err" {
					t.Fatalf("%s cannot be evaluated: %s", r.Name, r.LastError)
				}
				if r.Health != "ok" || r.LastEvaluation.Before(scraped.Add(3*time.Second)) {
					return fmt.Errorf("%s is %s, evaluated at %s", r.Name, r.Health, r.LastEvaluation)
				}
				if r.State == "firing" {
					t.Fatalf("%s fires, of a worker with which all is well but for one pair that has just died", r.Name)
				}
			}
		}
		if want := len(rules(t)); n != want {
			return fmt.Errorf("it has %d rules, want %d", n, want)
		}
		if failures, err := value(ctx, base, `sum(prometheus_rule_evaluation_failures_total)`); err != nil ||
			failures != "0" {
			return fmt.Errorf("%q evaluations have failed, %w", failures, err)
		}
		return nil
	}
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	for err := look(); err != nil; err = look() {
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-ticks.C:
		}
	}
}
