package roles_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/internal/operator/views"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/program"
)

// The traps that the worker's role can lay on its tables, by what runs them.
const layTraps = `
	CREATE FUNCTION tidemark_views.spring(trap text) RETURNS integer LANGUAGE plpgsql IMMUTABLE
		SET search_path = pg_catalog AS $$
		BEGIN
			IF session_user <> '%[1]s_worker_login' THEN
				PERFORM nextval('public.sprung_' || trap);
			END IF;
			RETURN 1;
		EXCEPTION WHEN read_only_sql_transaction THEN
			RAISE EXCEPTION 'the trap %% is sprung', trap;
		END $$;
	CREATE FUNCTION tidemark_views.pull() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM tidemark_views.spring('trigger');
			RETURN CASE TG_OP WHEN 'DELETE' THEN OLD WHEN 'TRUNCATE' THEN NULL ELSE NEW END;
		END $$;
	CREATE TYPE tidemark_views.mood AS ENUM ('good');
	CREATE FUNCTION tidemark_views.told(tidemark_views.mood) RETURNS json LANGUAGE sql IMMUTABLE
		RETURN to_json(tidemark_views.spring('cast'));
	CREATE CAST (tidemark_views.mood AS json) WITH FUNCTION tidemark_views.told(tidemark_views.mood);
	CREATE DOMAIN tidemark_views.one AS integer CHECK (VALUE = tidemark_views.spring('domain'));

	ALTER TABLE tidemark_views.heroes
		ADD COLUMN mood tidemark_views.mood NOT NULL DEFAULT 'good',
		ADD COLUMN one tidemark_views.one DEFAULT 1,
		ADD COLUMN preset integer DEFAULT tidemark_views.spring('default'),
		ADD COLUMN made integer GENERATED ALWAYS AS (tidemark_views.spring('generated')) STORED,
		ADD CHECK (tidemark_views.spring('check') = 1);
	CREATE INDEX ON tidemark_views.heroes ((tidemark_views.spring('index')));
	CREATE INDEX ON tidemark_views.heroes (name) WHERE tidemark_views.spring('index') = 1;
	CREATE TRIGGER rows BEFORE INSERT OR UPDATE OR DELETE ON tidemark_views.heroes FOR EACH ROW
		EXECUTE FUNCTION tidemark_views.pull();
	CREATE TRIGGER truncates BEFORE TRUNCATE ON tidemark_views.heroes EXECUTE FUNCTION tidemark_views.pull();
	CREATE POLICY everything ON tidemark_views.heroes USING (tidemark_views.spring('policy') = 1);
	ALTER TABLE tidemark_views.heroes ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

	CREATE FUNCTION tidemark_views.hashtextextended(text, integer) RETURNS bigint LANGUAGE sql IMMUTABLE
		RETURN hashtextextended($1, $2::bigint) * tidemark_views.spring('function')`

// A view stands in for a table until the worker looks again.
const (
	layView = `ALTER TABLE tidemark_views.hashed RENAME TO hidden;
		CREATE VIEW tidemark_views.hashed AS SELECT * FROM tidemark_views.hidden WHERE tidemark_views.spring('view') = 1`
	removeView = `DROP VIEW tidemark_views.hashed; ALTER TABLE tidemark_views.hidden RENAME TO hashed`
)

func traps() []string {
	return []string{
		"policy", "cast", "default", "index", "generated", "check", "domain", "trigger", "view", "function",
	}
}

// trapped is an installation with traps on the tables of the projections heroes and hashed.
type trapped struct {
	installation
	worker, operator, super string // addresses
	projections             string // folder
	tidemark                string // program
}

func layout(t *testing.T) trapped {
	t.Helper()
	in := trapped{installation: install(t, false), projections: t.TempDir()}
	in.worker, in.operator, in.super = in.login(t, "worker"), in.login(t, "operator"), in.url
	in.fill(t)
	must(t, pgx.BeginFunc(t.Context(), in.admin, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, "erased", journal.Any, newEvent("somebody"))
		return err
	}))
	publish(t, in.installation, in.as(t, "publisher"))
	text, err := os.ReadFile("../../deploy/kubernetes/example/projections/heroes.sql")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(in.projections, "heroes.sql"), text, 0o600))
	must(t, os.WriteFile(filepath.Join(in.projections, "hashed.sql"), []byte(hashed), 0o600))
	in.tidemark, err = program.Build(t.Context(), "cmd/tidemark")
	must(t, err)
	applies := in.connect(t, in.worker)
	for version := 1; version <= 2; version++ {
		_, err = worker(t, applies, version).Drain(t.Context())
		must(t, err)
	}
	for _, trap := range traps() {
		_, err := in.admin.Exec(t.Context(), "CREATE SEQUENCE public.sprung_"+trap+"; GRANT ALL ON SEQUENCE public.sprung_"+
			trap+" TO PUBLIC", pgx.QueryExecModeSimpleProtocol)
		must(t, err)
	}
	_, err = applies.Exec(t.Context(), fmt.Sprintf(layTraps, in.prefix), pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	return in
}

// untouched fails the test if a session of another login than the worker's has sprung a trap.
func (in trapped) untouched(t *testing.T, what string) {
	t.Helper()
	for _, trap := range traps() {
		var sprung bool
		must(t, in.admin.QueryRow(t.Context(), "SELECT is_called FROM public.sprung_"+trap).Scan(&sprung))
		if sprung {
			t.Errorf("%s springs the trap %s", what, trap)
			_, err := in.admin.Exec(t.Context(), "SELECT setval('public.sprung_"+trap+"', 1, false)")
			must(t, err)
		}
	}
}

// run runs a command of tidemark, and returns its output and its exit code.
func (in trapped) run(t *testing.T, url, line string, more ...string) (out, messages string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, in.tidemark, append(strings.Fields(line), more...)...)
	command.Env = append(os.Environ(), "TIDEMARK_DATABASE_URL="+url, "TIDEMARK_PROJECTIONS_DIR="+in.projections)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); command.ProcessState == nil {
		t.Fatal(err)
	}
	if strings.Contains(stderr.String(), "is sprung") {
		t.Errorf("%s: %s", line, &stderr)
	}
	return stdout.String(), stderr.String(), command.ProcessState.ExitCode()
}

// TestNoCodeOfAReadModelRunsInASessionOfOthers has every command, call and act that may read a read model run
// by an operator and by a superuser.
func TestNoCodeOfAReadModelRunsInASessionOfOthers(t *testing.T) {
	t.Parallel()
	in := layout(t)
	operator, super, applies := in.connect(t, in.operator), in.connect(t, in.super), in.connect(t, in.worker)
	rollBack(t, operator, applies, "counted")
	in.untouched(t, "rollback")
	file := filepath.Join(t.TempDir(), "certificate.json")
	certificate, messages, code := in.run(t, in.operator, "campaign erase erased --yes --by anna --reason why")
	if code != 0 {
		t.Fatalf("campaign erase ends with %d: %s", code, messages)
	}
	in.untouched(t, "campaign erase by the operator")
	must(t, os.WriteFile(file, []byte(certificate), 0o600))
	_, err := worker(t, applies, 1).Drain(t.Context())
	must(t, err)
	_, err = applies.Exec(t.Context(), layView, pgx.QueryExecModeSimpleProtocol)
	must(t, err)

	reads := []struct {
		line string
		code int // for the worker's login
	}{
		{"projection verify heroes --ignore mood --ignore one --ignore preset --ignore made", 0},
		{"projection verify heroes --campaign c --ignore mood --ignore one --ignore preset --ignore made", 0},
		{"projection verify heroes --sample 2 --ignore mood --ignore one --ignore preset --ignore made", 0},
		{"projection verify heroes --repair --by anna --reason why", 7},
		{"projection verify hashed", 0},
		{"campaign as-of --campaign c --seq 1", 0},
		{"campaign diff --campaign c --to 2", 0},
		{"campaign why --campaign c --table heroes --key ann", 0},
		{"campaign why --campaign c --table hashed --key 1", 0},
		{"erase verify " + file, 6}, // the repair makes heroes anew
	}
	for _, actor := range []struct{ who, url string }{{"the operator", in.operator}, {"a superuser", in.super}} {
		who, url := actor.who, actor.url
		for _, read := range reads {
			if read.code != 7 { // repairs later
				_, messages, code := in.run(t, url, read.line)
				if code != 1 || !strings.Contains(messages, in.prefix+"_worker") || !strings.Contains(messages, "--models-url") {
					t.Errorf("%s by %s ends with %d: %s", read.line, who, code, messages)
				}
				in.untouched(t, read.line+" by "+who)
			}
			_, messages, code := in.run(t, url, read.line, "--models-url", in.worker)
			if code != read.code && (read.code != 7 || who == "the operator") { // who repairs first
				t.Errorf("%s by %s, as the worker, ends with %d, want %d: %s", read.line, who, code, read.code, messages)
			}
			in.untouched(t, read.line+" by "+who+" as the worker")
		}
		for _, line := range []string{
			"status", "doctor", "lag", "projection list", "projection places", "gaps detect", "failed list", "outbox report",
			"projection verify heroes --proof", "campaign show c", "campaign erase c --dry-run", "subject erase x --dry-run",
			"campaign replay c --projection heroes --dry-run", "projection rebuild heroes --dry-run",
			"group replay default --projection heroes --dry-run", "projection remove heroes --tables --dry-run",
			"events export",
		} {
			in.run(t, url, line)
			in.untouched(t, line+" by "+who)
		}
	}
	for who, pool := range map[string]*pgxpool.Pool{"the operator": operator, "a superuser": super} {
		report, _, _ := in.run(t, in.operator, "erase verify "+file, "--models-url", in.worker)
		for _, why := range []string{"row-level security", "such as a view"} { // it names what it did not search
			if !strings.Contains(report, why) {
				t.Errorf("erase verify: %s", report)
			}
		}
		_, err := doctor.Run(t.Context(), pool, doctor.Options{})
		must(t, err)
		_, err = (&status.Reader{Pool: pool, Timeout: 30 * time.Second}).Read(t.Context())
		must(t, err)
		in.untouched(t, "doctor and status by "+who)
		in.everyView(t, pool, who)
	}
	_, err = applies.Exec(t.Context(), removeView, pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	_, err = in.admin.Exec(t.Context(), behind, pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	everyAct(t, operator, applies, func(what string) { in.untouched(t, what) })
}

// everyView reads everything that the API and the pages show, in a process that acts with pool and has a
// worker's projections.
func (in trapped) everyView(t *testing.T, pool *pgxpool.Pool, who string) {
	t.Helper()
	a, err := admin.New(admin.Config{
		Pool: pool, Projector: worker(t, in.connect(t, in.worker), 1), Projections: []string{"heroes", "hashed", "counted"},
	})
	must(t, err)
	given := map[string]string{
		"campaign": "c", "projection": "heroes", "seq": "1", "to": "2", "group": "default", "table": "heroes", "key": "ann",
		"ignore": "mood",
	}
	for _, view := range views.All() {
		what := "the view " + view.Name + " by " + who
		read, err := view.Input(view.Params, func(param string) ([]string, bool) {
			value, ok := given[param]
			return []string{value}, ok
		})
		if err == nil {
			_, err = view.Read(t.Context(), views.Reader{Pool: pool, Acts: a, API: true}, read)
		}
		if view.Rows && err != nil || err != nil && strings.Contains(err.Error(), "is sprung") {
			t.Errorf("%s: %v", what, err)
		}
		in.untouched(t, what)
	}
}

// TestASessionIsNamedThatMustNotReadAReadModel calls the functions of the library.
func TestASessionIsNamedThatMustNotReadAReadModel(t *testing.T) {
	t.Parallel()
	in := layout(t)
	certificate, err := erasure.Erase(t.Context(), in.connect(t, in.operator), erasure.Request{
		Campaign: "erased", By: "anna", Reason: "why",
	})
	must(t, err)
	for who, pool := range map[string]*pgxpool.Pool{
		in.prefix + "_operator_login":     in.connect(t, in.operator),
		in.admin.Config().ConnConfig.User: in.admin,
	} {
		code := projecting(t, projector.Config{Pool: pool, Projections: projections(t, 2), GapRate: -1})
		_, err := code.Verify(t.Context(), lookback.VerifyRequest{Projection: "heroes", All: true})
		var foreign *lookback.OwnerError
		if !errors.As(err, &foreign) || *foreign != (lookback.OwnerError{
			Table: "tidemark_views.heroes", Owner: in.prefix + "_worker", User: who,
		}) {
			t.Errorf("verify by %s: %v", who, err)
		}
		_, err = erasure.Verify(t.Context(), pool, pool, *certificate)
		if !errors.As(err, &foreign) || foreign.User != who {
			t.Errorf("erase verify by %s: %v", who, err)
		}
		if _, err = erasure.Verify(t.Context(), pool, in.connect(t, in.worker), *certificate); err != nil {
			t.Errorf("erase verify by %s with the worker's login: %v", who, err)
		}
		in.untouched(t, "verify by "+who)
	}
}

// layThief puts a view in the place of a table that is about to be searched. It has the columns that the search
// asks for, and hands on what it finds in the session that reads it.
const layThief = `
	CREATE TABLE tidemark_views.loot (who text DEFAULT session_user, value text);
	GRANT ALL ON tidemark_views.loot TO PUBLIC;
	CREATE FUNCTION tidemark_views.take() RETURNS tid LANGUAGE plpgsql SET search_path = pg_catalog AS $$
		BEGIN
			INSERT INTO tidemark_views.loot (value) SELECT current_query() UNION ALL SELECT statement FROM pg_prepared_statements;
			RETURN '(0,1)';
		END $$;
	ALTER TABLE tidemark_views.heroes RENAME TO hidden;
	CREATE VIEW tidemark_views.heroes AS SELECT h.*, tidemark_views.take() AS ctid, h.tableoid FROM tidemark_views.hidden h;
	GRANT SELECT ON tidemark_views.heroes TO PUBLIC;
	GRANT USAGE ON SCHEMA tidemark_views TO PUBLIC`

// thief is a session that searches read models. The worker lays the trap once their tables are listed.
type thief struct {
	*pgxpool.Pool
	worker *pgxpool.Pool
	once   sync.Once
}

func (s *thief) Begin(ctx context.Context) (tx pgx.Tx, err error) {
	s.once.Do(func() { _, err = s.worker.Exec(ctx, layThief, pgx.QueryExecModeSimpleProtocol) })
	if err != nil {
		return nil, err
	}
	return s.Pool.Begin(ctx)
}

// sent has the statements of a session, with their arguments.
type sent struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *sent) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.text, "%s %x %[2]v\n", q.SQL, q.Args)
	return ctx
}

func (s *sent) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestTheKeyOfACertificateStaysHiddenFromReadModels has code of a read model look for it in the session that
// searches the table: in one of the operator, where no such code runs, and in one of the worker.
func TestTheKeyOfACertificateStaysHiddenFromReadModels(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"operator", "worker"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			in := install(t, false)
			must(t, pgx.BeginFunc(t.Context(), in.admin, func(tx pgx.Tx) error {
				_, err := journal.Journal{}.AppendAll(t.Context(), tx, journal.Batch{CampaignID: "c", Events: []event.Event{newEvent("somebody")}},
					journal.Batch{CampaignID: "kept", Events: []event.Event{newEvent("another")}})
				return err
			}))
			applies, operator := in.as(t, "worker"), in.as(t, "operator")
			_, err := worker(t, applies, 1).Drain(t.Context())
			must(t, err)
			certificate, err := erasure.Erase(t.Context(), operator, erasure.Request{Campaign: "c", By: "anna", Reason: "why"})
			must(t, err)
			_, err = worker(t, applies, 1).Drain(t.Context())
			must(t, err)
			config, err := pgxpool.ParseConfig(map[string]*pgxpool.Pool{"worker": applies, "operator": operator}[role].Config().ConnString())
			must(t, err)
			session := &sent{}
			config.ConnConfig.Tracer = session
			models, err := pgxpool.NewWithConfig(t.Context(), config)
			must(t, err)
			defer models.Close()
			_, err = erasure.Verify(t.Context(), operator, &thief{Pool: models, worker: applies}, *certificate)
			var foreign *lookback.OwnerError
			if errors.As(err, &foreign) != (role == "operator") {
				t.Errorf("verify: %v", err)
			}
			var laid, others bool
			must(t, in.admin.QueryRow(t.Context(), "SELECT to_regclass('tidemark_views.loot') IS NOT NULL").Scan(&laid))
			loot := ""
			if laid {
				must(t, in.admin.QueryRow(t.Context(), `SELECT coalesce(bool_or(who <> $1), false), coalesce(string_agg(value, ' '), '')
					FROM tidemark_views.loot`, in.prefix+"_worker_login").Scan(&others, &loot))
			}
			if others || laid != (role == "worker") {
				t.Errorf("the trap is laid: %t; it has sprung in a session of others: %t", laid, others)
			}
			rows, err := in.admin.Query(t.Context(), "SELECT encode(hash, 'hex') FROM tidemark.erased_values")
			must(t, err)
			secrets, err := pgx.CollectRows(rows, pgx.RowTo[string])
			must(t, err)
			for _, secret := range append(secrets, hex.EncodeToString(certificate.Key)) {
				if strings.Contains(session.text.String()+loot, secret) {
					t.Errorf("the session of the read models gets %s", secret)
				}
			}
			if len(secrets) == 0 || role == "worker" && !strings.Contains(session.text.String(), `"tidemark_views"."counted"`) {
				t.Errorf("%d values were searched for, by %s", len(secrets), &session.text)
			}
		})
	}
}
