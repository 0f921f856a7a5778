package sqlfile

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

func TestLoadReadsPolicies(t *testing.T) {
	t.Parallel()
	code, err := loadText("-- on failure: retry, attempts 5, base 2s, max 1m, factor 3, timeout " +
		"10s\n" + sessionsHead + `
-- on: session_started
INSERT INTO sessions (campaign_id) VALUES (event.campaign_id);
-- on: session_ended, session_aborted
-- On failure : skip
DELETE FROM sessions;
-- on: noted
-- on failure: pause
DELETE FROM sessions;
`)
	if err != nil {
		t.Fatal(err)
	}
	spec := code.Spec()
	want := projection.Policy{
		Action: projection.ActionRetry, Attempts: 5, Base: 2 * time.Second, Max: time.Minute,
		Factor: 3, Timeout: 10 * time.Second,
	}
	if spec.OnFailure != want {
		t.Errorf("got %+v, want %+v", spec.OnFailure, want)
	}
	of := map[string]projection.Policy{
		"session_ended":   {Action: projection.ActionSkip},
		"session_aborted": {Action: projection.ActionSkip}, "noted": {Action: projection.ActionPause},
	}
	if !maps.Equal(spec.OnFailureOf, of) {
		t.Errorf("got %+v, want %+v", spec.OnFailureOf, of)
	}
	if _, err := projector.New(projector.Config{Projections: []projection.Projection{code}}); err == nil ||
		strings.Contains(err.Error(), "OnFailure") {
		t.Errorf("New does not take them: %v", err)
	}
}

func TestLoadReportsMistakesInPolicies(t *testing.T) {
	t.Parallel()
	tests := []struct{ header, want string }{
		{
			"-- on failure: again",
			`s.sql:1: on failure: "again": write retry, dead, skip or pause, then settings such as attempts 5, base 2s`,
		},
		{"-- on failure: retry attempts 5", `s.sql:1: on failure: "retry attempts 5": write retry`},
		{"-- on failure: retry, attempts", `s.sql:1: on failure: "attempts": write a name and a value, as in base 2s`},
		{
			"-- on failure: retry, patience 3",
			`s.sql:1: on failure: unknown setting "patience": there are attempts, base, max, factor, timeout`,
		},
		{"-- on failure: retry, attempts 0", `s.sql:1: attempts "0": a whole number from 1`},
		{"-- on failure: retry, base 5", `s.sql:1: base "5": a time such as 500ms, 2s, 5m or 1h`},
		{"-- on failure: retry, factor many", `s.sql:1: factor "many": a number such as 1.5`},
		{"-- on failure: retry, base 1h, max 1m", `s.sql:1: on failure: max is 1m0s: use at least base, which is 1h0m0s`},
		{"-- on failure: retry\n-- on failure: dead", `s.sql:2: a second policy (the first is in line 1)`},
	}
	for _, test := range tests {
		_, err := loadText(test.header + "\n" + sessionsHead + "-- on: noted\nDELETE FROM sessions;")
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\ngot  %v\nwant %s", test.header, err, test.want)
		}
	}
	_, err := loadText(sessionsHead + "-- on: noted\n-- on failure: skip\n-- on failure: dead\nDELETE FROM sessions;")
	if want := "s.sql:10: a second policy for noted"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
