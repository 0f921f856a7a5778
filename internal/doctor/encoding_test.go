package doctor_test

import (
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

func TestTheDoctorNamesAnEncodingThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	const ofDatabase = `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET client_encoding = ''%s''',
		current_database(), '`
	const ofRole = `DO $$ BEGIN
		BEGIN
			CREATE ROLE encoding_reader;
		EXCEPTION WHEN duplicate_object OR unique_violation THEN
		END;
		EXECUTE format('ALTER ROLE encoding_reader IN DATABASE %I SET client_encoding = LATIN1', current_database());
		`
	for name, c := range map[string]struct {
		sql, detail string
		status      doctor.Status
	}{
		"utf8":   {ofDatabase + `UTF-8'); END $$`, "UTF8", doctor.OK},
		"latin1": {ofDatabase + `LATIN1'); END $$`, "client_encoding=LATIN1 by ALTER DATABASE", doctor.Fail},
		"of another role": {
			ofRole + `REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA tidemark FROM public; END $$`, "UTF8", doctor.OK,
		},
		"of a role that appends": {
			ofRole + `GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA tidemark TO encoding_reader; END $$`,
			"client_encoding=latin1 by ALTER ROLE encoding_reader", doctor.Warn,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := healthy(t)
			tally.Exec(t, pool, c.sql)
			findings, err := doctor.Run(t.Context(), pool, doctor.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if f := byCheck(t, findings)["encoding"]; f.Status != c.status || !strings.Contains(f.Detail, c.detail) {
				t.Errorf("found %+v", f)
			}
		})
	}
}
