package docstest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	commandsPage = "docs/reference/commands.md"

	// commandsReference starts the part of the page that the program generates.
	commandsReference = "## All commands\n"
)

// TestCommands compares the reference on the page with the help of the program: every command with
// all of its flags, and no others. UPDATE_GOLDEN=1 writes the page.
func TestCommands(t *testing.T) {
	t.Parallel()
	program := build(t, "./cmd/tidemark")
	var want strings.Builder
	want.WriteString(commandsReference)
	n := writeHelp(t, &want, program)
	if n < 20 {
		t.Fatalf("found %d commands, there are more:\n%s", n, want.String())
	}
	path := filepath.Join(root, commandsPage)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	prose, got, found := strings.Cut(string(content), commandsReference)
	if !found {
		t.Fatalf("%s has no %q", commandsPage, commandsReference)
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(prose+want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got = commandsReference + got; got != want.String() {
		t.Errorf("%s: the reference is not what the commands say (UPDATE_GOLDEN=1 writes it): %s", commandsPage,
			difference(got, want.String()))
	}
}

// writeHelp writes the help of a command and of its subcommands, and returns their number.
func writeHelp(t *testing.T, page *strings.Builder, program string, words ...string) (n int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, append(words, "--help")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v --help: %v\n%s", words, err, out)
	}
	help := string(out)
	var below [][]string
	for _, section := range []string{"Available Commands:\n", "Programs:\n", "Operators' commands:\n"} {
		below = append(below,
			regexp.MustCompile(`(?m)^  (\S+) +\S`).FindAllStringSubmatch(between(help, section, "\n\n"), -1)...)
	}
	if len(below) == 0 || len(words) == 0 {
		page.WriteString("\n### `" + strings.Join(append([]string{"tidemark"}, words...), " ") + "`\n\n```text\n" +
			strings.TrimSpace(help) + "\n```\n")
		n = 1
	}
	for _, m := range below {
		if m[1] != "help" && m[1] != "completion" {
			n += writeHelp(t, page, program, append(words[:len(words):len(words)], m[1])...)
		}
	}
	return n
}

// between returns the text between begin and end, or "" without begin.
func between(s, begin, end string) string {
	_, s, _ = strings.Cut(s, begin)
	s, _, _ = strings.Cut(s, end)
	return s
}

// difference returns the first lines that differ.
func difference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "got\n" + g[i] + "\nwant\n" + w[i]
		}
	}
	return "one of them ends early"
}
