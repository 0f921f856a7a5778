package journal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// waysToAppend are statements that append the events $1 to the campaign c.
func waysToAppend() map[string]string {
	return map[string]string{
		"append":      "SELECT FROM tidemark.append('c', $1::jsonb)",
		"append text": "SELECT FROM tidemark.append('c', $1::text)",
		"append_all": `SELECT FROM tidemark.append_all(jsonb_build_array(
			jsonb_build_object('campaign_id', 'first', 'events', '[{"type": "fine"}]'::jsonb),
			jsonb_build_object('campaign_id', 'c', 'events', $1::jsonb)))`,
		"append_if": `SELECT FROM tidemark.append_if(jsonb_build_array(
			jsonb_build_object('campaign_id', 'c', 'events', $1::jsonb)),
			'{"failIfEventsMatch": {"items": [{"types": ["x"], "tags": ["t"]}]}, "after": 0}'::jsonb)`,
		"append_at": "SELECT tidemark.append_at('c', now(), $1::jsonb)",
		"react":     "SELECT tidemark.react('p', '{NULL}', '{c}', ARRAY[now()], ARRAY[$1::text], '{NULL}', '{NULL}')",
	}
}

func TestEveryAppendNamesTheEventAndTheFieldOfAWrongType(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `INSERT INTO tidemark.readers (kind, topic, publisher, position, reacts_after)
		VALUES ('projection', 'p', '0', 0, 0)`)
	wrong := map[string][]string{
		"event": {"null", "[]", "7", `"x"`, "true"},
		"type":  {`{"type": {"a": 1}}`, `{"type": ["a"]}`, `{"type": 5}`, `{"type": true}`, `{"type": null}`},
	}
	add := func(field string, values ...string) {
		for _, value := range values {
			wrong[field] = append(wrong[field], fmt.Sprintf(`{"type": "x", %q: %s}`, field, value))
		}
	}
	for _, field := range []string{"actor", "aggregate_type", "aggregate_id", "intent"} {
		add(field, `{"a": 1}`, `["a"]`, "5", "false")
	}
	add("tags", `{"a": 1}`, `"{a,b}"`, `"a"`, "5", `[{"a": 1}]`, `[["a"]]`, "[1]", "[null]", `["a", ""]`)
	add("id", "5", "{}", `["11111111-1111-4111-8111-111111111111"]`, `"xyz"`, `""`)
	add("version", "1.5", `"1"`, "{}", "[1]", "0", "-1", "2147483648", "1e131000", "true")
	add("occurred_at", "5", "{}", `["2026-03-01T12:00:00Z"]`, `""`, `"now"`, `"soon"`, `"infinity"`, `"epoch"`,
		`"05/04/2024 12:00:00Z"`, `"2024-03-10 12:00:00"`, `"2024-03-10T12:00:00"`, `"2024-03-10"`, `"12:00:00Z"`,
		`"2024-03-10T12:00:00 Europe/Berlin"`, `"2024-03-10T12:00:00 EST"`, `"2024-03-10T12:00Z"`, `"20240310T120000Z"`,
		`"2024-03-10T12:00:00+01"`, `"2024-03-10T12:00:00+0100"`, `"2024-03-10T12:00:00+16:00"`, `"2024-03-10T24:00:00Z"`,
		`"2024-02-30T12:00:00Z"`, `"2023-02-29T12:00:00Z"`, `"2024-04-31T12:00:00Z"`, `"2024-13-01T12:00:00Z"`,
		`"2024-03-10T12:60:00Z"`, `"2024-03-10T12:00:00Z\n"`, `"\n2024-03-10T12:00:00Z"`, `"2024-03-10T12:00:00Z BC"`,
		`"0000-01-01T00:00:00Z"`, `"0001-01-01T00:00:00+01:00"`, `"9999-12-31T23:59:59-01:00"`, `"10000-01-01T00:00:00Z"`,
		`"２024-03-10T12:00:00Z"`)
	for way, statement := range waysToAppend() {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			for field, events := range wrong {
				for _, event := range events {
					for index, list := range []string{"[" + event + "]", `[{"type": "fine"}, ` + event + "]"} {
						_, err := pool.Exec(t.Context(), statement, list)
						var pgErr *pgconn.PgError
						if !errors.As(err, &pgErr) || pgErr.Code != invalidEvent {
							t.Errorf("%s: got %v", list, err)
							continue
						}
						var detail struct {
							Campaign, Field, Reason string
							Index                   int
						}
						if err := json.Unmarshal([]byte(pgErr.Detail), &detail); err != nil || detail.Campaign != "c" ||
							detail.Field != field || detail.Index != index || detail.Reason == "" {
							t.Errorf("%s: the detail is %s, %v", list, pgErr.Detail, err)
						}
					}
				}
			}
		})
	}
	t.Cleanup(func() {
		const rows = "SELECT (SELECT count(*) FROM tidemark.journal) + (SELECT count(*) FROM tidemark.scheduled)"
		var n int64
		if err := pool.QueryRow(t.Context(), rows).Scan(&n); err == nil && n != 0 {
			t.Errorf("what was refused wrote %d rows", n)
		}
	})
}

func TestCallsForSeveralCampaignsNameWhatHasAWrongType(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, batch := range []string{
		`{"campaign_id": {"a": 1}, "events": [{"type": "x"}]}`, `{"campaign_id": 5, "events": [{"type": "x"}]}`,
		`{"campaign_id": "c", "events": [{"type": "x"}], "expect": "soon"}`,
		`{"campaign_id": "c", "events": [{"type": "x"}], "expect": 1.5}`,
		`{"campaign_id": "c", "events": [{"type": "x"}], "expect": [1]}`,
		`{"campaign_id": "c", "events": [{"type": "x"}], "expect": 10000000000000000000}`,
	} {
		for _, statement := range []string{
			"SELECT FROM tidemark.append_all(jsonb_build_array($1::jsonb))",
			"SELECT FROM tidemark.append_if(jsonb_build_array($1::jsonb), '{}'::jsonb)",
		} {
			if _, err := pool.Exec(t.Context(), statement, batch); !hasState(err, invalidEvent) {
				t.Errorf("%s of %s: got %v", statement, batch, err)
			}
		}
	}
	for _, condition := range []string{
		`{"after": "soon"}`, `{"after": 1.5}`, `{"after": {}}`, `{"seen": 5}`, `{"seen": {"a": 1}}`, `{"seen": ["x"]}`,
		`{"seen": [1.5]}`, `{"seen": [null]}`, `{"seen": [10000000000000000000]}`,
	} {
		_, err := pool.Exec(t.Context(), `SELECT FROM tidemark.append_if(
			'[{"campaign_id": "c", "events": [{"type": "x"}]}]'::jsonb, $1::jsonb)`, condition)
		if !hasState(err, invalidEvent) {
			t.Errorf("%s: got %v", condition, err)
		}
	}
}

func hasState(err error, state string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == state
}

func TestATimeIsTheSameInstantInEverySession(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for n, text := range []string{
		"2026-03-01T12:00:00Z", "2026-03-01t12:00:00z", "2026-03-01 12:00:00+00:00", "2024-05-04T12:00:00.123456+05:30",
		"2024-02-29T23:59:59-12:00", "2000-02-29T00:00:00Z", "2026-01-31T00:00:00Z", "2026-12-30T00:00:00.9Z",
		"0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1800-01-01T00:00:00+14:00", "2016-12-31T23:59:59+00:00",
	} {
		want, err := time.Parse(time.RFC3339Nano, strings.ToUpper(strings.Replace(text, " ", "T", 1)))
		if err != nil {
			t.Fatal(err)
		}
		events := fmt.Sprintf(`[{"id": "11111111-1111-4111-8111-1111111111%02d", "type": "x", "occurred_at": %q}]`, n, text)
		plain := fmt.Sprintf(`[{"type": "x", "occurred_at": %q}]`, text)
		for i, settings := range []string{
			"timezone = 'UTC'; SET datestyle = 'ISO, MDY'", "timezone = 'Pacific/Chatham'; SET datestyle = 'SQL, DMY'",
			"timezone = 'Asia/Tokyo'; SET datestyle = 'German'",
		} {
			conn, err := pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Exec(t.Context(), "SET "+settings); err != nil {
				t.Fatal(err)
			}
			for campaign, events := range map[string]string{
				fmt.Sprintf("given %d", n): events, fmt.Sprintf("plain %d, %d", n, i): plain,
			} {
				var got time.Time
				var seq int64
				err := conn.QueryRow(t.Context(), "SELECT seq FROM tidemark.append($1, $2::jsonb)", campaign, events).Scan(&seq)
				if err == nil {
					err = conn.QueryRow(t.Context(), "SELECT occurred_at FROM tidemark.journal WHERE campaign_id = $1",
						campaign).Scan(&got)
				}
				if err != nil || seq != 1 || !got.Equal(want) {
					t.Errorf("%s with %s: got seq %d, %v, %v", text, settings, seq, got, err)
				}
			}
			conn.Release()
		}
	}
}

func TestAnEmptyTextIsNone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const empty = `{"type": "x", "actor": "", "aggregate_type": "", "aggregate_id": ""}`
	const given = `{"type": "x", "actor": "", "aggregate_type": "", "id": "11111111-1111-4111-8111-111111111111"}`
	for _, events := range []string{
		"[" + empty + "]", "[" + given + "]", "[" + given + "]", "[" + empty + "," + empty + "]",
		`[{"type": "x", "id": "11111111-1111-4111-8111-111111111111"}]`,
	} {
		exec(t, pool, "SELECT FROM tidemark.append('c', '"+events+"'::jsonb)")
	}
	const none = "SELECT count(*) FROM tidemark.journal WHERE coalesce(actor, aggregate_type, aggregate_id) IS NULL"
	if n := query[int64](t, pool, none); n != 4 {
		t.Errorf("%d of 4 events have none", n)
	}
}
