package monitoring_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const runbooksURL = "https://github.com/tidemark-go/tidemark/blob/main/docs/guides/operations/runbooks.md"

// runbook returns the address of an alert's section.
func runbook(alert string) string { return runbooksURL + "#" + strings.ToLower(alert) }

// runbooks returns the sections of docs/guides/operations/runbooks.md by heading.
func runbooks(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/guides/operations/runbooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, section := range regexp.MustCompile(`(?m)^#+ `).Split(string(page), -1) {
		heading, text, _ := strings.Cut(section, "\n")
		if strings.HasPrefix(heading, "Tidemark") {
			sections[heading] = text
		}
	}
	return sections
}

func TestRunbooksAnswerTheSameQuestions(t *testing.T) {
	t.Parallel()
	reference, err := os.ReadFile(filepath.Join(root, "docs/reference/commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	critical := map[string]bool{}
	for _, r := range rules(t) {
		critical[r.Alert] = r.Labels["severity"] == "critical"
	}
	for alert, text := range runbooks(t) {
		rest := text
		for _, question := range []string{
			"**Means.**", "**Users notice**", "**Look.**", "**Repair.**",
			"**Page on-call**: ",
		} {
			_, after, found := strings.Cut(rest, question)
			if !found {
				t.Errorf("%s does not say %s, or not in its place", alert, question)
			}
			rest = after
		}
		if yes := strings.HasPrefix(rest, "yes"); yes != critical[alert] {
			t.Errorf("%s pages on-call by its severity: %t; the runbook says %s", alert, critical[alert],
				strings.TrimSpace(rest))
		}
		for _, m := range regexp.MustCompile("`tidemark ([a-z -]+?)( --[^`]*| [A-Z][^`]*)?`").FindAllStringSubmatch(text,
			-1) {
			if !strings.Contains(string(reference), "### `tidemark "+m[1]+"`\n") {
				t.Errorf("%s names `tidemark %s`, and there is no such command", alert, m[1])
			}
		}
	}
}
