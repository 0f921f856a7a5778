package monitoring_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"
)

// promtool runs promtool and fails the test if it reports an error.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatalf("no promtool: %v; scripts/need.sh promtool installs it", err)
	}
	if out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

func TestPromtool(t *testing.T) {
	t.Parallel()
	t.Run("takes the configuration", func(t *testing.T) {
		t.Parallel()
		promtool(t, "check", "config", prometheusDir+"/prometheus.yml")
	})
	t.Run("takes the rules", func(t *testing.T) {
		t.Parallel()
		for path := range files(t, prometheusDir+"/rules/*.yml") {
			promtool(t, "check", "rules", "--lint=all", "--lint-fatal", path)
		}
	})
	t.Run("sees alerts fire when they are to, and then only", func(t *testing.T) {
		t.Parallel()
		for path := range files(t, prometheusDir+"/tests/*.yml") {
			promtool(t, "test", "rules", path)
		}
	})
}

func TestEachAlertIsSeenToFireAndNotToFire(t *testing.T) {
	t.Parallel()
	fires, silent := map[string]bool{}, map[string]bool{}
	for path, content := range files(t, prometheusDir+"/tests/*.yml") {
		var file struct {
			Tests []struct {
				Alerts []struct {
					Name string `yaml:"alertname"`
					Exp  []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		if err := yaml.Unmarshal(content, &file); err != nil {
			t.Fatalf("%s: %v", filepath.Base(path), err)
		}
		for _, test := range file.Tests {
			for _, a := range test.Alerts {
				if len(a.Exp) > 0 {
					fires[a.Name] = true
				} else {
					silent[a.Name] = true
				}
			}
		}
	}
	for _, r := range rules(t) {
		if r.Alert != "" && (!fires[r.Alert] || !silent[r.Alert]) {
			t.Errorf("%s is seen to fire: %t, and not to: %t", r.Alert, fires[r.Alert], silent[r.Alert])
		}
	}
}
