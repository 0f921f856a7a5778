package roles_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// routine is a function of the schema tidemark.
type routine struct {
	OID        uint32
	Name, Call string // Call passes NULL for every argument
	Definer    bool
}

func (in installation) routines(t *testing.T) []routine {
	t.Helper()
	rows, err := in.admin.Query(t.Context(), `SELECT p.oid, p.proname, format('SELECT FROM tidemark.%I(%s)', p.proname,
			(SELECT string_agg('NULL::' || format_type(a.type, NULL), ', ' ORDER BY a.ord)
				FROM unnest(p.proargtypes) WITH ORDINALITY AS a (type, ord))), p.prosecdef
		FROM pg_proc p WHERE p.pronamespace = 'tidemark'::regnamespace AND p.prorettype <> 'trigger'::regtype
		ORDER BY p.proname, p.oid`)
	must(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[routine])
	must(t, err)
	return all
}

// Each role calls each function: Postgres lets it, or names the function that it refuses.
func TestEachRoleCallsExactlyWhatTheGuideSays(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	for _, role := range roles() {
		conn, err := in.as(t, role).Acquire(t.Context())
		must(t, err)
		for _, f := range in.routines(t) {
			var may bool
			must(t, in.admin.QueryRow(t.Context(), `SELECT has_function_privilege($1, $2::oid, 'EXECUTE')
				AND has_schema_privilege($1, 'tidemark', 'USAGE')`, in.prefix+"_"+role, f.OID).Scan(&may))
			err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `SET LOCAL statement_timeout = '20s'`)
				must(t, err)
				if _, err = tx.Exec(t.Context(), f.Call); err == nil {
					err = errors.New("rolled back")
				}
				return err
			})
			var failed *pgconn.PgError
			errors.As(err, &failed)
			refused := failed != nil && failed.Code == "42501" &&
				(strings.HasSuffix(failed.Message, "function "+f.Name) || strings.HasSuffix(failed.Message, "schema tidemark"))
			switch {
			case refused == may:
				t.Errorf("%s calls %s: %v, and the grants say %t", role, f.Call, err, may)
			case failed != nil && (strings.HasPrefix(failed.Code, "XX") || strings.HasPrefix(failed.Code, "57")):
				t.Errorf("%s calls %s: %v", role, f.Call, err)
			}
		}
		conn.Release()
	}
}

// attack is a call of a function that runs as the owner, by a role that may call it.
type attack struct {
	role, sql string
	code      string // "": it succeeds
	changes   string // tables whose content it may change
}

const (
	hugeArray = `(SELECT array_agg(n::text) FROM generate_series(1, 300000) n)`
	someone   = `E'\\x0000000000000000000000000000000000000000000000000000000000000001'::bytea`
)

// attacks lists by function what a member of a role may pass: nothing, too much, what belongs to others, and what is
// forged. None of it changes a table other than the named ones.
func attacks() map[string][]attack {
	as := func(role string, code, changes string, calls ...string) (all []attack) {
		for _, call := range calls {
			all = append(all, attack{role, call, code, changes})
		}
		return all
	}
	token := func(name, role, hash, actor string) string {
		return fmt.Sprintf(`SELECT tidemark.create_token(%s, %s, %s, '1 hour', %s, '', '', 0, '')`, name, role, hash, actor)
	}
	return map[string][]attack{
		"append": as("appender", "TM004", "", `SELECT FROM tidemark.append(NULL, '[]')`, `SELECT FROM tidemark.append('', '[{"type": "x"}]')`,
			`SELECT FROM tidemark.append('c', '{}')`, `SELECT FROM tidemark.append('c', '[{"type": "x", "tidemark_expect": 1, "type": ""}]')`),
		"append_all": as("appender", "TM004", "", `SELECT FROM tidemark.append_all(NULL)`, `SELECT FROM tidemark.append_all('{}')`,
			`SELECT FROM tidemark.append_all('[{"campaign_id": null, "events": [{"type": "x"}]}]')`),
		"append_if": as("appender", "TM004", "", `SELECT FROM tidemark.append_if('[{"campaign_id": "c", "events": [{"type": "x"}]}]', '{"x": 1}')`),
		"append_at": as("appender", "TM004", "", `SELECT tidemark.append_at(NULL, now(), '[{"type": "x"}]')`,
			`SELECT tidemark.append_at('c', NULL, '[{"type": "x"}]')`, `SELECT tidemark.append_at('c', 'infinity', '[{"type": "x"}]')`,
			`SELECT tidemark.append_at('c', now(), '[]')`),
		"schedule": as("appender", "TM004", "", `SELECT tidemark.schedule(NULL, now(), '[{"type": "x"}]')`,
			`SELECT tidemark.schedule('c', 'infinity', '[{"type": "x"}]')`, `SELECT tidemark.schedule('c', now(), '[]')`),
		"cancel_scheduled": as("appender", "", "", `SELECT tidemark.cancel_scheduled(NULL)`, `SELECT tidemark.cancel_scheduled(-1)`),
		"cancel_for_operator": slices.Concat(
			as("worker", "22023", "", `SELECT tidemark.cancel_for_operator(1, NULL, '', '', 0, '')`, `SELECT tidemark.cancel_for_operator(1, '', '', '', 0, '')`),
			as("worker", "", "", `SELECT tidemark.cancel_for_operator(NULL, 'eve', '', '', 0, '')`, `SELECT tidemark.cancel_for_operator(-7, 'eve', '', '', 0, '')`),
			as("worker", "", "scheduled operator_log", `SELECT tidemark.cancel_for_operator((SELECT max(id) FROM tidemark.scheduled), 'eve', '', 'cli', 0, '')`)),
		"reschedule": slices.Concat(
			as("appender", "TM004", "", `SELECT tidemark.reschedule(1, NULL)`, `SELECT tidemark.reschedule(NULL, 'infinity')`,
				`SELECT tidemark.reschedule(1, '-infinity')`),
			as("appender", "", "", `SELECT tidemark.reschedule(NULL, now())`, `SELECT tidemark.reschedule(-1, now())`)),
		"reschedule_for_operator": slices.Concat(
			as("worker", "22023", "", `SELECT tidemark.reschedule_for_operator(1, now(), NULL, '', '', 0, '')`,
				`SELECT tidemark.reschedule_for_operator(1, now(), '', '', '', 0, '')`),
			as("worker", "TM004", "", `SELECT tidemark.reschedule_for_operator(1, NULL, 'eve', '', '', 0, '')`),
			as("worker", "", "", `SELECT tidemark.reschedule_for_operator(-7, now(), 'eve', '', '', 0, '')`),
			as("worker", "", "scheduled operator_log", `SELECT tidemark.reschedule_for_operator((SELECT max(id) FROM tidemark.scheduled),
				now() + interval '1 year', 'eve', '', 'cli', 0, '')`)),
		"fire_scheduled": slices.Concat(
			as("worker", "22023", "", `SELECT FROM tidemark.fire_scheduled(0, NULL, '-infinity', 0, '{}', NULL, false)`,
				`SELECT FROM tidemark.fire_scheduled(-5, 'c', '-infinity', 0, '{}', NULL, false)`),
			// What is scheduled for later stays, whoever asks for it and however.
			as("publisher", "", "", `SELECT FROM tidemark.fire_scheduled(1, 'later', '-infinity', 0, '{}', NULL, false)`,
				`SELECT FROM tidemark.fire_scheduled(NULL, NULL, '-infinity', 0, '{}', '100 years', true)`,
				`SELECT FROM tidemark.fire_scheduled(2147483647, NULL, '-infinity', -1, `+hugeArray+`, '-100 years', true)`,
				`SELECT FROM tidemark.fire_scheduled(9, NULL, 'infinity', 0, NULL, NULL, NULL)`,
				`SELECT tidemark.fire_scheduled(9, 'later', '-infinity', 0, '{}', NULL, false) FROM set_config('TimeZone', 'UTC+12', true)`)),
		"react": slices.Concat(
			as("process", "22023", "", fmt.Sprintf(react, "stranger", "t", "c"), `SELECT tidemark.react(NULL, NULL, NULL, NULL, NULL, NULL, NULL)`,
				`SELECT tidemark.react('worker', '{t}', '{c}', ARRAY[now()], '{"[]"}', '{1}', '{x}')`),
			// A timer of another process stays.
			as("process", "", "", `SELECT tidemark.react('registered', ARRAY['others/k/t'], ARRAY[NULL::text], ARRAY[NULL::timestamptz],
				ARRAY[NULL::text], ARRAY[NULL::bigint], ARRAY[NULL::text])`,
				`SELECT tidemark.react('registered', NULL, NULL, NULL, NULL, NULL, NULL)`),
			as("process", "TM004", "", `SELECT tidemark.react('registered', '{NULL}', '{c}', ARRAY[now()], ARRAY['{}'], '{NULL}', '{NULL}')`,
				`SELECT tidemark.react('registered', '{NULL}', '{c}', ARRAY[now()], ARRAY['[{"type": "x", "metadata": [1]}]'], '{NULL}', '{NULL}')`,
				`SELECT tidemark.react('registered', '{NULL}', '{NULL}', ARRAY[now()], ARRAY['[{"type": "x"}]'], '{NULL}', '{NULL}')`,
				`SELECT tidemark.react('registered', '{NULL}', '{c}', ARRAY[NULL::timestamptz], ARRAY['[{"type": "x"}]'], '{NULL}', '{NULL}')`)),
		"await": as("appender", "", "", `SELECT tidemark.await(NULL)`, `SELECT tidemark.await(-2147483648)`, `SELECT tidemark.await(2147483647)`),
		"applied": as("appender", "", "", `SELECT FROM tidemark.applied(NULL, NULL, NULL, NULL)`,
			`SELECT FROM tidemark.applied(`+hugeArray+`, '{1}', '{1}', '{x}')`),
		"wait_for_work": as("publisher", "", "", `SELECT tidemark.wait_for_work(NULL)`, `SELECT tidemark.wait_for_work(9223372036854775807)`,
			`SELECT tidemark.wait_for_work(-9223372036854775808)`),
		"may_notify": as("publisher", "", "", `SELECT tidemark.may_notify()`),
		"end_wait":   as("publisher", "", "", `SELECT tidemark.end_wait(NULL)`, `SELECT tidemark.end_wait(-1)`),
		"log_act": slices.Concat(
			as("worker", "23502", "", `SELECT tidemark.log_act(NULL, 'x', '', '', '', '', 0, NULL, '', 0, '')`, `SELECT tidemark.log_act('eve', NULL, '', '', '', '', 0, NULL, '', 0, '')`),
			as("worker", "23514", "", `SELECT tidemark.log_act('eve', 'x', '', '', '', '', 0, NULL, 'forged', 0, '')`)),
		"prune_log": slices.Concat(
			as("publisher", "22023", "", `SELECT tidemark.prune_log(NULL, 1)`, `SELECT tidemark.prune_log('1 day', -1)`, `SELECT tidemark.prune_log('1 day', NULL)`,
				`SELECT tidemark.prune_log('1 day', 2147483647)`),
			as("publisher", "", "", `SELECT tidemark.prune_log('-1000 years', 1000)`)),
		"create_token": slices.Concat(
			as("worker", "22023", "", token(`NULL`, `'admin'`, someone, `'eve'`), token(`'x'`, `'root'`, someone, `'eve'`), token(`'x'`, `'admin'`, `E'\\x00'`, `'eve'`),
				token(`'x'`, `'admin'`, someone, `''`), token(`'a b'`, `'admin'`, someone, `'eve'`)),
			as("worker", "", "", token(`'theirs'`, `'admin'`, someone, `'eve'`))), // the name is another's
		"revoke_token": slices.Concat(
			as("worker", "22023", "", `SELECT tidemark.revoke_token('theirs', '', '', '', 0, '')`),
			as("worker", "", "", `SELECT tidemark.revoke_token(NULL, 'eve', '', '', 0, '')`)),
		"use_token":       as("worker", "", "", `SELECT FROM tidemark.use_token(NULL)`, `SELECT FROM tidemark.use_token(`+someone+`)`),
		"find_session":    as("worker", "", "", `SELECT FROM tidemark.find_session(NULL)`, `SELECT FROM tidemark.find_session(`+someone+`)`),
		"end_session":     as("worker", "", "", `SELECT tidemark.end_session(NULL)`, `SELECT tidemark.end_session(`+someone+`)`),
		"valid_secrets":   as("worker", "", "", `SELECT FROM tidemark.valid_secrets()`),
		"holding_secrets": as("worker", "", "", `SELECT FROM tidemark.holding_secrets(NULL)`, `SELECT FROM tidemark.holding_secrets(`+hugeArray+`::bytea[])`),
		"begin_session": slices.Concat(
			as("worker", "22023", "", `SELECT tidemark.begin_session(NULL, NULL, NULL)`, `SELECT tidemark.begin_session(`+someone+`, `+someone+`, '100 years')`),
			// Whoever knows the hash of a session, or its hash's hash, does not know a token.
			as("worker", "", "", `SELECT tidemark.begin_session(`+someone+`, `+someone+`, '1 hour')`,
				`SELECT tidemark.begin_session(s, sha256(s), '1 hour') FROM tidemark.valid_secrets() s`)),
		"subject_keys": slices.Concat(
			as("appender", "", "", `SELECT FROM tidemark.subject_keys('[]')`, `SELECT FROM tidemark.subject_keys(NULL)`,
				// The subject has a key, which stays.
				`SELECT FROM tidemark.subject_keys(jsonb_build_array(jsonb_build_object('subject', encode(sha256('ann'), 'hex'), 'id',
					gen_random_uuid(), 'wrapped', encode(sha256('x'), 'base64'), 'wrapped_by', 'eve')))`),
			as("appender", "23514", "", `SELECT FROM tidemark.subject_keys('[{"subject": "00", "id": "01a21831-0aaf-7001-9512-0e2cf06179e0", "wrapped": "", "wrapped_by": "x"}]')`)),
		"wrapping_key": slices.Concat(
			as("appender", "", "", `SELECT tidemark.wrapping_key(NULL, NULL)`, `SELECT tidemark.wrapping_key('', '')`,
				// It is on record, which stays.
				`SELECT tidemark.wrapping_key('a', encode(sha256('x'), 'base64'))`),
			as("appender", "23502", "", `SELECT tidemark.wrapping_key(NULL, encode(sha256('x'), 'base64'))`),
			as("appender", "23514", "", `SELECT tidemark.wrapping_key('', encode(sha256('x'), 'base64'))`,
				`SELECT tidemark.wrapping_key('b', encode('x', 'base64'))`, `SELECT tidemark.wrapping_key(repeat('b', 300), encode(sha256('x'), 'base64'))`),
			as("appender", "22023", "", `SELECT tidemark.wrapping_key('b', '!')`)),
		"history":      as("appender", "", "", `SELECT tidemark.history()`),
		"instance":     as("worker", "", "", `SELECT tidemark.instance()`),
		"keep_history": as("publisher", "", "", `SELECT tidemark.keep_history()`),
		"request_hash": as("worker", "", "", `SELECT tidemark.request_hash(NULL)`, `SELECT tidemark.request_hash(E'\\x00')`),
		"resume": as("appender", "", "", `SELECT tidemark.resume(NULL, NULL)`, `SELECT tidemark.resume(-1, 'none')`,
			`SELECT tidemark.resume(9223372036854775807, '')`),
		"notices": as("publisher", "", "", `SELECT FROM tidemark.notices(NULL, NULL)`,
			`SELECT FROM tidemark.notices('{-1,9223372036854775807}', `+hugeArray+`)`),
		"copy_faults":       as("publisher", "", "", `SELECT FROM tidemark.copy_faults(NULL)`),
		"greatest_position": as("publisher", "", "", `SELECT FROM tidemark.greatest_position(NULL)`),
		"repair_copy":       as("worker", "", "", `SELECT FROM tidemark.repair_copy()`), // nothing is behind
		"ask_restore":       as("appender", "", "", `SELECT tidemark.ask_restore(NULL)`, `SELECT tidemark.ask_restore('no such campaign')`),
		"archive_mark": as("publisher", "", "", `SELECT tidemark.archive_mark(NULL, NULL)`,
			`SELECT tidemark.archive_mark(-9223372036854775808, 9223372036854775807)`),
		"archived_after": as("publisher", "", "", `SELECT FROM tidemark.archived_after(NULL, NULL, NULL)`,
			`SELECT FROM tidemark.archived_after(-9223372036854775808, `+hugeArray+`, 2147483647)`),
		"require_positions": as("publisher", "", "", `SELECT tidemark.require_positions(NULL, NULL, NULL)`, `SELECT tidemark.require_positions(0, 9, `+hugeArray+`)`),
	}
}

// guarded are the tables that no attack may change.
const guarded = `journal event_tags limits keys wrapping_keys tokens sessions operator_log scheduled archives erasures erased_events erased_values
	projections readers outbox leases`

// A function that runs as the owner refuses what an attacker passes, or changes nothing by it. Each such function that a
// role other than operators may call is listed.
func TestFunctionsThatRunAsTheOwnerTrustNoArgument(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	in.fill(t)
	_, err := in.admin.Exec(t.Context(), `
		INSERT INTO tidemark.tokens (name, role, hash, created_by) VALUES ('theirs', 'admin', sha256('theirs'), 'ada');
		INSERT INTO tidemark.sessions (hash, token_id, expires_at) SELECT sha256('session'), id, 'infinity' FROM tidemark.tokens;
		INSERT INTO tidemark.keys (id, subject, wrapped, wrapped_by) VALUES (gen_random_uuid(), sha256('ann'), sha256('k'), 'a');
		INSERT INTO tidemark.wrapping_keys (name, check_value) VALUES ('a', sha256('a'));
		SELECT tidemark.append_at('later', now() + interval '1 day', '[{"type": "x"}]', 'others');
		SELECT tidemark.append_at('later', now() + interval '1 day', '[{"type": "x"}]');
		UPDATE tidemark.scheduled SET timer = 'others/k/t' WHERE scheduled_by = 'others';
		INSERT INTO tidemark.readers (kind, topic, publisher, position, reacts_after)
			VALUES ('projection', 'registered', '0', 0, 0), ('projection', 'worker', '0', 0, NULL)`, pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	digest := map[string]string{}
	for _, table := range strings.Fields(guarded) {
		digest[table] = fmt.Sprintf(`SELECT count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)), 0) FROM tidemark.%s t`, table)
	}
	all := attacks()
	for _, f := range in.routines(t) {
		var by string
		must(t, in.admin.QueryRow(t.Context(), `SELECT coalesce(string_agg(r, ' '), '') FROM unnest($1::text[]) r
			WHERE r <> 'operator' AND has_function_privilege($2 || '_' || r, $3::oid, 'EXECUTE')`, roles(), in.prefix, f.OID).Scan(&by))
		if f.Definer && by != "" && all[f.Name] == nil {
			t.Errorf("%s runs as the owner, and %s may call it: list what an attacker passes", f.Name, by)
		}
	}
	pools := map[string]*pgxpool.Pool{}
	for name, list := range all {
		for _, a := range list {
			if pools[a.role] == nil {
				pools[a.role] = in.as(t, a.role)
			}
			before := in.contents(t, digest)
			_, err := pools[a.role].Exec(t.Context(), a.sql)
			var failed *pgconn.PgError
			code := ""
			if errors.As(err, &failed) {
				code = failed.Code
			}
			if code != a.code || err != nil && failed == nil {
				t.Errorf("%s by %s: %v, want %q\n%.400s", name, a.role, err, a.code, a.sql)
			}
			now := in.contents(t, digest)
			for table, was := range before {
				if now[table] != was && !slices.Contains(strings.Fields(a.changes), table) {
					t.Errorf("%s by %s has changed %s:\n%.400s", name, a.role, table, a.sql)
				}
			}
		}
	}
}

func (in installation) contents(t *testing.T, queries map[string]string) map[string]string {
	t.Helper()
	batch, found := &pgx.Batch{}, map[string]string{}
	for table, sql := range queries {
		batch.Queue(sql).QueryRow(func(row pgx.Row) error {
			var digest string
			err := row.Scan(&digest)
			found[table] = digest
			return err
		})
	}
	must(t, in.admin.SendBatch(t.Context(), batch).Close())
	return found
}
