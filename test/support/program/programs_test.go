package program_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/test/support/program"
)

// programs returns the stock programs.
func programs() []string {
	return []string{"cmd/tidemark", "cmd/worker", "cmd/migrate", "cmd/maintenance"}
}

func build(t *testing.T, folder string) (path string) {
	t.Helper()
	path, err := program.Build(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func output(t *testing.T, path string, args ...string) (text string, code int) {
	t.Helper()
	command := exec.CommandContext(t.Context(), path, args...)
	out, err := command.CombinedOutput()
	if command.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), command.ProcessState.ExitCode()
}

func TestEachProgramSaysItsVersion(t *testing.T) {
	t.Parallel()
	for _, folder := range programs() {
		name := strings.TrimPrefix(folder, "cmd/")
		if out, code := output(t, build(t, folder), "--version"); code != 0 ||
			!regexp.MustCompile(`^`+name+` version \S+.*, go1\.`).MatchString(out) {
			t.Errorf("%s --version ends with %d: %s", name, code, out)
		}
	}
}

func TestEachLevelOfCommandsNamesTheNearestOne(t *testing.T) {
	t.Parallel()
	tidemark := build(t, "cmd/tidemark")
	for args, want := range map[string]string{
		"outbx":              "did you mean outbox?",
		"wrker":              "did you mean workers or worker?",
		"migrat":             "did you mean migrate?",
		"outbox reprt":       "did you mean report?",
		"publisher pakred":   "did you mean parked?",
		"publisher parked x": "there are list, resolve, retry, show",
		"migrate upp":        "did you mean up?",
		"worker healthchek":  "did you mean healthcheck?",
		"workers drian":      "did you mean drain?",
	} {
		if out, code := output(t, tidemark, strings.Fields(args)...); code != 2 || !strings.Contains(out, want) {
			t.Errorf("tidemark %s ends with %d, want 2 and %q: %s", args, code, want, out)
		}
	}
}

// TestTheOperatorsCommandsAloneAreSmall keeps the shipped cmd/maintenance below 21 MB.
func TestTheOperatorsCommandsAloneAreSmall(t *testing.T) {
	t.Parallel()
	path := build(t, "cmd/maintenance")
	const limit = 21_000_000
	if info, err := os.Stat(path); err != nil || info.Size() >= limit {
		t.Errorf("%s has %d bytes (%v), want fewer than %d", path, info.Size(), err, limit)
	}
	packages, err := exec.CommandContext(t.Context(), "go", "list", "-deps",
		"github.com/tidemark-go/tidemark/cmd/maintenance").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range []string{"kafka", "franz", "nats", "amqp", "rabbitmq", "redis"} {
		if found := regexp.MustCompile(`(?m)^.*\b` + client + `.*$`).Find(packages); found != nil {
			t.Errorf("cmd/maintenance links %s", found)
		}
	}
}
