package matrix_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/migrations/roles"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/worker"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// patience limits all waits.
const patience = time.Minute

// world is a database with a worker that has everything, an archive and a lake.
type world struct {
	*pgxpool.Pool
	t         *testing.T
	act       act
	held      atomic.Bool // what is to be there during the act is held up
	folder    string
	store     *archive.Folder
	prefix    string // of the roles
	worker    string // address of the workers' login
	anna, ben string // of two operators' logins

	log  text
	lake map[string]*text // by publisher

	mu     sync.Mutex
	events []planted
	forgot map[string]bool // persons, when they have been erased
	tried  string          // what the publisher behind has tried to send
}

// text is what is written, for tests to read meanwhile.
type text struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func newWorld(t *testing.T, a act) *world {
	t.Helper()
	w := &world{
		t: t, act: a, folder: t.TempDir(), prefix: "tm_" + strings.ToLower(rand.Text()[:10]), forgot: map[string]bool{},
		lake: map[string]*text{"lake": {}, "behind": {}, "parked": {}},
	}
	w.roles()
	var err error
	w.store, err = archive.NewFolder(w.folder)
	w.must(err)
	t.Cleanup(func() { _ = w.store.Close() })
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// roles makes the database, and logins of a worker and of two operators.
func (w *world) roles() {
	w.t.Helper()
	var server string
	w.t.Cleanup(func() { // after the database is dropped, and with it the roles' privileges there
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), time.Minute)
		defer cancel()
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			w.t.Error(err)
			return
		}
		defer func() { _ = conn.Close(ctx) }()
		var drop *string
		err = conn.QueryRow(ctx, `SELECT 'DROP ROLE ' || string_agg(rolname, ', ' ORDER BY rolname DESC) FROM pg_roles
			WHERE starts_with(rolname, $1)`, w.prefix).Scan(&drop)
		if err == nil && drop != nil {
			_, err = conn.Exec(ctx, *drop)
		}
		if err != nil {
			w.t.Error(err)
		}
	})
	w.Pool = pgtest.New(w.t)
	address, err := url.Parse(w.Config().ConnString())
	w.must(err)
	script, err := roles.Script(roles.Options{Prefix: w.prefix})
	w.must(err)
	_, err = w.Exec(w.t.Context(), script, pgx.QueryExecModeSimpleProtocol)
	w.must(err)
	login := func(name, role string) string {
		as, login := *address, w.prefix+"_"+name
		_, err := w.Exec(w.t.Context(), fmt.Sprintf("CREATE ROLE %[1]s LOGIN PASSWORD 'secret' IN ROLE %[2]s; "+
			"ALTER ROLE %[1]s SET role = '%[2]s'", login, w.prefix+"_"+role), pgx.QueryExecModeSimpleProtocol)
		w.must(err)
		as.User = url.UserPassword(login, "secret")
		return as.String()
	}
	w.worker, w.anna, w.ben = login("works", "process"), login("anna", "operator"), login("ben", "operator")
	if w.act == seal { // operators of it are programs that append, and wrap keys anew
		for _, name := range []string{"anna", "ben"} {
			_, err := w.Exec(w.t.Context(), fmt.Sprintf("GRANT %[1]s_appender TO %[1]s_%[2]s; ALTER ROLE %[1]s_%[2]s RESET role",
				w.prefix, name), pgx.QueryExecModeSimpleProtocol)
			w.must(err)
		}
	}
	as := *address
	as.Path = "/postgres"
	server = as.String()
}

const routes = `
topics:
  all: {}
  behind: {campaign_prefix: behind-}
  parked: {campaign_prefix: parked-}
publishers:
  lake: {topics: [all], sink: {kind: matrix, way: lake}}
  behind: {topics: [behind], backoff_max: 200ms, sink: {kind: matrix, way: behind}}
  parked: {topics: [parked], attempts: 1, sink: {kind: matrix, way: parked}}
`

// sink writes to the lake. While held, the publisher behind has an outage, and the parked one refuses
// the first event of a campaign.
type sink struct {
	w   *world
	way string
}

func (s *sink) Name() string { return s.way }

func (s *sink) Publish(_ context.Context, events []publisher.Event) error {
	if s.way == "behind" && s.w.held.Load() {
		var tried strings.Builder
		for _, e := range events {
			tried.Write(e.Payload)
		}
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		s.w.tried = tried.String()
		return publisher.Outage(errors.New("away"))
	}
	refused := &publisher.BatchError{}
	for i, e := range events {
		if s.way == "parked" && s.w.held.Load() && e.Seq == 1 {
			refused.Failures = append(refused.Failures, publisher.Failure{
				Index: i, Permanent: true, Err: fmt.Errorf("no, %s", e.Payload),
			})
			continue
		}
		if len(refused.Failures) > 0 {
			refused.Failures = append(refused.Failures, publisher.Failure{Index: i, Err: publisher.ErrNotTried})
			continue
		}
		line, err := json.Marshal([]any{e.CampaignID, e.Seq, e.Type, e.Payload, e.Metadata, e.Tags, e.Actor, e.AggregateID})
		if err != nil {
			return err
		}
		_, _ = s.w.lake[s.way].Write(append(line, '\n'))
	}
	if len(refused.Failures) > 0 {
		return refused
	}
	return nil
}

func (w *world) kind() publisher.Kind {
	return publisher.Kind{Name: "matrix", Open: func(s publisher.Settings) (publisher.Sink, error) {
		var settings struct {
			Way string `yaml:"way"`
		}
		err := s.Decode(&settings)
		return &sink{w, settings.Way}, err
	}}
}

// work runs a worker until the test ends.
func (w *world) work() {
	w.t.Helper()
	publishers := filepath.Join(w.t.TempDir(), "publishers.yaml")
	w.must(os.WriteFile(publishers, []byte(routes), 0o600))
	it := worker.New(worker.Options{
		Projections: projections(&w.held), Catalogue: types(), Sinks: []publisher.Kind{w.kind()},
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
		Settings: map[string]string{
			"TIDEMARK_DATABASE_URL": w.worker, "TIDEMARK_HTTP_ADDR": "off", "TIDEMARK_PUBLISHERS": publishers,
			"TIDEMARK_ARCHIVE_URL": "file://" + w.folder, "TIDEMARK_WRAPPING_KEYS_SECRET": wrappingKeys("a", "b"),
			"TIDEMARK_POLL_INTERVAL": "100ms",
		},
	})
	ctx, stop := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- it.Run(ctx) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
		if w.t.Failed() && *logs != "" {
			if err := os.WriteFile(filepath.Join(*logs, string(w.act)+".log"), []byte(w.log.String()), 0o600); err != nil {
				w.t.Error(err)
			}
		}
	})
	w.within("the projections are registered", `SELECT count(*) = 5 FROM tidemark.projections`)
	w.within("the publishers are registered", `SELECT count(*) = 3 FROM tidemark.readers WHERE publisher IN ('lake', 'behind', 'parked')`)
}

// within waits until a statement says true.
func (w *world) within(what, sql string, args ...any) {
	w.t.Helper()
	w.until(what, func() (ready bool) {
		w.must(w.QueryRow(w.t.Context(), sql, args...).Scan(&ready))
		return ready
	})
}

func (w *world) until(what string, ready func() bool) {
	w.t.Helper()
	for limit := time.After(patience); !ready(); {
		select {
		case <-limit:
			w.t.Fatalf("waited in vain: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// read returns a column of texts.
func (w *world) read(sql string, args ...any) []string {
	w.t.Helper()
	rows, err := w.Query(w.t.Context(), sql, args...)
	w.must(err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	w.must(err)
	return all
}

// plant appends events, and remembers them.
func (w *world) plant(events ...planted) {
	w.t.Helper()
	for _, p := range events {
		catalogue := types()
		if p.Sealed {
			catalogue = catalogue.Sealed(wrapped("a", "b"))
		}
		w.must(pgx.BeginFunc(w.t.Context(), w.Pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{Catalogue: catalogue}.Append(w.t.Context(), tx, p.Campaign, journal.Any, p.event())
			return err
		}))
		w.remember(p)
	}
}

func (w *world) remember(events ...planted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, events...)
}

// remembered returns the events, in order.
func (w *world) remembered() []planted {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// quiet waits until workers have nothing to do. Nothing is held.
func (w *world) quiet() {
	w.t.Helper()
	var left []string
	defer func() {
		if len(left) > 0 {
			w.t.Logf("left: %v", left)
		}
	}()
	w.until("all is applied and published", func() bool {
		left = w.read(`SELECT concat_ws(' ', 'outbox', campaign_id) FROM tidemark.outbox
			UNION ALL SELECT concat_ws(' ', 'failed', projection, campaign_id, status) FROM tidemark.failed
			UNION ALL SELECT concat_ws(' ', 'rebuild', projection) FROM tidemark.rebuilds
			UNION ALL SELECT concat_ws(' ', 'parked', campaign_id, status) FROM tidemark.parked
			UNION ALL SELECT name FROM tidemark.projections WHERE name LIKE '%~%'
			UNION ALL SELECT concat_ws(' ', r.topic, r.publisher, r.position, m.position, r.last_error)
				FROM tidemark.readers r CROSS JOIN (SELECT max(position) AS position FROM tidemark.journal) m
				WHERE r.position < m.position`)
		w.retry() // one may have been refused just before the others were sent again
		return len(left) == 0
	})
}
