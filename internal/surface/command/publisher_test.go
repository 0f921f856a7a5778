package command

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// publisherActs returns the operator log since the fixture, oldest first.
func publisherActs(t *testing.T, url string) []string {
	t.Helper()
	return lines(t, url, `SELECT concat_ws(' ', act, topic || '/' || publisher, campaign_id, seq, 'by', actor, 'since',
		reason) FROM tidemark.operator_log
		WHERE at > now() - interval '1 minute' ORDER BY id`, numberless)
}

func TestPublisherCommandsPrintWhatTheGoldenFilesSay(t *testing.T) {
	t.Parallel()
	published, fresh := database(t, "published.sql"), fresh(t)
	for _, tt := range []struct {
		golden, url string
		terminal    bool
		args        string
	}{
		{"publisher-list-terminal", published, true, "publisher list"},
		{"publisher-list-pipe", published, false, "publisher list --publisher archive"},
		{"publisher-list-json", published, false, "publisher list --json"},
		{"publisher-list-json-empty", fresh, false, "publisher list --json"},
		{"publisher-show-terminal", published, true, "publisher show archive"},
		{"publisher-show-topic", published, false, "publisher show shop --topic orders"},
		{"publisher-show-json", published, false, "publisher show archive --json"},
		{"publisher-show-failing", published, false, "publisher show billing"},
		{"publisher-ghosts-terminal", published, true, "publisher ghosts archive"},
		{"publisher-ghosts-json", published, false, "publisher ghosts archive --limit 2 --json"},
		{"parked-list-terminal", published, true, "publisher parked list"},
		{"parked-list-pipe", published, false, "publisher parked list --status parked --message large"},
		{"parked-list-json", published, false, "publisher parked list --json"},
		{"parked-list-json-empty", fresh, false, "publisher parked list --json"},
		{"parked-show-terminal", published, true, "publisher parked show --campaign oak --seq 2"},
		{"parked-show-json", published, false, "publisher parked show --campaign elm --seq 1 --json"},
		{"publisher-log-terminal", published, true, "publisher log"},
		{"publisher-log-pipe", published, false, "publisher log --campaign oak"},
		{"publisher-log-json", published, false, "publisher log --act publisher_paused --json"},
		{"publisher-log-json-empty", fresh, false, "publisher log --json"},
		{"audit-terminal", published, true, "audit"},
		{"audit-pipe", published, false, "audit --campaign oak"},
		{"audit-json", published, false, "audit --act publisher_paused --json"},
		{"audit-json-empty", fresh, false, "audit --json"},
	} {
		t.Run(tt.golden, func(t *testing.T) {
			t.Parallel()
			got := execute(t, tt.url, tt.terminal, tt.args)
			if got.code != cli.ExitOK || got.err != "" {
				t.Fatalf("exit code %d: %s", got.code, got.err)
			}
			assertGolden(t, tt.golden, timeless(got.out))
			if strings.Contains(tt.args, "--json") && !json.Valid([]byte(got.out)) {
				t.Error("this is no JSON")
			}
		})
	}
}

func TestActsOnPublishersPrintWhatTheGoldenFilesSay(t *testing.T) {
	t.Parallel()
	const who, started = " --by bob --reason mended", "operation_started by bob since mended"
	url := fresh(t) // shared: each case puts back what it needs
	for _, tt := range []struct {
		golden   string
		terminal bool
		args     string
		acts     []string
	}{
		{"publisher-pause", true, "publisher pause archive" + who, []string{
			"publisher_paused everything/archive by bob since mended", "publisher_paused orders/archive by bob since mended",
		}},
		{
			"publisher-pause-json", false, "publisher pause archive --topic orders --for 90m --json" + who,
			[]string{"publisher_paused orders/archive by bob since mended"},
		},
		{
			"publisher-resume", true, "publisher resume archive" + who,
			[]string{"publisher_resumed everything/archive by bob since mended"},
		},
		{
			"publisher-resume-json", false, "publisher resume archive --json" + who,
			[]string{"publisher_resumed everything/archive by bob since mended"},
		},
		{
			"publisher-reset-errors", true, "publisher reset shop" + who,
			[]string{"publisher_reset orders/shop by bob since mended"},
		},
		{
			"publisher-reset-json", false, "publisher reset archive --topic orders --position 3 --yes --json" + who,
			[]string{"publisher_reset orders/archive by bob since mended"},
		},
		{"publisher-reset-dry", true, "publisher reset archive --position 0 --dry-run" + who, nil},
		{"publisher-reset-end-dry-json", false, "publisher reset archive --end --dry-run --json" + who, nil},
		{"parked-retry", true, "publisher parked retry --publisher archive --wait" + who, []string{
			started,
			"parked_retried orders/archive ash\t 1 by bob since mended (operation N)",
			"parked_retried orders/archive elm 1 by bob since mended (operation N)",
			"parked_retried orders/archive oak 2 by bob since mended (operation N)",
		}},
		{
			"parked-retry-json", false, "publisher parked retry archive oak 2 --json" + who,
			[]string{"parked_retried orders/archive oak 2 by bob since mended"},
		},
		{"parked-retry-none", true, "publisher parked retry --type renamed" + who, nil},
		{"parked-retry-dry", true, "publisher parked retry --all --dry-run" + who, nil},
		{
			"parked-resolve", true, "publisher parked resolve archive oak 2 --yes" + who,
			[]string{"parked_resolved orders/archive oak 2 by bob since mended"},
		},
		{"parked-resolve-many-json", false, "publisher parked resolve --status parked --yes --wait --json" + who, []string{
			started,
			"parked_resolved orders/archive elm 1 by bob since mended (operation N)",
			"parked_resolved orders/archive oak 2 by bob since mended (operation N)",
		}},
		{"parked-resolve-dry-json", false, "publisher parked resolve --campaign elm --dry-run --json" + who, nil},
	} {
		t.Run(tt.golden, func(t *testing.T) {
			fill(t, url, "published.sql")
			if strings.Contains(tt.args, "--wait") {
				operate(t, url)
			}
			got := execute(t, url, tt.terminal, tt.args)
			if got.code != cli.ExitOK {
				t.Fatalf("exit code %d: %s", got.code, got.err)
			}
			assertGolden(t, tt.golden, numberless(timeless(got.out)+"--- stderr\n"+timeless(got.err)))
			if strings.Contains(tt.args, "--json") && (!json.Valid([]byte(got.out)) || strings.TrimPrefix(got.err, idle) != "") {
				t.Errorf("stdout is no JSON, or there is something on stderr: %q", got.err)
			}
			if did := publisherActs(t, url); !slices.Equal(did, tt.acts) {
				t.Errorf("the log has %q, want %q", did, tt.acts)
			}
		})
	}
}

func TestStatusSaysSinceWhenAPublisherFails(t *testing.T) {
	t.Parallel()
	got := execute(t, database(t, "published.sql"), false, "status")
	for _, want := range []*regexp.Regexp{
		regexp.MustCompile(`FAILING\teverything\tbilling\t.*since 20.*: connection refused`),
		regexp.MustCompile(`warning\t1h 0m\tpublisher billing of topic everything\tfails, 153 times in a row: connection refused`),
		regexp.MustCompile(`warning\t1h 0m\tpublisher archive of topic everything\t3 events sent but missing from the journal`),
		regexp.MustCompile(`PAUSED\teverything\tarchive\t`),
	} {
		if !want.MatchString(got.out) {
			t.Errorf("it does not say %s:\n%s", want, got.out)
		}
	}
}

func TestAResetLeavesThePairsWhereItSays(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	for args, want := range map[string][]string{
		"publisher reset archive --topic orders": {
			"everything/archive 2 PAUSED",
			"orders/archive 5 ACTIVE", "orders/shop 0 FAILED",
		},
		"publisher reset shop": {
			"everything/archive 2 PAUSED",
			"orders/archive 5 ACTIVE", "orders/shop 0 ACTIVE",
		},
		"publisher reset archive --position 4 --yes": {
			"everything/archive 4 ACTIVE",
			"orders/archive 4 ACTIVE", "orders/shop 0 FAILED",
		},
		"publisher reset shop --end --yes": {
			"everything/archive 2 PAUSED",
			"orders/archive 5 ACTIVE", "orders/shop 6 ACTIVE",
		},
		"publisher reset archive --topic orders --position 0 --yes": {
			"everything/archive 2 PAUSED",
			"orders/archive 0 ACTIVE", "orders/shop 0 FAILED",
		},
		"publisher reset archive --topic orders --time 2001-01-01T00:00:00Z --yes": {
			"everything/archive 2 PAUSED",
			"orders/archive 0 ACTIVE", "orders/shop 0 FAILED",
		},
		"publisher reset archive --position 0 --dry-run": {
			"everything/archive 2 PAUSED",
			"orders/archive 5 ACTIVE", "orders/shop 0 FAILED",
		},
	} {
		fill(t, url, "published.sql")
		if got := execute(t, url, false, args); got.code != cli.ExitOK {
			t.Errorf("%s: exit code %d: %s", args, got.code, got.err)
		}
		if got := lines(t, url, `SELECT topic || '/' || publisher || ' ' || position || ' ' || status
			FROM tidemark.readers WHERE publisher <> 'billing' ORDER BY 1`); !slices.Equal(got, want) {
			t.Errorf("%s: pairs are at %q, want %q", args, got, want)
		}
	}
}

func TestAnActOnAPublisherThatDoesNotFitSaysWhatToTypeNext(t *testing.T) {
	t.Parallel()
	url := database(t, "published.sql")
	const nowhere = "postgres://nobody@127.0.0.1:1/none"
	for _, tt := range []struct {
		name, url, args string
		code            int
		says            []string
	}{
		{
			"a publisher that is not there", url, "publisher show archvie", cli.ExitFailed,
			[]string{`publisher "archvie"`, "try: tidemark publisher list"},
		},
		{
			"a topic that it has not", url, "publisher pause shop --topic everything", cli.ExitFailed,
			[]string{"everything/shop: not found"},
		},
		{
			"a pair that has failed, to pause", url, "publisher pause shop", cli.ExitConflict,
			[]string{"reset it first", "try: tidemark publisher show shop"},
		},
		{"a pair that is not paused", url, "publisher resume shop", cli.ExitConflict, []string{"it is FAILED, not paused"}},
		{
			"a reset to two places", nowhere, "publisher reset shop --position 1 --end", cli.ExitUsage,
			[]string{"a reset has one target"},
		},
		{"a reset beyond the journal", url, "publisher reset shop --position 7", cli.ExitFailed, []string{"from 0 to 6"}},
		{
			"a reset below the journal", nowhere, "publisher reset shop --position -1", cli.ExitUsage,
			[]string{`--position "-1"`},
		},
		{
			"a reset to no time", nowhere, "publisher reset shop --time monday", cli.ExitUsage,
			[]string{`--time "monday": it is not a time: write it like 2026`},
		},
		{"no parked events chosen", nowhere, "publisher parked retry", cli.ExitUsage, []string{"nothing chooses", "--all"}},
		{
			"an unknown status", nowhere, "publisher parked list --status lost", cli.ExitUsage,
			[]string{`--status "lost": there is no such status: use one of retrying, parked, draining`},
		},
		{"no reason to resolve", nowhere, "publisher parked resolve --all", cli.ExitUsage, []string{"--reason is required"}},
		{
			"an event that is not parked", url, "publisher parked show --campaign oak --seq 3", cli.ExitFailed,
			[]string{"is not parked", "try: tidemark publisher parked list --campaign oak"},
		},
		{
			"an unknown act", nowhere, "publisher log --act seen", cli.ExitUsage,
			[]string{`--act "seen": there is no such act: use one of publisher_paused`},
		},
		{"a replay of nothing", nowhere, "publisher replay archive", cli.ExitUsage, []string{"Name PUBLISHER and CAMPAIGN"}},
		{
			"a replay from nowhere", nowhere, "publisher replay archive oak --topic orders", cli.ExitUsage,
			[]string{"--from: it is missing"},
		},
		{
			"a replay that ends before it begins", url, "publisher replay archive oak --topic orders --from 3 --until 2 --yes",
			cli.ExitUsage,
			[]string{"it is less than from"},
		},
		{
			"a replay of a campaign that is not there", url, "publisher replay archive yew --topic orders --from 1 --yes",
			cli.ExitFailed,
			[]string{"yew", "try: tidemark events query --help"},
		},
		{"no database", nowhere, "publisher list", cli.ExitUnavailable, []string{"database unavailable"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := execute(t, tt.url, false, tt.args)
			if got.code != tt.code || got.out != "" {
				t.Errorf("exit code %d, stdout %q: want %d", got.code, got.out, tt.code)
			}
			for _, want := range tt.says {
				if !strings.Contains(got.err, want) {
					t.Errorf("stderr is %q, want %q in it", got.err, want)
				}
			}
		})
	}
}

func TestMuchOfAPublisherIsConfirmedFirst(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	for _, tt := range []struct {
		name, args, typed string
		code              int
		says              string
		acts              int
	}{
		{
			"what is left out for good, by the publisher's name", "publisher reset shop --end", "shop\n", cli.ExitOK,
			"This would reset publisher shop: 0 events sent again, 6 events never sent. Type shop to continue: ", 1,
		},
		{"and not by a yes", "publisher reset shop --end", "yes\n", cli.ExitDeclined, "declined", 0},
		{"and what is sent again", "publisher reset archive --position 0", "archive\n", cli.ExitOK, "stands at position 0", 2},
		{
			"and one event that is resolved", "publisher parked resolve --publisher archive --campaign elm --reason r",
			"resolve parked 1\n", cli.ExitOK, "This would resolve 1 event. Type resolve parked 1 to continue: ", 1,
		},
		{
			"and one that is named", "publisher parked resolve archive oak 2 --reason r", "2\n", cli.ExitOK,
			"Type 2 to continue: ", 1,
		},
		{
			"more than one event that is resolved", "publisher parked resolve --all --reason r", "resolve parked 3\n",
			cli.ExitOK, "This would resolve 3 events. Type resolve parked 3 to continue: ", 1,
		},
		{"or not at all", "publisher parked resolve --all --reason r", "", cli.ExitDeclined, "declined", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fill(t, url, "published.sql")
			var out, errs bytes.Buffer
			env := environment(url, false, &out, &errs)
			env.In, env.InTerminal = strings.NewReader(tt.typed), true
			if code := perform(t.Context(), env, stock(), fields(tt.args)); code != tt.code || !strings.Contains(errs.String(), tt.says) {
				t.Errorf("exit code %d, stderr %q: want %d and %q", code, errs.String(), tt.code, tt.says)
			}
			if did := len(publisherActs(t, url)); did != tt.acts {
				t.Errorf("%d acts are in the log, want %d", did, tt.acts)
			}
		})
	}
}

func TestAShellIsOfferedPublishers(t *testing.T) {
	t.Parallel()
	url := database(t, "published.sql")
	for line, want := range map[string][]string{
		"publisher show |":                     {"archive", "billing", "shop"},
		"publisher pause s|":                   {"shop"},
		"publisher pause shop --topic |":       {"everything", "orders"},
		"publisher parked retry --campaign |":  {"elm", "oak"},
		"publisher parked list --status |":     {"retrying", "parked", "draining"},
		"publisher log --act replay|":          {"replay_started", "replay_ended"},
		"publisher replay a|":                  {"archive"},
		"publisher replay archive o|":          {"oak"},
		"publisher parked list --publisher s|": {"shop"},
	} {
		words := strings.Split(strings.TrimSuffix(line, "|"), " ")
		if got := completed(t, url, words...); !slices.Equal(got, want) {
			t.Errorf("%s is completed by %q, want %q", line, got, want)
		}
	}
}
