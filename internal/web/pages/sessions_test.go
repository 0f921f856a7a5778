package pages_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tidemark-go/tidemark/internal/pgtest"
	"github.com/tidemark-go/tidemark/internal/web/auth"
)

// callsOfAPI answers what openapi.yaml describes: "GET /path" by the name of the call.
func callsOfAPI(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Paths map[string]map[string]any
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	calls := map[string]string{}
	for path, methods := range file.Paths {
		for method, call := range methods {
			if described, ok := call.(map[string]any); ok {
				calls[described["operationId"].(string)] = strings.ToUpper(method) + " " + path
			}
		}
	}
	return calls
}

// actsOfAPI are the calls that act, with what they are told, in an order in which each makes sense.
func actsOfAPI() [][2]string {
	const bulk = `"kind": "requeue", "limit": 5, "pairs": {"projection": "scores", "status": ["dead", "failed"]}`
	return [][2]string{
		{"requeueDeferred", ""},
		{"retryDeferred", ""},
		{"resolveDeferred", `"seq": 4`},
		{"unresolveDeferred", `"seq": 4`},
		{"requeueEvent", `"group": "default"`},
		{"pauseCampaign", `"group": "default", "for": "1h"`},
		{"resumeCampaign", `"group": "default"`},
		{"pauseGroup", `"for": "1h"`},
		{"resumeGroup", ""},
		{"pauseProjection", `"group": "default", "for": "1h"`},
		{"resumeProjection", `"group": "default"`},
		{"replayCampaign", `"group": "default", "projection": "heroes", "dry_run": true`},
		{"replayCampaign", `"group": "default", "from": 2`},
		{"repairGap", `"group": "default"`},
		{"repairGaps", ""},
		{"replayGroup", `"projection": "heroes", "dry_run": true`},
		{"replayGroup", `"projection": "heroes"`},
		{"verifyProjection", `"sample": 3`},
		{"verifyProjection", `"campaigns": ["oak"]`},
		{"verifyProjection", ""},
		{"verifyProjection", `"proof": true`},
		{"backfillProjection", `"dry_run": true`},
		{"backfillProjection", ""},
		{"previewBulk", bulk},
		{"startBulk", bulk + `, "confirm": "requeue 5"`},
		{"startBulk", `"kind": "retry_parked", "parked": {"publisher": "billing"}`},
		{"retryParked", ""},
		{"resolveParked", ""},
		{"pausePublisher", `"for": "1h"`},
		{"resumePublisher", ""},
		{"testSend", `"campaign_id": "oak", "seq": 1`},
		{"testSend", ""},
		{"republish", `"campaign_id": "oak", "from": 1, "dry_run": true`},
		{"republish", `"campaign_id": "oak", "from": 1`},
		{"abortOperation", ""},
		{"resetPublisher", `"position": 1, "dry_run": true`},
		{"resetPublisher", `"position": 1`},
		{"drainWorker", ""},
		{"undrainWorker", ""},
		{"createToken", `"name": "eve", "role": "operator", "expires": "1h"`},
		{"revokeToken", ""},
		{"startRebuild", ""},
		{"pauseRebuild", `"group": "default"`},
		{"resumeRebuild", `"group": "default"`},
		{"swapRebuild", ""},
		{"abortRebuild", `"confirm": "scores"`},
		{"rollbackProjection", `"confirm": "scores"`},
		{"removeProjection", `"dry_run": true`},
		{"removeGroup", `"dry_run": true`},
		{"removeProjection", `"confirm": "heroes", "tables": true`},
		{"removeGroup", `"confirm": "default"`},
	}
}

// queriesOfAPI are what calls that read must be asked.
func queriesOfAPI() map[string]string {
	return map[string]string{
		"getAsOf": "?projection=scores&seq=4", "getDiff": "?projection=scores&from=2&to=4", "getWhy": "?projection=scores&table=scores&key=alina",
		"verifyCampaign": "?projection=scores", "listGaps": "?group=default", "queryEvents": "?type=cursed", "listLeases": "?group=default&limit=3",
		"listDeferred": "?projection=scores&message=curse&older_than=1s&limit=3", "listDeferredLog": "?campaign=cave-00", "listParked": "?campaign=cave-00",
	}
}

// askAll looks at every page and makes every call, and answers the status of each.
func (w *world) askAll(t *testing.T) (answers []string) {
	t.Helper()
	ask := func(name, method, path, body string) {
		request, err := http.NewRequestWithContext(t.Context(), method, w.base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+w.token[auth.Admin])
		if method == http.MethodPost {
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Idempotency-Key", fmt.Sprint("key ", len(answers)))
		}
		status, text := do(t, request)
		if status >= http.StatusInternalServerError {
			t.Errorf("%s: %s %s %s answers %d:\n%s", name, method, path, body, status, text[max(0, len(text)-600):])
		}
		answers = append(answers, fmt.Sprint(name, " ", body, " ", status))
		if status >= http.StatusBadRequest {
			t.Logf("%s %s %s", answers[len(answers)-1], path, text[:min(len(text), 300)])
		}
	}
	for _, path := range everyPage() {
		ask("page "+path, http.MethodGet, path, "")
	}
	calls := callsOfAPI(t)
	values := map[string]string{
		"projection": "scores", "campaign": "cave-00", "seq": "4", "group": "default", "topic": "campaign-events", "publisher": "billing",
		"owner": "worker-a-1", "name": "eve", "id": "last", // the last operation
	}
	var last string
	path := func(name string) (method, address string) {
		method, address, _ = strings.Cut(calls[name], " ")
		if strings.Contains(address, "{id}") {
			if err := w.pool.QueryRow(t.Context(), `SELECT coalesce(max(id), 0)::text FROM tidemark.operations`).Scan(&last); err != nil {
				t.Fatal(err)
			}
			values["id"] = last
		}
		return method, regexp.MustCompile(`\{(\w+)\}`).ReplaceAllStringFunc(address, func(p string) string { return values[strings.Trim(p, "{}")] })
	}
	asked := map[string]bool{}
	look := func() {
		for _, name := range slices.Sorted(maps.Keys(calls)) {
			if method, address := path(name); method == http.MethodGet {
				asked[name] = true
				ask(name, method, address+queriesOfAPI()[name], "")
			}
		}
	}
	look()
	for _, a := range actsOfAPI() {
		asked[a[0]] = true
		method, address := path(a[0])
		ask(a[0], method, address, `{"reason": "a test", "with": {`+a[1]+`}}`)
	}
	w.settle(t)
	look()
	for name := range calls {
		if !asked[name] {
			t.Errorf("nothing makes the call %s", name)
		}
	}
	return answers
}

// settle waits until all operations have ended but that for a publisher that no worker has.
func (w *world) settle(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for running := 1; running > 0; {
		if err := w.pool.QueryRow(t.Context(), `SELECT count(*) FROM tidemark.operations WHERE state = 'running' AND kind <> 'republish'`).Scan(&running); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Errorf("%d operations are still running", running)
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	var failed *string
	if err := w.pool.QueryRow(t.Context(), `SELECT string_agg(kind || ': ' || error, '; ') FROM tidemark.operations WHERE state = 'failed'`).Scan(&failed); err != nil {
		t.Fatal(err)
	}
	if failed != nil {
		t.Errorf("operations have failed: %s", *failed)
	}
}

func TestPagesAndCallsAnswerTheSameInEverySession(t *testing.T) {
	t.Parallel()
	var usual []string
	for _, session := range pgtest.Sessions() {
		t.Run(session.Name, func(t *testing.T) {
			w := &world{pool: session.Open(t, pgtest.URL(t)), token: map[auth.Role]string{}, travels: true}
			w.fill(t)
			w.serve(t, worldCode())
			answers := w.askAll(t)
			if usual == nil {
				usual = answers
			}
			for i, want := range usual {
				late := strings.HasPrefix(want, "abortOperation ") // it may wait for a batch that is under way, and in vain
				if answers[i] != want && !late {
					t.Errorf("it answers %s, usually %s", answers[i], want)
				}
			}
		})
	}
}
