package migrations_test

import (
	"errors"
	"testing"

	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// A dump of the schema alone has no goose_db_version. A later `migrate up` of an older release may have
// made it again, empty.
func TestASchemaWithoutItsVersionsIsRecognised(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"no table":       "DROP TABLE public.goose_db_version",
		"an empty table": "DELETE FROM public.goose_db_version WHERE version_id > 0",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			url := pool.Config().ConnString()
			tally.Exec(t, pool, change)
			_, statusErr := migrations.Status(t.Context(), url)
			for what, err := range map[string]error{
				"status": statusErr, "check": migrations.Check(t.Context(), pool), "up": migrations.Up(t.Context(), url),
				"down": migrations.Down(t.Context(), url, 0),
			} {
				if !errors.Is(err, migrations.ErrUnversioned) {
					t.Errorf("%s: %v", what, err)
				}
			}
			findings, err := doctor.Run(t.Context(), pool, doctor.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range findings {
				if f.Check == "schema" && (f.Status != doctor.Fail || f.Remedy != "restore public.goose_db_version too") {
					t.Errorf("doctor says %+v", f)
				}
			}
		})
	}
}
