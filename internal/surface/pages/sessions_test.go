package pages_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/acts"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// brokenKey is the id of a key that does not open.
const brokenKey = "01a21831-0aaf-7001-9512-0e2cf06179e0"

// callsOfAPI returns the calls in openapi.yaml as "GET /path", by name.
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

// actsOfAPI returns the calls that act with their arguments. Each makes sense after the ones before
// it.
func actsOfAPI() [][2]string {
	const scores = `"limit": 5, "projection": "scores", "status": ["dead", "failed"]`
	return [][2]string{
		{"requeueFailed", ""},
		{"resolveFailed", `"seq": 4`},
		{"unresolveFailed", `"seq": 4`},
		{"requeueEvent", `"group": "default"`},
		{"pauseCampaign", `"group": "default", "for": "1h"`},
		{"resumeCampaign", `"group": "default"`},
		{"pauseGroup", `"for": "1h"`},
		{"resumeGroup", ""},
		{"pauseProjection", `"for": "1h"`},
		{"resumeProjection", ""},
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
		{"requeueManyFailed", scores + `, "dry_run": true`},
		{"requeueManyFailed", scores + `, "confirm": "requeue 5"`},
		{"resolveManyFailed", `"type": "entombed", "dry_run": true`},
		{"retryManyParked", `"publisher": "billing"`},
		{"resolveManyParked", `"publisher": "billing", "dry_run": true`},
		{"retryParked", ""},
		{"resolveParked", ""},
		{"pausePublisher", `"for": "1h"`},
		{"resumePublisher", ""},
		{"republish", `"campaign": "oak", "from": 1, "dry_run": true`},
		{"republish", `"campaign": "oak", "from": 1`},
		{"abortOperation", ""},
		{"resetPublisher", `"position": 1, "dry_run": true`},
		{"resetPublisher", `"position": 1`},
		{"reschedule", `"due": "2999-01-01T00:00:00Z"`},
		{"cancelScheduled", `"confirm": "1"`},
		{"archiveCampaign", `"dry_run": true`},
		{"archiveCampaign", ""},
		{"archiveClosed", `"closed_for": "90d", "by_type": ["never"], "dry_run": true`},
		{"archiveClosed", `"closed_for": "90d", "by_type": ["never"]`},
		{"restoreCampaign", ""},
		{"restoreObjects", `"all": true`},
		{"eraseCampaign", `"dry_run": true`},
		{"eraseSubjects", `"subjects": ["nobody"], "dry_run": true`},
		{"eraseCampaign", `"confirm": "oak"`},
		{"abandonErasure", `"confirm": "1"`}, // it has ended
		{"trustWrappingKey", `"dry_run": true`},
		{"trustWrappingKey", `"confirm": "a"`},
		{"rotateKeys", ""},
		{"deleteKey", `"dry_run": true`},
		{"deleteKey", `"confirm": "` + brokenKey + `"`},
		{"repairCopy", `"dry_run": true`},
		{"repairCopy", ""},
		{"drainWorker", ""},
		{"undrainWorker", ""},
		{"createToken", `"role": "operator", "expires": "1h"`},
		{"revokeToken", ""},
		{"startRebuild", ""},
		{"pauseRebuild", ""},
		{"resumeRebuild", ""},
		{"swapRebuild", ""},
		{"abortRebuild", `"confirm": "scores"`},
		{"rollbackProjection", `"confirm": "scores"`},
		{"removeProjection", `"dry_run": true`},
		{"removeGroup", `"dry_run": true`},
		{"removeProjection", `"confirm": "heroes", "tables": true`},
		{"removeGroup", `"confirm": "default"`},
	}
}

// queriesOfAPI returns the queries that read calls need.
func queriesOfAPI() map[string]string {
	return map[string]string{
		"getAsOf": "?projection=scores&seq=4", "getDiff": "?projection=scores&from=2&to=4",
		"getWhy":         "?projection=scores&table=scores&key=alina",
		"verifyCampaign": "?projection=scores", "listGaps": "?group=default", "queryEvents": "?type=cursed",
		"listLeases": "?group=default&limit=3",
		"listFailed": "?projection=scores&limit=3", "listFailedLog": "?campaign=cave-00",
		"listParked": "?campaign=cave-00",
	}
}

// askAll reads every page and makes every call. It returns the status of each.
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
		"projection": "scores", "campaign": "cave-00", "seq": "4", "group": "default", "topic": "campaign-events",
		"publisher": "billing",
		"owner":     "worker-a-1", "erasure": "1", "id": "last", // the last operation
	}
	var last string
	path := func(name string) (method, address string) {
		method, address, _ = strings.Cut(calls[name], " ")
		values["name"] = "eve"
		if strings.Contains(address, "/scheduled/{id}") {
			values["id"] = "1"
		} else if strings.Contains(address, "/keys/wrapping/{name}") {
			values["name"] = "a"
		} else if strings.Contains(address, "/keys/{id}") {
			values["id"] = brokenKey
		} else if strings.Contains(address, "{id}") {
			if err := w.pool.QueryRow(t.Context(), `SELECT coalesce(max(id), 0)::text
				FROM tidemark.operations`).Scan(&last); err != nil {
				t.Fatal(err)
			}
			values["id"] = last
		}
		return method, regexp.MustCompile(`\{(\w+)\}`).ReplaceAllStringFunc(address, func(p string) string {
			return values[strings.Trim(p, "{}")]
		})
	}
	asked := map[string]bool{}
	look := func() {
		for _, name := range slices.Sorted(maps.Keys(calls)) {
			if method, address := path(name); method == http.MethodGet {
				asked[name] = true
				if strings.HasSuffix(address, "/stream") {
					continue // it does not end
				}
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

// settle waits until all operations have ended, except the one for a publisher that no worker has.
func (w *world) settle(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for running := 1; running > 0; {
		if err := w.pool.QueryRow(t.Context(), `SELECT count(*) FROM tidemark.operations WHERE state = 'running'
			AND kind <> 'republish'`).Scan(&running); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Errorf("%d operations are still running", running)
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	var failed *string
	if err := w.pool.QueryRow(t.Context(), `SELECT string_agg(kind || ': ' || error, '; ') FROM tidemark.operations
		WHERE state = 'failed'`).Scan(&failed); err != nil {
		t.Fatal(err)
	}
	if failed != nil {
		t.Errorf("operations have failed: %s", *failed)
	}
}

func TestPagesAndCallsAnswerTheSameInEverySession(t *testing.T) {
	t.Parallel()
	sessions := pgtest.Sessions()
	answers := make([][]string, len(sessions))
	t.Run("sessions", func(t *testing.T) {
		for i, session := range sessions {
			t.Run(session.Name, func(t *testing.T) {
				t.Parallel()
				w := &world{pool: session.Open(t, pgtest.URL(t)), token: map[auth.Role]string{}}
				w.fill(t) // projections and publishers also run in each kind of session
				w.serve(t, worldCode())
				answers[i] = w.askAll(t)
			})
		}
	})
	for i, session := range sessions {
		if len(answers[i]) != len(answers[0]) {
			t.Fatalf("%s has %d answers, %s has %d", session.Name, len(answers[i]), sessions[0].Name, len(answers[0]))
		}
		for j, want := range answers[0] {
			late := strings.HasPrefix(want, "abortOperation ") // an abort may wait for a batch under way until its timeout
			if got := answers[i][j]; got != want && !late {
				t.Errorf("%s answers %s, %s answers %s", session.Name, got, sessions[0].Name, want)
			}
		}
	}
}

// formsOfPages returns the acts of pages with their forms. Each makes sense after the ones before
// it. A form that starts with ! is refused, because it needs a worker that has built tables.
func formsOfPages() [][2]string {
	const (
		pair   = "projection=scores&campaign=cave-00"
		billed = "topic=campaign-events&publisher=billing"
	)
	return [][2]string{
		{"/act/requeueFailed", pair},
		{"/act/resolveFailed", pair + "&seq=4"},
		{"/act/unresolveFailed", pair + "&seq=4"},
		{"/act/replayCampaign", "group=default&projection=heroes&campaign=oak"},
		{"/act/verifyProjection", "projection=scores&campaigns=cave-01"},
		{"/act/pauseCampaign", "group=default&campaign=oak&for=1h"},
		{"/act/resumeCampaign", "group=default&campaign=oak"},
		{"/act/requeueEvent", "!group=default&campaign=oak&seq=1"},
		{"/act/repairGap", "group=default&campaign=oak"},
		{"/act/pauseGroup", "group=default&for=1h"},
		{"/act/resumeGroup", "group=default"},
		{"/act/pauseProjection", "projection=heroes&for=1h"},
		{"/act/resumeProjection", "projection=heroes"},
		{"/act/verifyProjection", "projection=scores&sample=3"},
		{"/act/removeProjection", "!projection=nothing&confirm=nothing"},
		{"/act/replayGroup", "group=default&from=99"},
		{"/act/repairGaps", "group=default&confirm=default"},
		{"/act/removeGroup", "!group=default&confirm=default"},
		{"/act/requeueManyFailed", "projection=scores&type=entombed&as_of=NOW&confirm=requeue+6"},
		{"/act/resolveManyFailed", "projection=scores&type=entombed&as_of=NOW&confirm=resolve+6"},
		{"/act/pausePublisher", billed + "&for=1h"},
		{"/act/resumePublisher", billed},
		{"/act/retryParked", billed + "&campaign=cave-00&seq=4"},
		{"/act/resolveParked", billed + "&campaign=cave-00&seq=4&confirm=4"},
		{"/act/retryManyParked", "publisher=billing&as_of=NOW&confirm=retry+parked+9"},
		{"/act/resolveManyParked", "!publisher=billing&as_of=NOW&confirm=no"},
		{"/act/republish", billed + "&campaign=oak&from=2&until=5&confirm=billing"},
		{"/act/abortOperation", "id=LAST"},
		{"/act/reschedule", "id=1&due=2999-01-01T00%3A00%3A00Z"},
		{"/act/cancelScheduled", "id=1&confirm=1"},
		{"/act/resetPublisher", billed + "&position=3&confirm=billing"},
		{"/act/drainWorker", "owner=worker-a-1&confirm=worker-a-1"},
		{"/act/undrainWorker", "owner=worker-a-1"},
		{"/act/startRebuild", "projection=heroes"},
		{"/act/pauseRebuild", "projection=heroes&for=1h"},
		{"/act/resumeRebuild", "projection=heroes"},
		{"/act/swapRebuild", "projection=heroes&allow_failed=1"},
		{"/act/abortRebuild", "projection=heroes&confirm=heroes"},
		{"/act/rollbackProjection", "!projection=heroes&confirm=heroes"},
		{"/act/archiveCampaign", "!campaign=oak"},
		{"/act/archiveClosed", "!closed_for=90d&by_type=never"},
		{"/act/restoreCampaign", "!campaign=oak"},
		{"/act/restoreObjects", "!all=true"},
		{"/act/eraseCampaign", "campaign=oak&confirm=oak"},
		{"/act/eraseSubjects", "subjects=hero%3Dalina&confirm=hero%3Dalina"},
		{"/act/abandonErasure", "!erasure=1&confirm=1"},
		{"/act/rotateKeys", "!"},
		{"/act/trustWrappingKey", "!name=a&confirm=a"},
		{"/act/deleteKey", "id=" + brokenKey + "&confirm=" + brokenKey},
		{"/act/repairCopy", ""},
		{"/act/createToken", "!name=eve&role=viewer"},
		{"/act/revokeToken", "!name=eve"},
	}
}

// postsOf returns the paths of the pages' forms.
func postsOf() (all []string) {
	for _, act := range acts.All() {
		all = append(all, "/act/"+act.Name)
	}
	return all
}

func TestActsOfPagesAreDoneInEverySession(t *testing.T) {
	t.Parallel()
	filled := fillWorld(t)
	for _, session := range pgtest.Sessions() {
		t.Run(session.Name, func(t *testing.T) {
			t.Parallel()
			w := &world{pool: session.Open(t, pgtest.CopyURL(t, filled)), token: map[auth.Role]string{}}
			w.serve(t, worldCode())
			asked := map[string]bool{}
			for _, f := range formsOfPages() {
				asked[f[0]] = true
				text, refused := strings.CutPrefix(f[1], "!")
				text = strings.ReplaceAll(text, "NOW", url.QueryEscape(time.Now().Format(time.RFC3339Nano)))
				if strings.Contains(text, "LAST") {
					text = strings.ReplaceAll(text, "LAST", w.scan(t, `SELECT max(id)::text FROM tidemark.operations`))
				}
				form, err := url.ParseQuery(text)
				if err != nil {
					t.Fatal(err)
				}
				form.Set("reason", "a test")
				form.Set("key", uuid.NewString())
				tone, said := w.flash(t, f[0], form)
				want := map[bool]string{true: "bad", false: "ok"}[refused]
				if tone != want || strings.Contains(said, "The database") {
					t.Errorf("%s %s: %s %s, want %s", f[0], text, tone, said, want)
				}
			}
			w.settle(t)
			for _, path := range postsOf() {
				if !asked[path] {
					t.Errorf("no form is sent to %s", path)
				}
			}
		})
	}
}

func (w *world) scan(t *testing.T, sql string) (value string) {
	t.Helper()
	if err := w.pool.QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// flash sends the form of an act and returns the message on the next page.
func (w *world) flash(t *testing.T, path string, form url.Values) (tone, said string) {
	t.Helper()
	status, header := w.send(t, auth.Admin, path, form)
	if act, ok := acts.Named(strings.TrimPrefix(path, "/act/")); ok && act.File != "" && status == http.StatusOK {
		return "ok", act.File // in the place of a message
	}
	if status != http.StatusSeeOther {
		t.Errorf("%s answers %d", path, status)
	}
	for _, c := range (&http.Response{Header: header}).Cookies() {
		if c.Name == "tidemark_flash" {
			raw, err := base64.RawURLEncoding.DecodeString(c.Value)
			var f struct{ Tone, Text, More string }
			if err = errors.Join(err, json.Unmarshal(raw, &f)); err != nil {
				t.Fatal(err)
			}
			tone, said = f.Tone, f.Text+" "+f.More
		}
	}
	return tone, said
}
