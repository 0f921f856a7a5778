package journal_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// Due appends and reactions are written by one statement where they can be. The functions below take that
// statement away, so each is written by itself, and what is in the database must be the same.
const (
	fireEachApart = `CREATE OR REPLACE FUNCTION tidemark.append_plain(p_campaigns text[], p_appends jsonb[])
		RETURNS text[] LANGUAGE sql AS 'SELECT p_campaigns'`
	reactEachApart = `CREATE OR REPLACE FUNCTION tidemark.schedule_new(p_campaign_ids text[], p_dues timestamptz[],
		p_events jsonb[], p_scheduled_by text, p_timers text[], p_expects bigint[], p_refused text[])
		RETURNS bigint[] LANGUAGE sql AS 'SELECT NULL::bigint[]'`

	registerP = `INSERT INTO tidemark.readers (kind, topic, publisher, position, reacts_after)
		VALUES ('projection', 'p', '#0', 0, 0)`
	registerGroups = `INSERT INTO tidemark.consumer_groups (name, state) VALUES ('files', 'filing'), ('works', 'ready'),
		('inline', 'inline')`

	// everything is what appends leave behind, without what differs from run to run.
	everything = `SELECT concat_ws(E'\n',
		(SELECT string_agg(concat_ws(' ', campaign_id, seq, CASE WHEN event_id::text ~ '^0{8}' THEN event_id END, event_type,
			event_version, intent, aggregate_type, aggregate_id, actor, tags, payload, metadata, payload_bytes,
			CASE WHEN occurred_at < '2000-01-01' THEN occurred_at END, row_number), E'\n' ORDER BY campaign_id, seq)
			FROM (SELECT *, row_number() OVER (PARTITION BY campaign_id ORDER BY position) FROM tidemark.journal) AS j),
		(SELECT string_agg(concat_ws(' ', 'tag', t.tag, t.event_type, j.campaign_id, j.seq), E'\n' ORDER BY j.campaign_id, j.seq, t.tag)
			FROM tidemark.event_tags t JOIN tidemark.journal j USING (position)),
		(SELECT string_agg(concat_ws(' ', 'outbox', consumer_group, campaign_id, seq, events), E'\n'
			ORDER BY consumer_group, campaign_id, seq) FROM tidemark.outbox),
		(SELECT string_agg(concat_ws(' ', 'scheduled', campaign_id, due_at, scheduled_by, timer, given_id, other_ids, attempts,
			error, regexp_replace(events::text, '"id": "(?!0{8})[^"]*"', '"id": made', 'g')), E'\n' ORDER BY id)
			FROM tidemark.scheduled))`
)

// notedAs returns an event as JSON, with the id that ends with id if there is one, and more fields.
func notedAs(id, more string) string {
	if id != "" {
		more += fmt.Sprintf(`, "id": "%s"`, idOf(id))
	}
	return `{"type": "noted"` + more + `}`
}

func idOf(id string) string { return "00000000-0000-4000-8000-" + strings.Repeat("0", 12-len(id)) + id }

// bothWays does the same in two databases, the second with what is written by one statement written one by
// one, and compares what is in them.
func bothWays(t *testing.T, apart string, do func(pool *pgxpool.Pool) string) {
	t.Helper()
	var found [2]string
	for i := range found {
		pool := pgtest.New(t)
		must(t, pool, registerP)
		must(t, pool, registerGroups)
		if i == 1 {
			must(t, pool, apart)
		}
		found[i] = do(pool) + "\n" + query[string](t, pool, everything)
	}
	if found[0] != found[1] {
		t.Errorf("together:\n%s\neach by itself:\n%s", found[0], found[1])
	}
}

func must(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func TestDueAppendsTogetherAreAsEachByItself(t *testing.T) {
	t.Parallel()
	type due struct{ campaign, events string }
	array := func(events ...string) string { return "[" + strings.Join(events, ",") + "]" }
	for name, c := range map[string]struct {
		due   []due
		then  string // after they are scheduled
		fired int64
	}{
		"plain ones, several for a campaign": {fired: 4, due: []due{
			{"a", array(notedAs("1", `, "payload": {"n": 1}`), notedAs("2", `, "metadata": {"m": "`+strings.Repeat("m", 300)+`"}`))},
			{"b", array(notedAs("3", `, "version": 3, "intent": "replay_only", "aggregate_type": "x", "aggregate_id": "y",
				"actor": "ada", "occurred_at": "1999-01-02T03:04:05+02:00"`))},
			{"a", array(notedAs("4", ``))},
			{"with events", array(notedAs("5", ``))},
		}},
		"tags": {fired: 2, due: []due{
			{"a", array(notedAs("1", `, "tags": ["x", "y", "x"]`), notedAs("2", ``))}, {"b", array(notedAs("3", `, "tags": ["x"]`))},
		}},
		"appended meanwhile, in part too": {fired: 2, due: []due{
			{"a", array(notedAs("1", ``))}, {"b", array(notedAs("2", ``), notedAs("3", ``))}, {"c", array(notedAs("4", ``))},
		}, then: `SELECT tidemark.append('a', '[` + notedAs("1", ``) + `]'), tidemark.append('b', '[` + notedAs("2", ``) + `]')`},
		"a leap day": {fired: 2, due: []due{
			{"a", array(notedAs("1", `, "occurred_at": "1996-02-29T00:00:00Z"`))}, {"b", array(notedAs("2", ``))},
		}},
		"a limit that is lower now": {fired: 1, due: []due{
			{"a", array(notedAs("1", `, "payload": {"long": "`+strings.Repeat("l", 500)+`"}`))}, {"b", array(notedAs("2", ``))},
		}, then: `UPDATE tidemark.limits SET payload_bytes = 400`},
		"without inline groups": {
			fired: 1, due: []due{{"a", array(notedAs("1", ``))}},
			then: `DELETE FROM tidemark.consumer_groups WHERE state = 'inline'`,
		},
		"a sequence that is behind": {
			due:  []due{{"a", array(notedAs("1", ``))}, {"b", array(notedAs("2", ``))}},
			then: `SELECT setval('tidemark.journal_position', 1, false)`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothWays(t, fireEachApart, func(pool *pgxpool.Pool) string {
				must(t, pool, `SELECT tidemark.append('with events', '[{"type": "before"}, {"type": "before"}, {"type": "before"}]')`)
				for _, d := range c.due {
					must(t, pool, `SELECT tidemark.append_at($1, '1998-01-01Z', $2::jsonb)`, d.campaign, d.events)
				}
				if c.then != "" {
					must(t, pool, c.then)
				}
				fired := fireDue(t, pool)
				if fired != c.fired {
					t.Errorf("%d appends are made, not %d", fired, c.fired)
				}
				return fmt.Sprint(fired)
			})
		})
	}
}

// TestAnArchivedCampaignHoldsBackNoOtherDueAppend has a stub in place of one campaign's events.
func TestAnArchivedCampaignHoldsBackNoOtherDueAppend(t *testing.T) {
	t.Parallel()
	bothWays(t, fireEachApart, func(pool *pgxpool.Pool) string {
		must(t, pool, `INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload,
			metadata, payload_bytes, occurred_at, recorded_at) SELECT 'archived', 3, nextval('tidemark.journal_position'),
			gen_random_uuid(), 'x', 0, 'audit_only', '{}', '{"$archived": {"object": "o"}}', 9, '1999-01-01', now()`)
		for i, campaign := range []string{"a", "archived", "b"} {
			must(t, pool, `SELECT tidemark.append_at($1, '1998-01-01Z', $2::jsonb)`, campaign, "["+notedAs(fmt.Sprint(i), ``)+"]")
		}
		return fmt.Sprint(fireDue(t, pool))
	})
}

func TestReactionsTogetherAreAsEachByItself(t *testing.T) {
	t.Parallel()
	type decision struct{ campaign, due, events, timer, expect, refused string } // "" is NULL
	const at, later = "1998-01-01 00:00Z", "2500-01-01 00:00Z"
	one := func(id, more string) string { return "[" + notedAs(id, more) + "]" }
	two := "[" + notedAs("1", ``) + "," + notedAs("2", `, "payload": {"second": true}`) + "]"
	for name, calls := range map[string][][]decision{
		"plain ones": {{
			{"a", at, one("1", ``), "", "", ""}, {"a", at, two, "", "", ""}, {"b", later, one("3", `, "metadata": null`), "", "", ""},
		}, {{"b", at, one("4", `, "metadata": {"m": 1}, "tags": ["x"]`), "", "", ""}}},
		"expectations": {{
			{"a", at, one("1", ``), "", "", ""},
			{"a", at, one("2", ``), "", "1", "lost"},
			{"b", at, two, "", "7", "lost"},
			{"c", at, one("3", ``), "", "7", ""},
		}},
		"timers": {{
			{"a", later, one("1", ``), "t1", "", ""},
			{"a", later, one("2", ``), "t2", "0", "lost"},
			{"a", later, one("3", ``), "t3", "", ""},
		}, {
			{"a", "", "", "t1", "", ""},
			{"a", later, one("4", ``), "t2", "", ""},
			{"a", at, one("5", ``), "t2", "", ""},
			{"a", at, one("6", ``), "t3", "", ""},
			{"", "", "", "t3", "", ""},
		}},
		"repeats": {
			{{"a", at, one("1", ``), "", "", ""}, {"b", later, two, "t", "", ""}, {"c", later, one("3", ``), "", "4", "x"}},
			{
				{"c", later, one("3", ``), "", "4", "x"},
				{"a", at, one("1", ``), "", "", ""},
				{"d", at, one("5", ``), "", "", ""},
				{"b", later, two, "t", "", ""},
			},
		},
		"one twice in a call":         {{{"a", at, one("1", ``), "", "", ""}, {"a", at, one("1", ``), "", "", ""}}},
		"one twice, in other letters": {{{"a", at, one("a", ``), "", "", ""}, {"a", at, one("A", `, "actor": "eve"`), "", "", ""}}},
		"another content":             {{{"a", at, one("1", ``), "", "", ""}}, {{"b", at, one("2", ``), "", "", ""}, {"a", at, one("1", `, "actor": "eve"`), "", "", ""}}},
		"a part of another, first":    {{{"a", later, two, "", "", ""}}, {{"a", at, one("1", ``), "", "", ""}}},
		"a part of another, second":   {{{"a", later, two, "", "", ""}}, {{"a", at, one("2", ``), "", "", ""}}},
		"more than another":           {{{"a", later, one("2", ``), "", "", ""}}, {{"a", at, two, "", "", ""}}},
		"two that share an event":     {{{"a", later, two, "", "", ""}, {"a", at, one("2", ``), "", "", ""}}},
		"no id":                       {{{"a", at, one("", ``), "", "", ""}, {"b", at, one("1", ``), "", "", ""}, {"a", at, one("", ``), "", "3", "x"}}},
		"no campaign":                 {{{"", at, one("1", ``), "", "", ""}}},
		"a long campaign":             {{{strings.Repeat("c", 3000), at, one("1", ``), "", "", ""}}},
		"no due time":                 {{{"a", "", one("1", ``), "", "", ""}}},
		"a due time out of range":     {{{"b", at, one("2", ``), "", "", ""}, {"a", "infinity", one("1", ``), "", "", ""}}},
		"no array":                    {{{"a", at, `{"type": "noted"}`, "", "", ""}}},
		"no events":                   {{{"a", at, `[]`, "", "", ""}}},
		"no JSON":                     {{{"a", at, `[`, "", "", ""}}},
		"JSON null":                   {{{"a", at, `null`, "", "", ""}}},
		"no object":                   {{{"a", at, `[1]`, "", "", ""}}},
		"metadata of another type":    {{{"a", at, one("1", `, "metadata": [1]`), "", "", ""}}},
		"a reserved type":             {{{"a", at, `[{"type": "events_erased", "id": "` + idOf("1") + `"}]`, "", "", ""}}},
		"an id that is none":          {{{"a", at, `[{"type": "noted", "id": "x"}]`, "", "", ""}}},
		"an unknown field":            {{{"a", at, one("1", `, "tidemark_expect": 3`), "", "", ""}}},
		"a long actor":                {{{"a", at, one("1", `, "actor": "`+strings.Repeat("a", 300)+`"`), "", "", ""}}},
		"too many tags":               {{{"a", at, one("1", `, "tags": ["`+strings.Repeat(`t","`, 200)+`t"]`), "", "", ""}}},
		"a large payload":             {{{"a", at, one("1", `, "payload": {"p": "`+strings.Repeat("p", 70000)+`"}`), "", "", ""}}},
		"large metadata":              {{{"a", at, one("1", `, "metadata": {"m": "`+strings.Repeat("m", 70000)+`"}`), "", "", ""}}},
		"deep metadata":               {{{"a", at, one("1", `, "metadata": {"m": `+strings.Repeat("[", 128)+strings.Repeat("]", 128)+`}`), "", "", ""}}},
		"metadata as deep as can be": {{{"a", at, one("1", `, "metadata": {"m": `+strings.Repeat("[", 127)+strings.Repeat("]", 127)+`},
			"payload": {"m": `+strings.Repeat("[", 127)+strings.Repeat("]", 127)+`}`), "", "", ""}}},
		"nothing": {{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothWays(t, reactEachApart, func(pool *pgxpool.Pool) (outcomes string) {
				for _, decisions := range calls {
					columns := make([][]*string, 6)
					for _, d := range decisions {
						for i, value := range []string{d.timer, d.campaign, d.due, d.events, d.expect, d.refused} {
							columns[i] = append(columns[i], nil)
							if value != "" {
								columns[i][len(columns[i])-1] = &value
							}
						}
					}
					_, err := pool.Exec(t.Context(), `SELECT tidemark.react('p', $1::text[], $2::text[], $3::text[]::timestamptz[], $4::text[],
						$5::text[]::bigint[], $6::text[])`, columns[0], columns[1], columns[2], columns[3], columns[4], columns[5])
					var refused *pgconn.PgError
					if errors.As(err, &refused) {
						outcomes += fmt.Sprintln(refused.Code, refused.Message, refused.Detail, refused.Hint)
					} else if err != nil {
						t.Fatal(err)
					}
					outcomes += query[string](t, pool, everything) + "\n" + fmt.Sprintln(fireDue(t, pool))
				}
				return outcomes
			})
		})
	}
}

func TestTheLastDecisionAboutATimerCounts(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	must(t, pool, registerP)
	react := func(timers, dues, ids string) {
		t.Helper()
		must(t, pool, `SELECT tidemark.react('p', t.timers, array_fill('a'::text, ARRAY[cardinality(t.timers)]), $2::timestamptz[],
			array(SELECT '[{"type": "noted", "id": "00000000-0000-4000-8000-00000000000' || i || '"}]' FROM unnest($3::text[]) AS i),
			array_fill(NULL::bigint, ARRAY[cardinality(t.timers)]), array_fill(NULL::text, ARRAY[cardinality(t.timers)]))
			FROM (SELECT $1::text[] AS timers) AS t`, timers, dues, ids)
	}
	react("{again,gone,moved,kept}", "{2100-01-01Z,2100-01-01Z,2100-01-01Z,2100-01-01Z}", "{1,2,3,4}")
	react("{again,moved,again,new,new}", "{2200-01-01Z,2200-01-01Z,2201-01-01Z,2200-01-01Z,2201-01-01Z}", "{5,6,7,8,9}")
	must(t, pool, `SELECT tidemark.react('p', '{gone,set,set}', '{a,a,a}', ARRAY[NULL, now(), NULL], ARRAY[NULL, '[{"type": "noted"}]', NULL],
		'{NULL,NULL,NULL}', '{NULL,NULL,NULL}')`)
	if got := query[string](t, pool, `SELECT string_agg(timer || right(given_id::text, 1) || to_char(due_at AT TIME ZONE 'UTC', 'YYYY'), ' ' ORDER BY timer)
		FROM tidemark.scheduled`); got != "again72201 kept42100 moved62200 new92201" {
		t.Errorf("the timers are %s", got)
	}
}

// TestATracedEventIsWithinItsLimitsAtOnce has metadata as most events have them: without a closer look at
// them an append costs half.
func TestATracedEventIsWithinItsLimitsAtOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	traced := notedAs("", `, "payload": {"damage": 2}, "metadata": {"traceparent": "`+strings.Repeat("0", 55)+`",
		"causation_id": "`+strings.Repeat("c", 100)+`", "correlation_id": "`+strings.Repeat("c", 100)+`"}`)
	if !query[bool](t, pool, `SELECT tidemark.event_fits($1::jsonb)`, traced) {
		t.Error("it is looked at more closely")
	}
	for _, metadata := range []string{
		`{"long": "` + strings.Repeat("l", 65536) + `"}`, `{"deep": ` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + `}`,
	} {
		if query[bool](t, pool, `SELECT tidemark.event_fits($1::jsonb)`, notedAs("", `, "payload": {}, "metadata": `+metadata)) {
			t.Errorf("metadata of %d bytes are within their limits", len(metadata))
		}
	}
}
