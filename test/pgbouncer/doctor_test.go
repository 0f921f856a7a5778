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
			if f := ofPooler(t, startBouncer(t, pgtest.New(t), execMode)); f.Status != want.status || !strings.Contains(f.Detail, want.detail) {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestTheDoctorNamesFormatsThatPgBouncerDoesNotTrack(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	tally.Exec(t, pool, `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET IntervalStyle = sql_standard', current_database());
		EXECUTE format('ALTER DATABASE %I SET bytea_output = escape', current_database());
		EXECUTE format('ALTER DATABASE %I SET extra_float_digits = -15', current_database());
	END $$`)
	address := startBouncer(t, pool, "cache_describe")
	if f := ofPooler(t, address); f.Status != doctor.OK {
		t.Errorf("values come in binary: %+v", f)
	}
	const want = "IntervalStyle=sql_standard, not postgres, bytea_output=escape, not hex, extra_float_digits=-15, not 1"
	f := ofPooler(t, pgtest.With(address, "default_query_exec_mode", "exec"))
	if f.Status != doctor.Warn || !strings.Contains(f.Detail, want) {
		t.Errorf("values come as text: %+v", f)
	}
}

// ofPooler returns what the doctor says of the PgBouncer at the address.
func ofPooler(t *testing.T, address string) doctor.Finding {
	t.Helper()
	address = pgtest.With(address, "standard_conforming_strings", "on") // as programs ask for
	findings, err := doctor.Run(t.Context(), tally.Pool(t, address, "doctor", 4), doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(findings, func(f doctor.Finding) bool { return f.Check == "pooler" })
	if at < 0 {
		t.Fatalf("%+v", findings)
	}
	return findings[at]
}
