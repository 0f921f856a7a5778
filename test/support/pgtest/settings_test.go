package pgtest_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const formats = `SELECT ARRAY[current_setting('TimeZone'), current_setting('DateStyle'), current_setting('IntervalStyle'),
	current_setting('bytea_output'), current_setting('client_encoding'), current_setting('standard_conforming_strings'),
	current_setting('extra_float_digits')]`

func settings(t *testing.T, url string) (values []string) {
	t.Helper()
	if err := connect(t, url).QueryRow(t.Context(), formats).Scan(&values); err != nil {
		t.Fatal(err)
	}
	return values
}

func TestDatabasesHaveHostileSettings(t *testing.T) {
	t.Parallel()
	want := []string{"Pacific/Chatham", "SQL, DMY", "sql_standard", "escape", "LATIN1", "off", "-15"}
	migrated := pgtest.URL(t)
	urls := map[string]string{
		"migrated": migrated, "copied": pgtest.CopyURL(t, pgtest.URL(t)), "empty": pgtest.Empty(t),
		"of a server of its own": pgtest.Server(t).URL(),
	}
	plain := os.Getenv("TIDEMARK_TEST_DEFAULTS") == "1"
	for name, url := range urls {
		if got := settings(t, url); slices.Equal(got, want) == plain {
			t.Errorf("the database that is %s has %v", name, got)
		}
	}
	var got []string
	if err := pgtest.New(t).QueryRow(t.Context(), formats).Scan(&got); err != nil {
		t.Fatal(err)
	}
	want[4] = "UTF8"
	if slices.Equal(got, want) == plain {
		t.Errorf("the sessions of a pool have %v", got)
	}
}

func TestTheServersOwnSettingsAreLeftOnRequest(t *testing.T) {
	t.Parallel()
	if os.Getenv("TIDEMARK_TEST_DEFAULTS") == "1" {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestDatabasesHaveHostileSettings$")
	cmd.Env = append(os.Environ(), "TIDEMARK_TEST_DEFAULTS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
