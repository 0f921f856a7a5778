package config_test

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/config"
)

func TestSettingsAreListedWithoutSecrets(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"": "",
		"postgres://ada:s3cret@db:5432/t?x=s3cret": "postgres://db:5432/t",
		"postgres://db/t?password=s3cret":          "postgres://db/t",
		"host=db password=s3cret":                  "(set, and not shown)",
		"postgres://ada:s3cret@db:port/t":          "(set, and not shown)",
	} {
		flags := pflag.NewFlagSet("worker", pflag.ContinueOnError)
		_, set := config.NewWorker(flags)
		if err := flags.Parse([]string{
			"--claim-campaigns", "7", "--database-url", given, "--admin-proxy-secret", "s3cret",
			"--publish-url", "https://hooks.example.com/T0/s3cret#whsec_s3cret",
		}); err != nil {
			t.Fatal(err)
		}
		if err := set.Finish(); err != nil {
			t.Fatal(err)
		}
		shown := map[string]config.Setting{}
		for _, s := range set.List() {
			shown[s.Name] = s
			if strings.Contains(s.Value+s.Usage, "s3cret") {
				t.Errorf("%s shows %q", s.Name, s.Value)
			}
		}
		if got := shown["TIDEMARK_DATABASE_URL"].Value; got != want {
			t.Errorf("%q is shown as %q, want %q", given, got, want)
		}
		if got := shown["TIDEMARK_PUBLISH_URL"].Value; got != "https://hooks.example.com" {
			t.Errorf("a webhook is shown as %q", got)
		}
		if got := shown["TIDEMARK_CLAIM_CAMPAIGNS"]; got.Value != "7" || got.Usage != "campaigns leased by one claim" {
			t.Errorf("got %+v", got)
		}
	}
}
