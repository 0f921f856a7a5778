package pgbouncer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

func TestTheDoctorSeesPgBouncerAndWhatDoesNotGetThrough(t *testing.T) {
	t.Parallel()
	for execMode, want := range map[string]struct {
		status doctor.Status
		detail string
	}{
		"cache_statement": {doctor.Warn, "prepared statements do not get through"},
		"cache_describe":  {doctor.OK, "there is one"},
		"exec":            {doctor.OK, "there is one"},
	} {
		t.Run("with_"+execMode, func(t *testing.T) {
			t.Parallel()
			// Programs ask for this setting.
			address := pgtest.With(startBouncer(t, pgtest.New(t), execMode), "standard_conforming_strings", "on")
			findings, err := doctor.Run(t.Context(), tally.Pool(t, address, "doctor", 4), doctor.Options{})
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(findings, func(f doctor.Finding) bool { return f.Check == "pooler" })
			if at < 0 || findings[at].Status != want.status || !strings.Contains(findings[at].Detail, want.detail) {
				t.Errorf("%+v", findings)
			}
		})
	}
}
