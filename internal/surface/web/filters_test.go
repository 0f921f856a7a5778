package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/auth"
)

// free returns the parameters of calls and pages that take any value. They choose by names of the
// application or by free text, so an unknown value is not a mistake. Numbers and cursors have tests
// of their own.
func free() map[string]bool {
	free := map[string]bool{}
	for _, name := range strings.Fields(`campaign prefix event_type type tag message fingerprint code by actor key table column ignore
		after limit seq from to until before position time
		id all slide was key table column sample as_of confirm reason field back for host owner allow behind`) {
		free[name] = true
	}
	return free
}

const nosuch = "nosuch"

// refusesNosuch calls with an unknown value for a parameter. The response must name the value and
// the known ones.
func refusesNosuch(t *testing.T, s *served, path, name, known string) {
	t.Helper()
	address, err := url.Parse(path)
	if err != nil {
		t.Fatal(err)
	}
	q := address.Query()
	q.Set(name, nosuch)
	address.RawQuery = q.Encode()
	response, body := s.call(t, auth.Admin, http.MethodGet, address.String(), "", nil)
	if response.StatusCode != http.StatusBadRequest || !strings.Contains(body, nosuch) || !strings.Contains(body, known) {
		t.Errorf("%s is answered %s, want 400 with %q and %q\n%s", address, response.Status, nosuch, known,
			body[max(0, len(body)-900):])
	}
}

// knownOf returns a known value of a parameter.
func knownOf(path, name string) string {
	switch name {
	case "status":
		if strings.Contains(strings.ToLower(path), "parked") {
			return "retrying"
		}
		return "dead"
	case "act":
		if path == "/api/v1/failed-log" || strings.Contains(path, "of=failures") {
			return "requeued"
		}
		if path == "/api/v1/publisher-log" {
			return "parked_resolved"
		}
		return "failed_requeued"
	case "kind":
		return "requeue"
	}
	return map[string]string{
		"section": "queue", "held": "true", "refused": "true", "class": "transient", "state": "running", "of": "failures",
		"group": "default", "projection": "notes", "topic": "t", "publisher": "s",
	}[name]
}

func TestEveryFilterOfACallRefusesAnUnknownValue(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	s := serveOn(t, pool, acting, nil)
	_, file := description(t)
	paths, _ := file["paths"].(map[string]any)
	tried := 0
	for _, route := range routes(t, s) {
		if route.Method != http.MethodGet {
			continue
		}
		raw, err := json.Marshal(paths[route.Pattern])
		if err != nil {
			t.Fatal(err)
		}
		var described struct {
			Get struct{ Parameters []struct{ Name, In string } }
		}
		if err := json.Unmarshal(raw, &described); err != nil {
			t.Fatal(err)
		}
		for _, p := range described.Get.Parameters {
			switch {
			case p.In != "query" || free()[p.Name]:
			case knownOf(route.Pattern, p.Name) == "":
				t.Errorf("%s: say here what values parameter %s takes", route.Pattern, p.Name)
			default:
				tried++
				refusesNosuch(t, s, path(route.Pattern)+query(route.OperationID), p.Name, knownOf(route.Pattern, p.Name))
			}
		}
	}
	if tried < 20 {
		t.Errorf("only %d filters were tried", tried)
	}
}

// filtersOfPages returns the parameters of pages that take one of a few values.
func filtersOfPages() map[string][]string {
	return map[string][]string{
		"/failed":                     {"projection"},
		"/failed?of=all":              {"projection", "status", "class"},
		"/parked":                     {"topic", "publisher", "status"},
		"/operations":                 {"state", "kind"},
		"/act/requeueManyFailed":      {"projection", "status", "class"},
		"/act/retryManyParked":        {"topic", "publisher", "status"},
		"/audit":                      {"act", "of"},
		"/audit?of=failures":          {"act"},
		"/campaigns?of=scheduled":     {"refused"},
		"/workers":                    {"group"},
		"/workers?of=leases":          {"group", "held"},
		"/workers?of=pauses":          {"group"},
		"/publishers":                 {"topic", "publisher"},
		"/publishers/pair?topic=t":    {"publisher"},
		"/failed/campaign?campaign=a": {"projection"},
	}
}

func TestEveryFilterOfAPageRefusesAnUnknownValue(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	s := serveOn(t, pool, acting, nil)
	listed := map[string]bool{}
	for path, names := range filtersOfPages() {
		for _, name := range names {
			listed[name] = true
			known := knownOf(path, name)
			refusesNosuch(t, s, path, name, known)
		}
	}
	files, err := filepath.Glob("pages/*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := regexp.MustCompile(`(?:\.FormValue\(|\.Get\(|number\(r, |required\(r, |choice\(r, )"([a-z_]+)"`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range read.FindAllStringSubmatch(string(text), -1) {
			if !strings.HasSuffix(file, "_test.go") && !listed[m[1]] && !free()[m[1]] {
				t.Errorf("%s reads %s: say here which values it takes", file, m[1])
			}
		}
	}
}
