package pages_test

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// everywhere is a projection across campaigns that refuses some of its keys.
func everywhere() projection.Projection {
	return projection.Document[hero]{
		Name: "everywhere", Version: 1, Scope: projection.ScopeJournal,
		Key: func(e event.Event) (string, error) { return "by " + e.Actor, nil },
		Fold: func(_ *hero, e event.Event) error {
			if strings.HasPrefix(e.Actor, "goblin-") {
				return projection.Permanent(errors.New("it is a goblin"))
			}
			return nil
		},
	}
}

// drained fills the world and applies its events with the code, then serves it.
func drained(t *testing.T, code []projection.Projection) *world {
	t.Helper()
	w := &world{pool: pgtest.New(t), token: map[auth.Role]string{}}
	w.fill(t)
	p, err := projector.New(projector.Config{Pool: w.pool, Projections: code})
	if err == nil {
		_, err = p.Drain(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	w.serve(t, code)
	return w
}

func TestLinksOfListsLeadToPages(t *testing.T) {
	t.Parallel()
	w := drained(t, append(worldCode(), everywhere()))
	resolve := url.Values{
		"projection": {"everywhere"}, "campaign": {"by goblin-2"}, "reason": {"a test"}, "key": {"k1"},
		"back": {"/failed"},
	}
	if status, _ := w.post(t, auth.Admin, "/act/resolveFailed", resolve); status != http.StatusSeeOther {
		t.Fatalf("the act answers %d", status)
	}
	key := url.QueryEscape("by goblin-1")
	links := regexp.MustCompile(`(?s)href="(/(?:campaign|event|failed/campaign)\?[^"]*)"`)
	looked := map[string]bool{}
	for _, path := range []string{
		"/failed", "/failed?of=all&projection=everywhere", "/failed?of=resolutions", "/audit?of=failures",
		"/campaigns?of=work", "/failed/campaign?projection=everywhere&campaign=" + key,
	} {
		status, body := w.get(t, auth.Admin, path)
		if status != http.StatusOK {
			t.Fatalf("%s answers %d", path, status)
		}
		for _, m := range links.FindAllStringSubmatch(body, -1) {
			to := html.UnescapeString(m[1])
			if looked[to] || len(looked) > 60 {
				continue
			}
			looked[to] = true
			if status, _ := w.get(t, auth.Admin, to); status != http.StatusOK {
				t.Errorf("%s leads to %s, which answers %d", path, to, status)
			}
		}
	}
	if len(looked) < 10 {
		t.Errorf("only %d links are on the lists", len(looked))
	}
}

func TestAnArchivedCampaignSaysSo(t *testing.T) {
	t.Parallel()
	w := drained(t, worldCode())
	w.relay(t) // all of it is published
	store, err := archive.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	done, err := archive.Run(t.Context(), w.pool, store, archive.Request{
		Campaigns: []string{"oak"}, By: "ada", Reason: "it is over",
	})
	if err != nil || done.Campaigns != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	_, body := w.get(t, auth.Viewer, "/campaign?id=oak")
	for _, says := range []string{
		"Archived: events 1 to 15 are in the archive", "tidemark campaign restore oak --reason", "an object of ",
	} {
		if !strings.Contains(body, says) {
			t.Errorf("the page of an archived campaign does not say %q", says)
		}
	}
	_, body = w.get(t, auth.Viewer, "/campaign?id=cave-03")
	if strings.Contains(body, "Archived:") {
		t.Error("the page of another campaign says that it is archived")
	}
}

func TestAVerificationSaysWhatItFoundInWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, asked := range []struct {
		form url.Values
		says []string
	}{
		{
			url.Values{"projection": {"scores"}, "sample": {"3"}},
			[]string{"3 campaigns", "by chance", "compared,", "cannot be applied from the first event", "Rows without a campaign"},
		},
		{url.Values{"projection": {"heroes"}}, []string{"all campaigns", "compared,"}},
	} {
		asked.form.Set("reason", "a doubt")
		asked.form.Set("key", asked.form.Get("projection"))
		asked.form.Set("back", "/operations")
		if status, _ := w.post(t, auth.Admin, "/act/verifyProjection", asked.form); status != http.StatusSeeOther {
			t.Fatalf("the act answers %d", status)
		}
		var id int64
		for deadline := time.Now().Add(time.Minute); id == 0; {
			if err := w.pool.QueryRow(t.Context(), `SELECT coalesce(max(id) FILTER (WHERE state = 'done'
				AND request ->> 'projection' = $1), 0) FROM tidemark.operations`,
				asked.form.Get("projection")).Scan(&id); err != nil || time.Now().After(deadline) {
				t.Fatal("the verification does not end", err)
			}
		}
		_, body := w.get(t, auth.Operator, fmt.Sprint("/operation?id=", id))
		for _, says := range asked.says {
			if !strings.Contains(body, says) {
				t.Errorf("the page of a verification does not say %q", says)
			}
		}
		if strings.Contains(body, "&#34;") {
			t.Error("the page of a verification has JSON")
		}
	}
}
