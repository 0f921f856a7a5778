package doctor_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/sqltest"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestEveryStatementPreparesOnTheMigratedSchema(t *testing.T) {
	t.Parallel()
	sqltest.Prepare(t, pgtest.New(t), "", "tablesOfCitus", "tablesOfTimescale") // extensions that are not installed
}

func byCheck(t *testing.T, findings []doctor.Finding) map[string]doctor.Finding {
	t.Helper()
	all := map[string]doctor.Finding{}
	for _, f := range findings {
		if (f.Status == doctor.OK) != (f.Remedy == "") {
			t.Errorf("%s is %s with the remedy %q", f.Check, f.Status, f.Remedy)
		}
		if _, twice := all[f.Check]; twice || f.Detail == "" {
			t.Errorf("%+v: twice %t", f, twice)
		}
		all[f.Check] = f
	}
	return all
}

func TestAHealthyDatabaseIsFoundSo(t *testing.T) {
	t.Parallel()
	pool := healthy(t)
	if err := outbox.Register(t.Context(), pool, "default"); err != nil {
		t.Fatal(err)
	}
	findings, err := doctor.Run(t.Context(), pool, doctor.Options{Mode: "outbox_apply_only", ModeFrom: "defaults"})
	if err != nil {
		t.Fatal(err)
	}
	// Checks that depend on the test server or on running workers are skipped.
	for name, f := range byCheck(t, findings) {
		switch name {
		case "durability", "idle-transactions", "postgres", "connections", "listen":
		default:
			if f.Status != doctor.OK {
				t.Errorf("%+v", f)
			}
		}
	}
	if len(findings) != 26 {
		t.Errorf("%d findings", len(findings))
	}
}

func TestEachTroubleIsFound(t *testing.T) {
	t.Parallel()
	pool := healthy(t)
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, "forgotten", journal.Any, event.Event{Type: "noted"})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `
		INSERT INTO tidemark.consumer_groups (name, state) VALUES ('g', 'filing');
		INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
			VALUES ('g', 'c', 'dead', 1, now() - interval '1 h', 0);
		INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status)
			VALUES ('c', 'p', 'g', 1, 'dead');
		ALTER SEQUENCE tidemark.journal_position CACHE 20;
		ALTER TABLE tidemark.leases SET (fillfactor = 90); ALTER TABLE tidemark.outbox
			SET (autovacuum_enabled = false); ALTER FUNCTION tidemark.append_all(jsonb) SECURITY
			DEFINER;`, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	findings, err := doctor.Run(t.Context(), pool, doctor.Options{ModeFrom: "nonsense"})
	if err != nil {
		t.Fatal(err)
	}
	all := byCheck(t, findings)
	for name, want := range map[string]struct {
		status doctor.Status
		detail string
	}{
		"mode":        {doctor.Warn, "nonsense"},
		"groups":      {doctor.Warn, "g filing"},
		"projections": {doctor.Warn, "projection p: 1 campaign is dead"},
		"sequence":    {doctor.Fail, "CACHE 20"},
		"gaps":        {doctor.Warn, "1 among"},
		"listen":      {doctor.Warn, "no worker"},
		"autovacuum":  {doctor.Warn, "leases has fillfactor=90, not fillfactor=50; outbox has autovacuum_enabled=false"},
		"privileges": {
			doctor.Warn,
			"SECURITY DEFINER of tidemark.append, which others have, SECURITY DEFINER of tidemark.append_all, which",
		},
		"pooler": {doctor.OK, "none"},
	} {
		if f := all[name]; f.Status != want.status || !strings.Contains(f.Detail, want.detail) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if worst := doctor.Worst(findings); worst != doctor.Fail {
		t.Errorf("the worst is %s", worst)
	}
}

func TestADatabaseWithoutTheSchemaIsFoundSo(t *testing.T) {
	t.Parallel()
	conn := pgtest.Empty(t)
	pool := open(t, conn)
	findings, err := doctor.Run(t.Context(), pool, doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	last := findings[len(findings)-1]
	if last.Check != "schema" || last.Status != doctor.Fail || !strings.Contains(last.Remedy, "tidemark migrate up") {
		t.Errorf("%+v", last)
	}
}

// healthy returns a pool on a database whose settings the doctor approves.
func healthy(t *testing.T) *pgxpool.Pool {
	t.Helper()
	url := pgtest.URL(t)
	tally.Exec(t, open(t, url), `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I RESET client_encoding', current_database());
		EXECUTE format('ALTER DATABASE %I RESET standard_conforming_strings', current_database());
	END $$`)
	return open(t, url)
}

func open(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	if !strings.Contains(url, "client_encoding") {
		url = pgtest.UTF8(url)
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func TestWhatTheServersSettingsSayIsFound(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]doctor.Status{"0": doctor.Warn, "60s": doctor.OK} {
		url := pgtest.URL(t)
		findings, err := doctor.Run(t.Context(), open(t, pgtest.With(url, "idle_in_transaction_session_timeout", limit)),
			doctor.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if f := byCheck(t, findings)["idle-transactions"]; f.Status != want {
			t.Errorf("with %s: %+v", limit, f)
		}
	}
}

func TestWhoHoldsLocksOfOursIsNamed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(),
		"SET application_name = 'culprit'; SELECT pg_advisory_lock(tidemark.lock_key(32003, 0))",
		pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	findings, err := doctor.Run(t.Context(), pool, doctor.Options{Mode: "outbox_apply_only", ModeFrom: "defaults"})
	if err != nil {
		t.Fatal(err)
	}
	f := byCheck(t, findings)["postgres"]
	if f.Status != doctor.Warn || !strings.Contains(f.Detail, fmt.Sprintf("process %d", conn.Conn().PgConn().PID())) ||
		!strings.Contains(f.Detail, "culprit") {
		t.Errorf("%+v", f)
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_unlock_all()"); err != nil {
		t.Fatal(err)
	}
}
