package command

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func TestTokenCommandsPrintWhatTheGoldenFilesSay(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	for _, tt := range []struct { // not parallel: one after the other
		golden, args string
		terminal     bool
		code         int
	}{
		{"token-list-empty", "token list", true, cli.ExitOK},
		{"token-list-json-empty", "token list --json", false, cli.ExitOK},
		{"token-create", "token create ada --role operator --by bob", true, cli.ExitOK},
		{"token-create-expires", "token create ci --expires 30d --by bob", false, cli.ExitOK},
		{"token-create-taken", "token create ada --by bob", false, cli.ExitConflict},
		{"token-create-role", "token create joe --role king", false, cli.ExitUsage},
		{"token-create-name", "token create a:b", false, cli.ExitFailed},
		{"token-list-terminal", "token list", true, cli.ExitOK},
		{"token-list-pipe", "token list", false, cli.ExitOK},
		{"token-revoke", "token revoke ada --by bob", true, cli.ExitOK},
		{"token-revoke-none", "token revoke ada --by bob", false, cli.ExitFailed},
		{"token-create-json", "token create eve --by bob --json", false, cli.ExitOK},
		{"token-revoke-json", "token revoke eve --by bob --json", false, cli.ExitOK},
		{"token-list-all", "token list --all", true, cli.ExitOK},
		{"token-list-json", "token list --all --json", false, cli.ExitOK},
	} {
		t.Run(tt.golden, func(t *testing.T) {
			got := execute(t, url, tt.terminal, tt.args)
			if got.code != tt.code {
				t.Fatalf("exit code %d, want %d: %s", got.code, tt.code, got.err)
			}
			if strings.HasPrefix(tt.golden, "token-create") && !strings.Contains(tt.args, "--json") &&
				got.code == cli.ExitOK != regexp.MustCompile(`^tmk_[\w-]{43}\n$`).MatchString(got.out) {
				t.Errorf("the token is %q", got.out)
			}
			assertGolden(t, tt.golden, regexp.MustCompile(`tmk_[\w-]+`).ReplaceAllString(timeless(got.out),
				"tmk_TOKEN")+"--- stderr\n"+timeless(got.err))
			if strings.Contains(tt.args, "--json") && !json.Valid([]byte(got.out)) {
				t.Error("this is no JSON")
			}
		})
	}
}
