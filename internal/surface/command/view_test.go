package command

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/views"
	"github.com/tidemark-go/tidemark/internal/surface/api"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

// narrowing returns a value for each filter of each view that matches some of the fixtures' rows,
// but not all.
func narrowing() map[string]string {
	failed := map[string]string{
		"group": "search", "projection": "scores", "campaign": "oak", "type": "scored", "class": "permanent", "code": "panic",
		"fingerprint": "3f2a8c1d90be", "status": "dead",
	}
	acts := map[string]string{
		"topic": "orders", "publisher": "shop", "campaign": "oak", "by": "bob@box", "before": "3", "act": "parked_retried",
	}
	all := map[string]string{
		"listFailedLog group": "search", "listFailedLog projection": "scores", "listFailedLog campaign": "fir",
		"listFailedLog fingerprint": "3f2a8c1d90be", "listFailedLog by": "ada@box", "listFailedLog act": "dead",
		"listFailedLog before":         "3",
		"listFailureCauses projection": "scores", "listFailureCauses fingerprint": "3f2a8c1d90be",
		"listResolutions projection": "scores", "listResolutions campaign": "elm",
		"listPublishers topic": "orders", "listPublishers publisher": "shop",
		"listParked topic": "orders", "listParked publisher": "shop", "listParked campaign": "oak", "listParked seq": "2",
		"listParked type": "noted", "listParked status": "draining", "listParked message": "too large",
		"listCampaigns prefix": "e", "listCampaigns after": "fir", "listPauses group": "search", "listWorkers group": "search",
		"queryEvents type": "noted", "queryEvents tag": "wallet=7", "queryEvents after": "3",
		"listQueueEntries status": "dead", "listQueueEntries campaign": "elm",
		"listOperations state": "running", "listOperations kind": "verify", "listOperations before": "2",
		"listErasures before": "2", "listPolicies after": "seats", "listRestoreRequests after": "elm",
		"listScheduled campaign": "oak", "listScheduled refused": "true",
		"listTokens all": "true", "listGaps group": "search", "getOperation after": "1",
	}
	for name, value := range failed {
		all["listFailed "+name] = value
	}
	for name, value := range acts {
		all["listLog "+name], all["listPublisherLog "+name] = value, value
	}
	return all
}

// moreToChoose adds a second value where the fixtures have only one.
const moreToChoose = `
	INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
		VALUES ('finds', 'search', 1, 'public', '{finds}', 'active');
	INSERT INTO tidemark.readers (topic, publisher, position, kind) VALUES ('finds', '#0', 1, 'projection'),
		('finds', '#1', 2, 'projection');
	INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, next_attempt_at)
		VALUES ('fir', 'finds', 'search', 1, 'catching_up', now());
	INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, attempt_count,
		next_attempt_at, error_class, error_code, error_message, first_failed_at, last_failed_at)
		VALUES ('gum', 'finds', 'search', 1, 'dead', 1, 'infinity', 'transient', 'error', 'x', now(), now());
	INSERT INTO tidemark.failure_log (at, act, consumer_group, projection, campaign_id, seq)
		VALUES (now(), 'recovered', 'search', 'finds', 'fir', 1);
	INSERT INTO tidemark.resolutions (campaign_id, projection, seq, actor, reason)
		VALUES ('elm', 'sessions', 1, 'ada@box', 'a test');
	INSERT INTO tidemark.workers (owner, consumer_group, host, pid, started_at, seen_at, campaigns_held, events_applied)
		VALUES ('w2', 'search', 'box', 8, now(), now(), 0, 0);
	INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, event_type, status, attempt_count,
		next_attempt_at) VALUES ('orders', 'shop', 'fir', 1, true, 1, 'noted', 'parked', 1, now());
	INSERT INTO tidemark.erasures (request, campaign_id, actor, reason) VALUES (sha256('1'), 'oak', 'ada', 'a test'),
		(sha256('2'), NULL, 'ada', 'a test');
	INSERT INTO tidemark.retention (policy, closed_for, event_types, every, rate) VALUES ('seats', '90 days', '{left}', '1 h', 9),
		('tables', '1 day', '{closed}', '1 h', 9);
	INSERT INTO tidemark.restore_requests (campaign_id, asked_by, asked_at, attempt_at, kept_until)
		VALUES ('elm', 'shop', now(), now(), NULL), ('oak', 'shop', now(), now(), now());
	INSERT INTO tidemark.operator_log (actor, act, topic, publisher) VALUES ('eve', 'publisher_reset', 'orders', 'shop');
	SELECT tidemark.append('fir', '[{"type": "noted", "tags": ["wallet=7"]}]');
	DELETE FROM tidemark.outbox WHERE campaign_id = 'fir' AND consumer_group = 'default';
	INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload,
		payload_bytes, occurred_at, recorded_at)
	SELECT 'yew', 1, setval('tidemark.journal_position', 900), gen_random_uuid(), 'noted', 1, 'audit_only', '{}', 2, now(),
		now() - interval '1 day'`

// argumentsOf returns the arguments of views that need some, for the command and for the path.
func argumentsOf() map[string][2]string {
	return map[string][2]string{
		"getCampaign":  {"oak", "/campaigns/oak"},
		"getFailed":    {"scores oak", "/failed/scores/oak"},
		"listGhosts":   {"archive --topic everything", "/publishers/everything/archive/ghosts"},
		"getOperation": {"1", "/operations/1"},
		"getScheduled": {"2", "/scheduled/2"},
	}
}

// ofTheAPIAlone returns the views without a command of their own, because other commands show their
// items.
func ofTheAPIAlone() []string {
	return []string{
		"listEvents", "getEvent", "listLeases", "getPublisher", "getPublisherLag", "listOperationItems", "listQueue",
		"listRebuilds",
		// Commands that are written by hand do more.
		"getStatus", "getDoctor", "getAsOf", "getDiff", "getWhy", "verifyCampaign",
	}
}

func TestAViewIsTheSameOnTheCommandLineAndInTheAPI(t *testing.T) {
	t.Parallel()
	url := database(t, "failed.sql", "paused.sql", "published.sql", "operations.sql", "scheduled.sql")
	requireRun(t, url, "token create eve --reason test", cli.ExitOK, "")
	requireRun(t, url, "token create ada --reason test", cli.ExitOK, "")
	requireRun(t, url, "token revoke ada --reason test --by ada", cli.ExitOK, "")
	change(t, url, moreToChoose)
	reference, err := os.ReadFile("../../../docs/reference/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	calls := callAPI(t, url)
	all := leaves(newRoot(environment("", false, nil, nil), stock()))
	for _, view := range views.All() {
		if slices.Contains(ofTheAPIAlone(), view.Name) {
			continue
		}
		command := all[view.Command]
		if command == nil || !strings.Contains(string(reference), "### `tidemark "+view.Command+"`\n") {
			t.Errorf("view %s has no command %q, or the reference has none", view.Name, view.Command)
			continue
		}
		flags := []string{"json"}
		for _, p := range view.Params {
			if p.Arg == "" {
				flags = append(flags, p.Flag())
			}
		}
		command.Flags().VisitAll(func(f *pflag.Flag) {
			if i := slices.Index(flags, f.Name); i >= 0 {
				flags = slices.Delete(flags, i, i+1)
			} else if f.Name != "help" {
				t.Errorf("%s has --%s, which is no parameter of its view", view.Command, f.Name)
			}
		})
		if len(flags) > 0 {
			t.Errorf("%s has no --%s", view.Command, strings.Join(flags, ", no --"))
		}
		if view.Path == "" {
			continue // only the command shows it
		}
		t.Run(view.Name, func(t *testing.T) {
			t.Parallel()
			filtersNarrow(t, url, view, calls)
		})
	}
}

// filtersNarrow tries each filter of a view with a value that matches and a value that does not.
func filtersNarrow(t *testing.T, url string, view *views.View, call func(path string) (status int, body string)) {
	t.Helper()
	words, path := view.Command, view.Path
	if in, ok := argumentsOf()[view.Name]; ok {
		words, path = view.Command+" "+in[0], in[1]
	}
	ask := func(name, flag, value string) (shown result, items []any, body string, status int) {
		line, query := words+" --json", path
		if name != "" {
			line += " --" + flag + "=" + strings.ReplaceAll(value, " ", "%20")
			query += "?" + name + "=" + escaped(value)
		}
		shown = execute(t, url, false, line)
		status, body = call(query)
		var ofCommand, ofAPI struct {
			Items []any
			Item  any
		}
		if shown.code == cli.ExitOK {
			if json.Unmarshal([]byte(timeless(shown.out)), &ofCommand) != nil {
				t.Fatalf("%s writes %s", line, shown.out)
			}
			if err := json.Unmarshal([]byte(spaced(t, body)), &ofAPI); err != nil {
				t.Fatalf("%s is answered %s", query, body)
			}
			if one, other := sorted(t, ofCommand.Items, ofCommand.Item), sorted(t, ofAPI.Items, ofAPI.Item); one != other {
				t.Errorf("%s shows\n%s\n%s answers\n%s", line, one, query, other)
			}
		}
		return shown, ofCommand.Items, body, status
	}
	whole, every, _, status := ask("", "", "")
	if whole.code != cli.ExitOK || status != http.StatusOK || view.List && len(every) == 0 {
		t.Fatalf("%s ends with %d: %s; the call is answered %d; it shows %d", words, whole.code, whole.err, status, len(every))
	}
	for _, p := range view.Params {
		if p.Arg != "" || strings.Contains(view.Path, "{"+p.Name+"}") || p.Name == "limit" {
			continue
		}
		value := narrowing()[view.Name+" "+p.Name]
		if value == "" {
			t.Errorf("say which value of %s narrows %s:\n%s", p.Name, view.Name, whole.out)
			continue
		}
		shown, some, _, status := ask(p.Name, p.Flag(), value)
		changed := len(some) > 0 && len(some) < len(every)
		switch {
		case p.Name == "all":
			changed = len(some) > len(every)
		case !view.List:
			changed = timeless(shown.out) != timeless(whole.out)
		}
		if shown.code != cli.ExitOK || status != http.StatusOK || !changed {
			t.Errorf("--%s %s ends with %d and shows %d of %d; the call is answered %d\n%s", p.Flag(), value, shown.code,
				len(some), len(every), status, shown.err)
		}
		shown, some, body, status := ask(p.Name, p.Flag(), "nosuch")
		refused := shown.code != cli.ExitOK && status == http.StatusBadRequest
		empty := shown.code == cli.ExitOK && status == http.StatusOK && (len(some) == 0 || p.Name == "after")
		if !refused && !empty {
			t.Errorf("--%s nosuch ends with %d and shows %d; the call is answered %d: %s", p.Flag(), shown.code, len(some), status,
				body)
		}
	}
	if status, body := call(path + "?nosuch=1"); status != http.StatusBadRequest || !strings.Contains(body, `"field":"nosuch"`) {
		t.Errorf("a parameter that there is not is answered %d: %s", status, body)
	}
}

func escaped(value string) string { return neturl.QueryEscape(value) }

// spaced formats JSON as the command line does, without text that depends on the time.
func spaced(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return timeless(string(out))
}

// sorted sorts items, because the API can return them in another order.
func sorted(t *testing.T, items []any, item any) string {
	t.Helper()
	texts := make([]string, 0, len(items)+1)
	for _, thing := range append(items, item) {
		text, err := json.Marshal(thing)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	slices.Sort(texts)
	return strings.Join(texts, "\n")
}

// callAPI returns a function that makes a read call as an admin.
func callAPI(t *testing.T, url string) func(path string) (status int, body string) {
	t.Helper()
	pool := poolOf(t, url)
	calls, err := api.New(api.Config{
		Pool: pool, Acts: admin.On(pool), Failed: func(w http.ResponseWriter, r *http.Request, err error) {
			var refused *problem.Problem
			if !errors.As(err, &refused) {
				t.Errorf("%s: %v", r.URL, err)
				return
			}
			problem.Write(w, refused)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for _, route := range calls.Routes() {
		mux.Handle(route.Method+" "+route.Pattern, route.Handler)
	}
	return func(path string) (int, string) {
		request := httptest.NewRequestWithContext(auth.With(t.Context(), auth.Identity{Name: "ada", Role: auth.Admin}),
			http.MethodGet, "/api/v1"+path, nil)
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, request)
		return answer.Code, answer.Body.String()
	}
}
