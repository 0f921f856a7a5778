package pages_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// get reads a page as a role.
func (w *world) get(t *testing.T, role auth.Role, path string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+w.token[role])
	return do(t, request)
}

func do(t *testing.T, request *http.Request) (int, string) {
	t.Helper()
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestEveryPageIsThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range everyPage() {
		status, body := w.get(t, auth.Admin, path)
		if status != http.StatusOK {
			t.Errorf("%s answers %d:\n%s", path, status, body[max(0, len(body)-1500):])
		}
		if strings.Contains(body, "<script>") || strings.Contains(body, "<img src=x") ||
			strings.Contains(body, "ZgotmplZ") || strings.Contains(body, "\u202E") {
			t.Errorf("%s lets hostile text through", path)
		}
	}
}

// TestListsHaveAllRowsOnTheirPages follows the links to the next pages.
func TestListsHaveAllRowsOnTheirPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 120 {
		w.append(t, fmt.Sprintf("guild-%03d", i), event.Event{Type: "entombed", Payload: json.RawMessage(`{}`)})
	}
	p, err := projector.New(projector.Config{Pool: w.pool, Projections: worldCode()})
	if err == nil {
		_, err = p.Drain(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		act := url.Values{"campaign": {fmt.Sprintf("guild-%03d", i)}, "group": {"default"}, "reason": {"a test"}}
		act.Set("key", uuid.NewString())
		if status, _ := w.post(t, auth.Admin, "/act/pauseCampaign", act); status != http.StatusSeeOther {
			t.Fatalf("the act answers %d", status)
		}
	}
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`)
	for path, want := range map[string]int{
		"/campaigns?prefix=guild": 120, "/failed?of=all&projection=scores": 120, "/campaigns?of=work": 120, "/workers?of=leases": 120,
		"/audit?by=admin": 60,
	} {
		found, pages := map[string]bool{}, 0
		for at := path; at != ""; pages++ {
			status, body := w.get(t, auth.Admin, at)
			if status != http.StatusOK {
				t.Fatalf("%s answers %d", at, status)
			}
			_, list, _ := strings.Cut(body, `<tbody>`)
			for _, name := range regexp.MustCompile(`guild-\d{3}`).FindAllString(list, -1) {
				found[name] = true
			}
			at = ""
			if m := next.FindStringSubmatch(body); m != nil {
				at = html.UnescapeString(m[1])
			}
		}
		if len(found) != want || pages < 2 {
			t.Errorf("%s has %d campaigns on %d pages, want %d", path, len(found), pages, want)
		}
	}
}

func TestAParameterThatAPageDoesNotHaveIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range everyPage() {
		more := "?"
		if strings.Contains(path, "?") {
			more = "&"
		}
		status, body := w.get(t, auth.Admin, path+more+"nosuch=1")
		if status != http.StatusBadRequest || !strings.Contains(body, "nosuch") {
			t.Errorf("%s answers %d to a parameter that it does not have", path, status)
		}
	}
}

// everyPage returns an address of each page.
func everyPage() []string {
	q := url.QueryEscape
	return []string{
		"/", "/campaigns", "/campaigns?of=work", "/campaigns?of=scheduled", "/campaigns?prefix=cave", "/campaign?id=oak", "/campaign?id=oak&seq=5",
		"/campaign?id=" + q(hostileID),
		"/event?campaign=oak&seq=3", "/event?campaign=" + q(hostileID) + "&seq=1",
		"/failed", "/failed?of=all", "/failed?of=all&projection=scores&status=dead",
		"/failed/campaign?projection=scores&campaign=cave-00", "/failed/campaign?projection=scores&campaign=" + q(hostileID),
		"/parked", "/parked?publisher=billing&topic=campaign-events",
		"/parked?topic=campaign-events&publisher=billing&campaign=cave-00&seq=4", "/projections", "/projections?of=rebuilds", "/projections?of=places", "/publishers",
		"/publishers/pair?topic=campaign-events&publisher=billing",
		"/act/resetPublisher?topic=campaign-events&publisher=billing&position=3", "/workers", "/workers?of=leases&group=default&held=true",
		"/workers?of=pauses", "/workers?of=groups", "/failed?of=resolutions",
		"/audit", "/audit?of=failures", "/settings", "/operations", "/act/requeueManyFailed",
		"/act/requeueManyFailed?projection=scores", "/act/resolveManyParked?publisher=billing",
		"/audit?of=erasures", "/act/eraseCampaign", "/act/eraseCampaign?campaign=oak", "/act/eraseSubjects",
		"/act/eraseCampaign?campaign=" + q(hostileID),
	}
}

func TestTheRowsOfACampaignAreOfProjectionsThatApplyByCampaign(t *testing.T) {
	t.Parallel()
	w := &world{pool: pgtest.New(t), token: map[auth.Role]string{}}
	w.fill(t)
	code := append(worldCode(), projection.Document[hero]{
		Name: "everywhere", Version: 1, Scope: projection.ScopeJournal,
		Key: func(e event.Event) (string, error) { return "by " + e.Actor, nil },
		Fold: func(_ *hero, e event.Event) error {
			if e.Actor == "goblin-1" {
				return projection.Permanent(errors.New("it is a goblin"))
			}
			return nil
		},
	})
	p, err := projector.New(projector.Config{Pool: w.pool, Projections: code})
	if err == nil {
		_, err = p.Drain(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	w.serve(t, code)
	_, body := w.get(t, auth.Admin, "/campaign?id=oak&seq=5")
	body = strings.ReplaceAll(body, `<option value="everywhere">everywhere</option>`, "") // of acts
	if !strings.Contains(body, "scores") || strings.Contains(body, "everywhere") {
		t.Error("the page shows rows across campaigns, whose events have no seq")
	}
	_, body = w.get(t, auth.Admin, "/failed/campaign?projection=everywhere&campaign="+url.QueryEscape("by goblin-1"))
	if !strings.Contains(body, `href="/event?campaign=oak&amp;seq=2"`) || !strings.Contains(body, "of this key wait") {
		t.Errorf("the page of a key that has failed does not lead to its event:\n%s", body)
	}
}
