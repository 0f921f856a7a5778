package doctor_test

import (
	"testing"

	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestTheDoctorNamesWhatHoldsUpArchives(t *testing.T) {
	t.Parallel()
	const (
		request = `INSERT INTO tidemark.restore_requests (campaign_id, asked_by, asked_at, attempt_at, kept_until)
			VALUES ('oak', 'app', now() - interval `
		policy = `INSERT INTO tidemark.retention (policy, closed_for, event_types, every, rate, error)
			VALUES ('tables', '1 d', '{closed}', '1 h', 1, `
		erasure = `INSERT INTO tidemark.erasures (request, actor, reason, began_at, ended_at)
			VALUES (sha256(''), 'anna', 'r', now() - interval '2 h', `
	)
	for name, c := range map[string]struct {
		sql    string
		status doctor.Status
	}{
		"nothing":                       {`SELECT`, doctor.OK},
		"a request of just now":         {request + `'1 s', now(), NULL)`, doctor.OK},
		"a request that was served":     {request + `'1 h', now(), now())`, doctor.OK},
		"a request that waits":          {request + `'2 min', now(), NULL)`, doctor.Warn},
		"a policy that runs":            {policy + `'')`, doctor.OK},
		"a policy that has stopped":     {policy + `'the disk is full')`, doctor.Warn},
		"an erasure that has ended":     {erasure + `now())`, doctor.OK},
		"an erasure that has not ended": {erasure + `NULL)`, doctor.Warn},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			if _, err := pool.Exec(t.Context(), c.sql); err != nil {
				t.Fatal(err)
			}
			findings, err := doctor.Run(t.Context(), pool, doctor.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if f := byCheck(t, findings)["archive"]; f.Status != c.status {
				t.Errorf("found %+v, want %s", f, c.status)
			}
		})
	}
}
