package pages_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/auth"
)

// post sends the form of an act, and answers where it leads.
func (w *world) post(t *testing.T, role auth.Role, path string, form url.Values) (int, string) {
	t.Helper()
	status, header := w.send(t, role, path, form)
	return status, header.Get("Location")
}

// send sends the form of an act as a role, and answers the status and the headers.
func (w *world) send(t *testing.T, role auth.Role, path string, form url.Values) (int, http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+w.token[role])
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header
}

func (w *world) operations(t *testing.T, kind string) (n int) {
	t.Helper()
	if err := w.pool.QueryRow(t.Context(), "SELECT count(*) FROM tidemark.operations WHERE kind = $1",
		kind).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLongActsBeginWithAFormThatIsConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		path, kind, confirm string
		form                url.Values
	}{
		{"/act/repairGaps", "repair_gaps", "default", url.Values{"group": {"default"}}},
		{
			"/act/republish", "republish", "billing",
			url.Values{
				"topic": {"campaign-events"}, "publisher": {"billing"}, "campaign": {"oak"}, "from": {"2"},
				"until": {"5"},
			},
		},
	} {
		const back = "/projections?of=mine"
		c.form.Set("back", back)
		c.form.Set("key", uuid.NewString())
		c.form.Set("reason", "the test")
		c.form.Set("confirm", "something else")
		if status, to := w.post(t, auth.Operator, c.path, c.form); status != http.StatusSeeOther || to != back ||
			w.operations(t, c.kind) != 0 {
			t.Errorf("%s without its confirmation answers %d, leads to %q, and begins %d operations", c.path, status, to,
				w.operations(t, c.kind))
		}
		c.form.Set("confirm", c.confirm)
		if status, _ := w.post(t, auth.Viewer, c.path, c.form); status != http.StatusForbidden ||
			w.operations(t, c.kind) != 0 {
			t.Errorf("a viewer's %s answers %d and begins %d operations", c.path, status, w.operations(t, c.kind))
		}
		for range 2 { // the same form twice begins one
			if status, to := w.post(t, auth.Operator, c.path, c.form); status != http.StatusSeeOther || to != back {
				t.Errorf("%s answers %d and leads to %q", c.path, status, to)
			}
		}
		if n := w.operations(t, c.kind); n != 1 {
			t.Errorf("%s has begun %d operations, want 1", c.path, n)
		}
	}
}

func TestTheMenuCountsWhatThereIsToLookAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := []*regexp.Regexp{
		regexp.MustCompile(`<span class="count bad">16<span\s+class="hidden-text"> dead</span>`),
		regexp.MustCompile(`<span class="count bad">10<span\s+class="hidden-text"> parked</span>`),
	}
	deadline := time.Now().Add(2 * time.Minute)
	for tick := time.NewTicker(50 * time.Millisecond); len(want) > 0; <-tick.C {
		_, body := w.get(t, auth.Viewer, "/settings")
		for len(want) > 0 && want[0].MatchString(body) {
			want = want[1:]
		}
		if time.Now().After(deadline) {
			_, nav, _ := strings.Cut(body, `id="menu"`)
			nav, _, _ = strings.Cut(nav, "</nav>")
			t.Fatalf("%q is missing in %s", want, nav)
		}
	}
}

func TestAllParkedEventsThatAFilterChoosesAreSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const page = "/bulk/parked?kind=retry_parked&publisher=billing&type=cursed"
	if status, body := w.get(t, auth.Operator, page); status != http.StatusOK ||
		!strings.Contains(body, "<code>retry parked 10</code>") || strings.Contains(body, "resolve_parked") {
		t.Errorf("the page answers %d, without what is to be typed, or with what is an admin's", status)
	}
	if _, body := w.get(t, auth.Admin, page); !strings.Contains(body, "resolve_parked") {
		t.Error("an admin cannot resolve")
	}
	form := url.Values{
		"kind": {"retry_parked"}, "publisher": {"billing"}, "type": {"cursed"}, "back": {page},
		"key": {uuid.NewString()}, "reason": {"the test"}, "confirm": {"retry 10"},
		"as_of": {time.Now().UTC().Format(time.RFC3339Nano)},
	}
	if status, to := w.post(t, auth.Operator, "/bulk/parked/start", form); status != http.StatusSeeOther || to != page ||
		w.operations(t, "retry_parked") != 0 {
		t.Errorf("what was not confirmed answers %d, leads to %q, and begins %d operations", status, to,
			w.operations(t, "retry_parked"))
	}
	form.Set("confirm", "retry parked 10")
	if status, to := w.post(t, auth.Operator, "/bulk/parked/start", form); status != http.StatusSeeOther || to != page ||
		w.operations(t, "retry_parked") != 1 {
		t.Errorf("what was confirmed answers %d, leads to %q, and begins %d operations", status, to,
			w.operations(t, "retry_parked"))
	}
	form.Set("kind", "resolve_parked")
	form.Set("confirm", "resolve parked 10")
	form.Set("key", uuid.NewString())
	if status, _ := w.post(t, auth.Operator, "/bulk/parked/start", form); status != http.StatusForbidden ||
		w.operations(t, "resolve_parked") != 0 {
		t.Errorf("an operator who resolves is answered %d", status)
	}
}

func TestAnEventOfATypeThatAProjectionDoesNotApplyIsNotForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, body := w.get(t, auth.Viewer, "/event?campaign=oak&seq=1") // hero_joined, which scores does not apply
	at := regexp.MustCompile(`>\s*scores\s*<`).FindStringIndex(body)
	if at == nil {
		t.Fatalf("the event's page does not name scores:\n%s", body)
	}
	row, _, _ := strings.Cut(body[at[0]:], "</tr>")
	if !strings.Contains(row, "not for it") || strings.Contains(row, "done") {
		t.Errorf("the event's page says of scores\n%s", row)
	}
}
