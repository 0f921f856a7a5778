package pages_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	cdp "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// answer sends a form as a role and returns the page that answers.
func (w *world) answer(t *testing.T, role auth.Role, path string, form url.Values, header ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+w.token[role])
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	return do(t, request)
}

// confirmation returns the hidden fields of the form that a preview ends with.
func confirmation(t *testing.T, page, act string) url.Values {
	t.Helper()
	_, form, found := strings.Cut(page, `<form class="grid" method="post" action="/act/`+act+`"`)
	form, _, closed := strings.Cut(form, "</form>")
	if !found || !closed {
		t.Fatalf("the preview has no form:\n%s", page)
	}
	fields := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`).FindAllStringSubmatch(form, -1) {
		fields.Add(m[1], html.UnescapeString(m[2]))
	}
	fields.Set("reason", "request 4711")
	return fields
}

// certificate returns the certificate that a page hands over.
func certificate(t *testing.T, page string) (c erasure.Certificate) {
	t.Helper()
	m := regexp.MustCompile(`href="data:application/json;base64,([^"]+)" download="certificate.json"`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no certificate is on the page:\n%s", page)
	}
	raw, err := base64.StdEncoding.DecodeString(html.UnescapeString(m[1]))
	if err = errors.Join(err, json.Unmarshal(raw, &c)); err != nil {
		t.Fatal(err)
	}
	return c
}

// accepted fails the test unless verify takes the certificate and finds nothing that is left.
func (w *world) accepted(t *testing.T, c erasure.Certificate) {
	t.Helper()
	p, err := projector.New(projector.Config{Pool: w.pool, Projections: worldCode()})
	if err == nil {
		_, err = p.Drain(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if report, err := erasure.Verify(t.Context(), w.pool, w.pool, c); err != nil || report.Rows > 0 {
		t.Errorf("verify: %+v, %v", report, err)
	}
}

// people appends events about people, each with a payload of theirs.
func (w *world) people(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		w.append(t, "guests", event.Event{
			Type: "guest_came", Tags: []string{"guest=" + name}, Payload: fmt.Appendf(nil, `{"who": "planted-%s"}`, name),
		})
	}
}

const queryErased = `SELECT (SELECT count(*) FROM tidemark.erasures) || ' '
	|| (SELECT count(*) FROM tidemark.journal WHERE metadata ? '$erased')`

func TestACampaignIsErasedByAFormThatHandsOverItsCertificate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, campaign := w.get(t, auth.Admin, "/campaign?id=oak")
	if !strings.Contains(campaign, `href="/act/eraseCampaign?campaign=oak"`) {
		t.Error("the campaign's page does not lead to the form")
	}
	_, preview := w.get(t, auth.Admin, "/act/eraseCampaign?campaign=oak")
	if !strings.Contains(preview, "erase 15 events of campaign oak for good") {
		t.Errorf("the preview does not count:\n%s", preview)
	}
	form := confirmation(t, preview, "eraseCampaign")
	for name, change := range map[string]url.Values{
		"another word":  {"confirm": {"ash"}, "reason": {"a test"}},
		"no word":       {"reason": {"a test"}},
		"without cause": {"confirm": {"oak"}, "reason": {" "}},
	} {
		change["campaign"], change["key"] = form["campaign"], []string{uuid.NewString()}
		tone, said := w.flash(t, "/act/eraseCampaign", change)
		want := `type "oak"`
		if name == "without cause" {
			want = "reason is missing"
		}
		if tone != "bad" || !strings.HasPrefix(said, "Not done.") || !strings.Contains(said, want) {
			t.Errorf("%s: %s %s", name, tone, said)
		}
	}
	if got := w.scan(t, queryErased); got != "0 0" {
		t.Fatalf("erasures and erased events after refusals: %s", got)
	}

	form.Set("confirm", "oak")
	status, page := w.answer(t, auth.Admin, "/act/eraseCampaign", form)
	c := certificate(t, page)
	if status != http.StatusOK || c.Campaign != "oak" || c.Events != 15 || c.By != "admin" || c.Reason != "request 4711" {
		t.Errorf("%d, certificate %+v", status, c)
	}
	if key := base64.StdEncoding.EncodeToString(c.Key); len(c.Key) != 32 ||
		!strings.Contains(html.UnescapeString(page), `"key": "`+key) || !strings.Contains(page, "Erased 15 events of campaign oak.") {
		t.Errorf("the page does not show the certificate:\n%s", page)
	}
	w.accepted(t, c)

	tone, said := w.flash(t, "/act/eraseCampaign", form)
	if tone != "warn" || !strings.Contains(said, "already sent") || !strings.Contains(said, "The certificate was shown once.") {
		t.Errorf("sent again: %s %s", tone, said)
	}
	if got := w.scan(t, queryErased); got != "1 15" {
		t.Errorf("erasures and erased events: %s", got)
	}
	_, list := w.get(t, auth.Admin, "/audit?of=erasures")
	if !strings.Contains(list, "request 4711") || !strings.Contains(list, `href="/campaign?id=oak"`) {
		t.Errorf("the list does not have the erasure:\n%s", list)
	}
}

func TestSubjectsAreErasedByAFormThatNoAddressAndNoLogTellsOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.people(t, "ann", "bob", "carl", "ann")
	if status, body := w.get(t, auth.Admin, "/act/eraseSubjects?subjects=guest%3Dann"); status != http.StatusBadRequest {
		t.Errorf("an address with a subject answers %d:\n%s", status, body)
	}
	for _, form := range []url.Values{
		{"look": {"true"}, "personal": {"true"}}, {"look": {"true"}, "subjects": {"guest=ann"}, "personal": {"true"}},
	} {
		if status, body := w.answer(t, auth.Admin, "/act/eraseSubjects", form); status != http.StatusBadRequest {
			t.Errorf("%v answers %d:\n%s", form, status, body)
		}
	}
	_, list := w.get(t, auth.Admin, "/audit?of=erasures")
	_, empty := w.get(t, auth.Admin, "/act/eraseSubjects")
	if !strings.Contains(list, `href="/act/eraseSubjects"`) || !strings.Contains(empty, `action="/act/eraseSubjects" method="post"`) {
		t.Error("the list does not lead to the form, or the form puts its fields into the address")
	}
	look := url.Values{"look": {"true"}, "subjects": {"guest=ann\r\n\r\nguest=bob\r\n"}}
	status, preview := w.answer(t, auth.Admin, "/act/eraseSubjects", look)
	if status != http.StatusOK ||
		!strings.Contains(preview, "erase 3 events in 1 campaign, and 0 sealing keys, of 2 subjects for good") {
		t.Errorf("the preview answers %d:\n%s", status, preview)
	}
	form := confirmation(t, preview, "eraseSubjects")
	if got := form["subjects"]; len(got) != 2 || got[0] != "guest=ann" || got[1] != "guest=bob" {
		t.Errorf("the form has the subjects %q", got)
	}
	form.Set("confirm", "erase 3")
	if tone, said := w.flash(t, "/act/eraseSubjects", form); tone != "bad" || !strings.Contains(said, `type "erase 2"`) {
		t.Errorf("a wrong word: %s %s", tone, said)
	}
	if got := w.scan(t, queryErased); got != "0 0" {
		t.Fatalf("erasures and erased events before the right word: %s", got)
	}
	form.Set("confirm", "erase 2")
	status, page := w.answer(t, auth.Admin, "/act/eraseSubjects", form)
	c := certificate(t, page)
	if status != http.StatusOK || c.Events != 3 || strings.Join(c.Subjects, " ") != "guest=ann guest=bob" {
		t.Errorf("%d, certificate %+v", status, c)
	}
	w.accepted(t, c)
	if n := w.scan(t, `SELECT count(*)::text FROM tidemark.journal WHERE payload::text LIKE '%planted%'`); n != "1" {
		t.Errorf("%s events have a guest's text, want carl's alone", n)
	}
	if n := w.scan(t, `SELECT count(*)::text FROM tidemark.operator_log WHERE act = 'erase' AND detail::text LIKE '%guest%'`); n != "0" {
		t.Error("the log names the subjects")
	}
	look.Set("subjects", "guest=carl") // one subject is its own confirmation
	_, preview = w.answer(t, auth.Admin, "/act/eraseSubjects", look)
	form = confirmation(t, preview, "eraseSubjects")
	form.Set("confirm", "guest=carl")
	_, page = w.answer(t, auth.Admin, "/act/eraseSubjects", form)
	w.accepted(t, certificate(t, page))
}

func TestAnInterruptedErasureIsAbandonedByAForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const form = `action="/act/abandonErasure"`
	if _, err := w.pool.Exec(t.Context(), `INSERT INTO tidemark.erasures (request, campaign_id, actor, reason)
		VALUES (sha256(''), 'oak', 'anna', 'it was killed')`); err != nil {
		t.Fatal(err)
	}
	_, list := w.get(t, auth.Admin, "/audit?of=erasures")
	_, viewed := w.get(t, auth.Viewer, "/audit?of=erasures")
	if strings.Count(list, form) != 1 || strings.Contains(viewed, form) {
		t.Errorf("the admin's list has %d forms, the viewer's: %t", strings.Count(list, form), strings.Contains(viewed, form))
	}
	fields := url.Values{
		"erasure": {w.scan(t, `SELECT id::text FROM tidemark.erasures`)}, "confirm": {"no"}, "reason": {"it is lost"},
		"key": {uuid.NewString()},
	}
	if tone, said := w.flash(t, "/act/abandonErasure", fields); tone != "bad" {
		t.Errorf("a wrong word: %s %s", tone, said)
	}
	fields["confirm"], fields["key"] = fields["erasure"], []string{uuid.NewString()}
	status, page := w.answer(t, auth.Admin, "/act/abandonErasure", fields)
	c := certificate(t, page)
	if status != http.StatusOK || !c.Abandoned {
		t.Errorf("%d, certificate %+v", status, c)
	}
	w.accepted(t, c)
	_, list = w.get(t, auth.Admin, "/audit?of=erasures")
	if strings.Contains(list, form) || !strings.Contains(list, "abandoned") {
		t.Errorf("the list afterwards:\n%s", list)
	}
}

func TestOnlyAnAdminErasesAndNoOtherSiteDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.people(t, "ann")
	acts := map[string]url.Values{
		"/act/eraseCampaign": {"campaign": {"oak"}, "confirm": {"oak"}, "reason": {"no"}},
		"/act/eraseSubjects": {"subjects": {"guest=ann"}, "confirm": {"guest=ann"}, "reason": {"no"}},
	}
	for _, role := range []auth.Role{auth.Viewer, auth.Operator} {
		for _, path := range []string{"/campaign?id=oak", "/audit?of=erasures"} {
			if status, body := w.get(t, role, path); status != http.StatusOK || strings.Contains(body, "/act/erase") {
				t.Errorf("%s leads %s to an erasure, %d", path, role, status)
			}
		}
		for path, form := range acts {
			if status, _ := w.get(t, role, path); status != http.StatusForbidden {
				t.Errorf("%s answers %s %d", path, role, status)
			}
			if status, _ := w.answer(t, role, path, form); status != http.StatusForbidden {
				t.Errorf("%s: the act answers %s %d", path, role, status)
			}
			form = url.Values{"look": {"true"}, "campaign": form["campaign"], "subjects": form["subjects"]}
			if status, body := w.answer(t, role, path, form); status != http.StatusForbidden || strings.Contains(body, "1 event") {
				t.Errorf("%s: the preview answers %s %d", path, role, status)
			}
		}
	}
	for path, form := range acts {
		if status, _ := w.answer(t, auth.Admin, path, form, "Sec-Fetch-Site", "cross-site"); status != http.StatusForbidden {
			t.Errorf("%s answers another site %d", path, status)
		}
	}
	if got := w.scan(t, queryErased); got != "0 0" {
		t.Errorf("erasures and erased events: %s", got)
	}
}

func testErase(t *testing.T, b *tab, w *world) {
	t.Helper()
	w.people(t, "ann", "bob")
	folder := t.TempDir()
	b.logIn(w, auth.Admin)
	tab, err := chromedp.Call(b.ctx, target.GetTargetInfo, target.GetTargetInfoParams{})
	if err == nil {
		_, err = chromedp.Call(b.ctx, cdp.SetDownloadBehavior, cdp.SetDownloadBehaviorParams{
			Behavior: cdp.SetDownloadBehaviorBehaviorAllow, DownloadPath: folder,
			BrowserContextID: tab.TargetInfo.BrowserContextID,
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	b.open("/campaign?id=oak")
	b.press(`a[href^="/act/eraseCampaign"]`)
	b.sees("erase 15 events of campaign oak for good")
	b.shot("erase")
	const campaign = `form[method=post][action="/act/eraseCampaign"] [name=confirm]`
	b.confirm(campaign, "oak")
	b.fill(`form[method=post] [name=reason]`, "request 4711")
	b.send(campaign)
	b.sees("Erased 15 events of campaign oak.")
	b.shot("certificate")
	b.click("a[download]")
	w.accepted(t, saved(t, folder))

	b.open("/audit?of=erasures")
	b.press(`a[href="/act/eraseSubjects"]`)
	b.fill("#subjects", "guest=ann\nguest=bob")
	b.send("#subjects")
	b.sees("erase 2 events in 1 campaign, and 0 sealing keys, of 2 subjects for good")
	const subjects = `form[action="/act/eraseSubjects"] [name=confirm]`
	b.confirm(subjects, "erase 2")
	b.fill(`form.grid [name=reason]`, "request 4712")
	b.send(subjects)
	b.sees("Erased 2 events of 2 subjects.")
	if text := eval[string](b, "location.href"); strings.Contains(text, "ann") {
		t.Errorf("the address is %s", text)
	}
	b.open("/audit?of=erasures")
	b.sees("request 4711")
	b.sees("request 4712")
}

// saved waits for the certificate in the folder of downloads.
func saved(t *testing.T, folder string) (c erasure.Certificate) {
	t.Helper()
	deadline := time.Now().Add(tabTimeout)
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		raw, err := os.ReadFile(filepath.Join(folder, "certificate.json"))
		if err == nil && json.Unmarshal(raw, &c) == nil {
			return c
		}
		if time.Now().After(deadline) {
			t.Fatalf("no certificate is saved: %v", err)
		}
	}
}
