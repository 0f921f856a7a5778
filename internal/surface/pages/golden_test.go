package pages_test

import (
	"flag"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/auth"
)

// TestPagesAreAsTheyWereReviewed compares the pages' HTML with the files of testdata, so that a
// reviewer sees a change. The flag -update writes the files.
func TestPagesAreAsTheyWereReviewed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grow(t)
	for _, page := range []struct{ name, path string }{
		{"overview", "/"},
		{"campaigns", "/campaigns"},
		{"campaign", "/campaign?id=oak&seq=5"},
		{"event", "/event?campaign=oak&seq=3"},
		{"failed", "/failed"},
		{"failed_all", "/failed?of=all"},
		{"failed_campaign", "/failed/campaign?projection=scores&campaign=tomb-0"},
		{"failed_campaign_panic", "/failed/campaign?projection=scores&campaign=cave-00"},
		{"parked_list", "/parked?topic=campaign-events&publisher=billing"},
		{"event_parked", "/event?campaign=cave-00&seq=4"},
		{"requeue_many", "/act/requeueManyFailed?projection=scores"},
		{"resolve_many_parked", "/act/resolveManyParked?publisher=billing&type=cursed"},
		{"projections", "/projections"},
		{"publishers", "/publishers"},
		{"publishers_pair", "/publishers/pair?topic=campaign-events&publisher=billing"},
		{"reset_publisher", "/act/resetPublisher?topic=campaign-events&publisher=billing&position=3"},
		{"publishers_pair_paused", "/publishers/pair?topic=campaign-events&publisher=audit-trail"},
		{"workers", "/workers"},
		{"workers_leases", "/workers?of=leases&group=default"},
		{"workers_pauses", "/workers?of=pauses"},
		{"audit", "/audit"},
		{"audit_failures", "/audit?of=failures&campaign=tomb-0"},
		{"audit_erasures", "/audit?of=erasures"},
		{"erase_campaign", "/act/eraseCampaign?campaign=oak"},
		{"erase_subjects", "/act/eraseSubjects"},
		{"settings", "/settings"},
	} {
		body := w.settled(t, page.path)
		got, file := lasting(t, body), filepath.Join("testdata", page.name+".html")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got == string(want) {
			continue
		}
		is, was := strings.Split(got, "\n"), strings.Split(string(want), "\n")
		for i := range is {
			if i >= len(was) || is[i] != was[i] {
				t.Errorf("%s is not as in %s, line %d:\n%s\n(go test -run Reviewed ./internal/surface/pages -update writes it anew, "+
					"to be reviewed)", page.path, file, i+1, is[i])
				break
			}
		}
		if len(is) < len(was) {
			t.Errorf("%s has %d lines, %s has %d", page.path, len(is), file, len(was))
		}
	}
}

// grow acts as people on call do. It ages all rows, so no time limit passes between two reads.
func (w *world) grow(t *testing.T) {
	t.Helper()
	for _, act := range []struct {
		path string
		form url.Values
	}{
		{"/act/requeueFailed", url.Values{"projection": {"scores"}, "campaign": {"tomb-5"}, "reason": {"the door is open"}}},
		{"/act/pausePublisher", url.Values{
			"topic": {"campaign-events"}, "publisher": {"audit-trail"}, "for": {"168h"},
			"reason": {"their maintenance window"},
		}},
		{"/act/pauseProjection", url.Values{
			"group": {"default"}, "projection": {"heroes"}, "for": {"168h"},
			"reason": {"a look at its numbers"},
		}},
	} {
		act.form.Set("key", uuid.NewString())
		if status, _ := w.post(t, auth.Admin, act.path, act.form); status != http.StatusSeeOther {
			t.Fatalf("%s answers %d", act.path, status)
		}
	}
	err := pgx.BeginFunc(t.Context(), w.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(),
			`SET LOCAL session_replication_role = replica; -- what was appended is never changed, but here
			UPDATE tidemark.journal SET recorded_at = recorded_at - interval '1 day',
				occurred_at = occurred_at - interval '1 day';
			UPDATE tidemark.workers SET seen_at = now() + interval '50 seconds' WHERE owner = 'worker-a-1';
			UPDATE tidemark.leases SET owner = 'worker-a-1', generation = 7, expires_at = now() + interval '1 hour'
				WHERE campaign_id = 'oak'`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// settled reads a page until it is complete. Some of it appears only with the worker's second
// round.
func (w *world) settled(t *testing.T, path string) string {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for tick := time.NewTicker(100 * time.Millisecond); ; <-tick.C {
		status, body := w.get(t, auth.Admin, path)
		if status != http.StatusOK {
			t.Fatalf("%s answers %d", path, status)
		}
		if path != "/" || !strings.Contains(body, "not known yet") {
			return body
		}
		if time.Now().After(deadline) {
			t.Fatal("the overview does not say whether the queue drains")
		}
	}
}

//nolint:gochecknoglobals // a flag of the tests
var update = flag.Bool("update", false, "write the pages of testdata anew")

// lasting returns the stable part of a page: its content with one tag a line, without times, ages
// and ids.
func lasting(t *testing.T, page string) string {
	t.Helper()
	_, content, found := strings.Cut(page, "<main")
	content, _, closed := strings.Cut(content, "</main>")
	if !found || !closed {
		t.Fatal("the page has no content")
	}
	content = "<main" + content
	for _, r := range []struct{ pattern, by string }{
		{`(?s)<time[^>]*>.*?</time>`, `<time/>`},
		{`(?s)(<pre[^>]*>)goroutine .*?</pre>`, `${1}STACK</pre>`},
		{`(?s)<li>(?:[^<]|<[^/l]|</[^l])*?class="what"><bdi class="break">(?:Postgres|journal|table)\b.*?</li>`, ``}, // others use the server too
		{`[0-9]+ problems?`, `PROBLEMS`},
		{`alive, (of [0-9]+ known|[0-9]+ events a second)`, `RATE`},
		{`[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+(Z|[+-][0-9:]+)?`, `INSTANT`},
		{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, `UUID`},
		{`>[^<>/]+/UUID<`, `>WORKER<`},
		{`\b[0-9a-f]{12}\b`, `FINGERPRINT`},
		{`\b[0-9]+ (ms|s|min|h|d)\b( [0-9]+ (s|min|h)\b)?`, `AGE`},
		{`(name="key" value=")[^"]*`, `${1}KEY`},
		{`(database user <bdi class="break">)[^<]*`, `${1}USER`},
		{`(?m)\s*\n\s*`, "\n"},
		{`><`, ">\n<"},
	} {
		content = regexp.MustCompile(r.pattern).ReplaceAllString(content, r.by)
	}
	return content + "\n"
}
