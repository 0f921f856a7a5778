package pages_test

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// post sends the form of an act and returns the status and the redirect.
func (w *world) post(t *testing.T, role auth.Role, path string, form url.Values) (int, string) {
	t.Helper()
	status, header := w.send(t, role, path, form)
	return status, header.Get("Location")
}

// send sends the form of an act as a role and returns the status and the headers.
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
		for range 2 { // the same form twice starts one operation
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
		regexp.MustCompile(`>Failed\s*<span class="count bad">1<span\s+class="hidden-text"> problem</span>`),
		regexp.MustCompile(`>Publishers\s*<span class="count">1<span\s+class="hidden-text"> problem</span>`),
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
	const filter = "?publisher=billing&type=cursed"
	const page, resolve = "/act/retryManyParked" + filter, "/act/resolveManyParked" + filter
	if status, body := w.get(t, auth.Operator, page); status != http.StatusOK ||
		!strings.Contains(body, "<code>retry parked 10</code>") || !strings.Contains(body, "retry 10 events") {
		t.Errorf("the page answers %d, without what is to be typed", status)
	}
	if status, _ := w.get(t, auth.Operator, resolve); status != http.StatusForbidden {
		t.Errorf("an operator who looks at resolving is answered %d", status)
	}
	for role, resolves := range map[auth.Role]bool{auth.Viewer: false, auth.Operator: false, auth.Admin: true} {
		_, body := w.get(t, role, "/parked"+filter)
		if strings.Contains(body, html.EscapeString(resolve)) != resolves ||
			strings.Contains(body, html.EscapeString(page)) != (role > auth.Viewer) {
			t.Errorf("the list leads a person of role %s to acts that are not for it, or not to those that are", role)
		}
	}
	form := url.Values{
		"publisher": {"billing"}, "type": {"cursed"}, "back": {page}, "key": {uuid.NewString()}, "reason": {"the test"},
		"confirm": {"retry 10"}, "as_of": {time.Now().UTC().Format(time.RFC3339Nano)},
	}
	if status, to := w.post(t, auth.Operator, "/act/retryManyParked", form); status != http.StatusSeeOther || to != page ||
		w.operations(t, "retry_parked") != 0 {
		t.Errorf("what was not confirmed answers %d, leads to %q, and begins %d operations", status, to,
			w.operations(t, "retry_parked"))
	}
	form.Set("confirm", "retry parked 10")
	if status, to := w.post(t, auth.Operator, "/act/retryManyParked", form); status != http.StatusSeeOther || to != page ||
		w.operations(t, "retry_parked") != 1 {
		t.Errorf("what was confirmed answers %d, leads to %q, and begins %d operations", status, to,
			w.operations(t, "retry_parked"))
	}
	form.Set("confirm", "resolve parked 10")
	form.Set("key", uuid.NewString())
	if status, _ := w.post(t, auth.Operator, "/act/resolveManyParked", form); status != http.StatusForbidden ||
		w.operations(t, "resolve_parked") != 0 {
		t.Errorf("an operator who resolves is answered %d", status)
	}
}

// TestAnActOnManyIsConfirmedWhileFailuresArrive covers failures that arrive after the count. It
// also covers a reason that was typed before the act was refused.
func TestAnActOnManyIsConfirmedWhileFailuresArrive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const act = "/act/resolveManyFailed"
	const page = act + "?projection=scores&type=entombed"
	hidden := func(body string) url.Values {
		form := url.Values{"back": {page}, "key": {uuid.NewString()}, "reason": {"the door stays shut"}}
		_, sent, _ := strings.Cut(body, `method="post" action="`+act+`"`)
		sent, _, _ = strings.Cut(sent, "</form>")
		input := regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)
		for _, m := range input.FindAllStringSubmatch(sent, -1) {
			if m[1] != "key" {
				form.Set(m[1], html.UnescapeString(m[2]))
			}
		}
		return form
	}
	_, body := w.get(t, auth.Admin, page)
	form := hidden(body)
	if form.Get("as_of") == "" || form.Get("type") != "entombed" || !strings.Contains(body, "<code>resolve 6</code>") {
		t.Fatalf("the form is %v", form)
	}
	w.append(t, "tomb-new", event.Event{Type: "entombed", AggregateID: "imp", Payload: json.RawMessage(`{}`)})
	p, err := projector.New(projector.Config{Pool: w.pool, Projections: worldCode()})
	if err == nil {
		_, err = p.Drain(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	form.Set("confirm", "resolve")
	_, header := w.send(t, auth.Admin, act, form)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.base+page, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+w.token[auth.Admin])
	for _, c := range (&http.Response{Header: header}).Cookies() {
		request.AddCookie(c)
	}
	if _, body = do(t, request); !strings.Contains(body, `value="the door stays shut"`) ||
		!strings.Contains(body, "<code>resolve 7</code>") {
		t.Error("after the act was refused the reason is lost, or the page does not count anew")
	}
	form.Set("confirm", "resolve 6")
	if status, _ := w.post(t, auth.Admin, act, form); status != http.StatusSeeOther || w.operations(t, "resolve") != 1 {
		t.Errorf("what was counted before answers %d, and begins %d operations", status, w.operations(t, "resolve"))
	}
	if n := w.scan(t, `SELECT total::text FROM tidemark.operations WHERE kind = 'resolve'`); n != "6" {
		t.Errorf("the act is about %s failed campaigns, 6 were confirmed", n)
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
