package doctor_test

import (
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestSettingsThatKeepThePoolerFromSightAreNamed(t *testing.T) {
	t.Parallel()
	url := pgtest.With(pgtest.URL(t), "standard_conforming_strings", "on")
	for setting, value := range map[string]string{"standard_conforming_strings": "off", "client_encoding": "LATIN1"} {
		findings, err := doctor.Run(t.Context(), open(t, pgtest.With(url, setting, value)), doctor.Options{})
		if err != nil {
			t.Fatal(err)
		}
		f := byCheck(t, findings)["pooler"]
		if f.Status != doctor.Warn || !strings.Contains(f.Detail, setting+"="+value) ||
			!strings.Contains(f.Remedy, "SET "+setting) || strings.Contains(f.Remedy, "busy") {
			t.Errorf("%s=%s: %+v", setting, value, f)
		}
	}
}
