package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func TestACatalogueIsCheckedBeforeItIsDeployed(t *testing.T) {
	t.Parallel()
	pool, _ := played(t)
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := file("first.yaml", "types:\n  scored: {}\n  noted: {}\n  left: {}\n")
	second := file("second.yaml", "types:\n  scored: {version: 2, upcast: {1: [{default: {bonus: 0}}]}}\n  noted: {}\n  left: {}\n")
	third := file("third.yaml", "types:\n  scored: {version: 2}\n  won: {}\n")
	for _, tt := range []struct {
		args string
		code int
		want []string
	}{
		{first + " " + first, cli.ExitOK, []string{"say the same"}},
		{first + " " + second, cli.ExitOK, []string{"scored\tbackward\tit reads versions 1 to 2, and read 1 to 1"}},
		{second + " " + third, cli.ExitDifferences, []string{"scored\tforward", "left\tfull\tit is gone", "won\tfull\tit is new"}},
		{second + " " + third + " --json", cli.ExitDifferences, []string{`"compatibility": "forward"`}},
		{first, cli.ExitOK, []string{"all 18 events: 0 do not fit"}},
		{second, cli.ExitOK, []string{"0 do not fit"}},
		{third, cli.ExitDifferences, []string{"scored\t1\tash\t1\tversion is 1", "12 do not fit", "noted, 3 events", "of: won"}},
		{third + " --json", cli.ExitDifferences, []string{`"unused": [`, `"misfits"`}},
		{"", cli.ExitUsage, []string{"which catalogue?"}},
		{first + " --events -1", cli.ExitUsage, []string{"0 or more"}},
		{"nowhere.yaml", cli.ExitUsage, []string{"nowhere.yaml"}},
	} {
		got := execute(t, pool.Config().ConnString(), false, "catalogue check "+tt.args)
		for _, want := range tt.want {
			if got.code != tt.code || !strings.Contains(got.out+got.err, want) {
				t.Errorf("%s: exit code %d:\n%s%s\nwant %d and %q", tt.args, got.code, got.out, got.err, tt.code, want)
			}
		}
	}
}
