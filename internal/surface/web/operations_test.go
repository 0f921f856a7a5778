package web_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// operations runs the waiting operations as a worker does.
func operations(t *testing.T, pool *pgxpool.Pool, acting admin.Config) {
	t.Helper()
	r, err := admin.NewRunner(admin.RunnerConfig{
		Pool: pool, Owner: "w", Projector: acting.Projector,
		Projections: acting.Projections, Publishers: acting.Publishers, Topics: acting.Topics,
	})
	if err != nil {
		t.Fatal(err)
	}
	for worked := true; worked; {
		if worked, err = r.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOperationsThroughTheAPIAreDone(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	sink := &memory{}
	acting.Topics, acting.Publishers = []publisher.Topic{{Name: "t"}},
		[]publisher.Publisher{{Name: "s", Sink: sink, Topics: []string{"t"}, BatchSize: 1}}
	s := serveOn(t, pool, acting, nil)

	s.act(t, "/api/v1/projections/notes/verify", `{"reason": "is it so?", "with": {"campaigns": ["a"]}}`, http.StatusOK)
	operations(t, pool, acting)
	if got := scan[string](t, pool, newest); got != "verify done done 1 failed 0" {
		t.Errorf("a verification is %q", got)
	}
	exec(t, pool, `UPDATE notes SET doc = '{"count": 99}' WHERE campaign_id = 'a'`)
	s.act(t, "/api/v1/projections/notes/verify", `{"with": {}}`, http.StatusOK)
	operations(t, pool, acting)
	if got := scan[string](t, pool, newest); !strings.HasPrefix(got, "verify done done ") ||
		!strings.HasSuffix(got, " failed 1") {
		t.Errorf("a verification that finds something is %q", got)
	}
	id := scan[int64](t, pool, `SELECT max(id) FROM tidemark.operations`)
	if _, body := s.call(t, auth.Viewer, http.MethodGet, "/api/v1/operations/"+strconv.FormatInt(id, 10)+"/items", "",
		nil); !strings.Contains(body, `"campaign_id":"a"`) || !strings.Contains(body, "differ") {
		t.Errorf("it found %s", body)
	}

	// A proof needs no code, so a worker without code can do it.
	exec(t, pool, `UPDATE tidemark.leases SET applied = applied + 1 WHERE campaign_id = 'a'`)
	s.act(t, "/api/v1/projections/notes/verify", `{"reason": "all of it, once each?", "with": {"proof": true}}`,
		http.StatusOK)
	s.act(t, "/api/v1/projections/notes/verify", `{"with": {"proof": true, "sample": 3}}`, http.StatusBadRequest)
	operations(t, pool, admin.Config{})
	if got := scan[string](t, pool, newest); got != "verify done done 2 failed 1" {
		t.Errorf("a proof that finds something is %q", got)
	}
	id = scan[int64](t, pool, `SELECT max(id) FROM tidemark.operations`)
	if _, body := s.call(t, auth.Viewer, http.MethodGet, "/api/v1/operations/"+strconv.FormatInt(id, 10)+"/items", "",
		nil); !strings.Contains(body, `"detail":"3 events were applied up to seq 2, and the journal has 2"`) {
		t.Errorf("it found %s", body)
	}
	if got := scan[string](t, pool, `SELECT concat_ws(' ', progress ->> 'differing', progress ->> 'group',
		progress ->> 'behind') FROM tidemark.operations ORDER BY id DESC LIMIT 1`); got != "1 default 1" {
		t.Errorf("its progress is %q", got)
	}
	// The projection is removed before a worker starts the operation.
	exec(t, pool, `INSERT INTO tidemark.operations (kind, request, actor)
		VALUES ('verify', '{"projection": "nothing", "proof": true}', 'ada')`)
	operations(t, pool, admin.Config{})
	if got := scan[string](t, pool,
		newest); got != `verify failed done 0 failed 0 prove: projection "nothing": no such projection is registered: there are notes` {
		t.Errorf("a proof of nothing is %q", got)
	}

	// Operations that no worker could ever do are refused.
	started := scan[int](t, pool, `SELECT count(*) FROM tidemark.operations`)
	for call, body := range map[string]string{
		"/projections/nothing/verify": "", "/groups/nowhere/replay": "",
		"/groups/nowhere/repair-gaps":  `{"with": {"confirm": "nowhere"}}`,
		"/campaigns/a/repair-gap":      `{"with": {"group": "nowhere"}}`,
		"/campaigns/nobody/repair-gap": `{"with": {"group": "default"}}`,
		"/publishers/t/nobody/replay":  `{"with": {"campaign": "a", "from": 1, "confirm": "nobody"}}`,
		"/publishers/t/s/replay":       `{"with": {"campaign": "nobody", "from": 1, "confirm": "s"}}`,
	} {
		if text := s.act(t, "/api/v1"+call, body, http.StatusNotFound); !strings.Contains(text, `"remedy":"`) {
			t.Errorf("%s does not say what to do: %s", call, text)
		}
	}
	if n := scan[int](t, pool, `SELECT count(*) FROM tidemark.operations`); n != started {
		t.Errorf("%d operations about nothing were started", n-started)
	}

	s.act(t, "/api/v1/publishers/t/s/replay",
		`{"reason": "lost", "with": {"campaign": "a", "from": 1, "confirm": "s"}}`, http.StatusOK)
	operations(t, pool, acting)
	if got := scan[string](t, pool, newest); got != "republish done done 2 failed 0" ||
		!slices.Equal(sink.taken(), []string{"a 1", "a 2"}) {
		t.Errorf("sending again is %q, and the sink has %q", got, sink.taken())
	}
	if got := scan[string](t, pool, `SELECT string_agg(act, ' ' ORDER BY id) FROM tidemark.operator_log
		WHERE act LIKE 'replay%'`); got != "replay_started replay_ended" {
		t.Errorf("the log has %q", got)
	}
}

func TestARollbackThroughTheAPIPutsTheTablesBack(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	exec(t, pool, `DELETE FROM tidemark.pauses`)
	newer, err := projector.New(projector.Config{
		Pool: pool, PollInterval: 100 * time.Millisecond,
		Projections: []projection.Projection{projection.Document[notes]{
			Name: "notes", Version: 2, Fold: func(n *notes, _ event.Event) error { n.Count += 10; return nil },
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- newer.Run(ctx) }()
	deadline, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for !scan[bool](t, pool, `SELECT EXISTS (SELECT FROM tidemark.projections WHERE name = 'notes~previous')`) {
		select {
		case <-deadline.Done():
			t.Fatal("the tables are not exchanged")
		case <-time.After(10 * time.Millisecond):
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := scan[string](t, pool, `SELECT doc ->> 'count' FROM notes WHERE campaign_id = 'a'`); got != "20" {
		t.Fatalf("the new tables say %s", got)
	}
	s := serveOn(t, pool, acting, nil)
	// The previous tables are verified by workers that have their code.
	if _, err := acting.Projector.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	const was = `UPDATE tidemark_previous_notes.notes SET doc = jsonb_build_object('count',
		(doc ->> 'count')::integer + $1) WHERE campaign_id = 'a'`
	if _, err := pool.Exec(t.Context(), was, 97); err != nil {
		t.Fatal(err)
	}
	if _, body := s.call(t, auth.Operator, http.MethodGet, "/api/v1/campaigns/a/verify?projection=notes~previous", "",
		nil); !strings.Contains(body, `"kind":"different"`) || !strings.Contains(body, "99") {
		t.Errorf("looked at it finds %s", body)
	}
	s.act(t, "/api/v1/projections/notes~previous/verify", `{"with": {}}`, http.StatusOK)
	operations(t, pool, admin.Config{Projector: newer, Projections: []string{"notes"}})
	if got := scan[string](t, pool, newest); got != "verify running done 0 failed 0" {
		t.Errorf("without the code it is %q", got)
	}
	operations(t, pool, acting)
	if got := scan[string](t, pool, newest); !strings.HasPrefix(got, "verify done done ") ||
		!strings.HasSuffix(got, " failed 1") {
		t.Errorf("with the code it is %q", got)
	}
	if _, err := pool.Exec(t.Context(), was, -97); err != nil {
		t.Fatal(err)
	}
	const back = `{"reason": "it is wrong", "with": {"allow_behind": -1, "confirm": "notes"}}`
	s.act(t, "/api/v1/projections/notes/rollback", back, http.StatusOK)
	s.act(t, "/api/v1/projections/notes/rollback", back, http.StatusConflict)
	operations(t, pool, acting)
	if got := scan[string](t, pool, newest); got != "rollback done done 1 failed 0" {
		t.Errorf("the rollback is %q", got)
	}
	if got := scan[string](t, pool, `SELECT doc ->> 'count' FROM notes WHERE campaign_id = 'a'`); got != "2" {
		t.Errorf("the tables say %s", got)
	}
	if got := scan[string](t, pool, lastAct); got != "projection_rolled_back admin it is wrong" {
		t.Errorf("the log ends with %q", got)
	}
}

// A worker that stops while it replays to a publisher leaves the rest to another.
func TestSendingAgainGoesOnInAnotherWorker(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	exec(t, pool, `SELECT tidemark.append('a', '[{"type": "noted"}, {"type": "noted"}]')`)
	dying, die := context.WithCancel(t.Context())
	sink := &memory{meanwhile: func(n int) error {
		if n == 2 {
			die()
			return errors.New("the process ends")
		}
		return nil
	}}
	acting.Topics, acting.Publishers = []publisher.Topic{{Name: "t"}},
		[]publisher.Publisher{{Name: "s", Sink: sink, Topics: []string{"t"}, BatchSize: 1}}
	s := serveOn(t, pool, acting, nil)
	exec(t, pool, `DELETE FROM tidemark.operations`)
	s.act(t, "/api/v1/publishers/t/s/replay", `{"with": {"campaign": "a", "from": 1, "confirm": "s"}}`, http.StatusOK)
	first, err := admin.NewRunner(admin.RunnerConfig{
		Pool: pool, Owner: "first", Publishers: acting.Publishers,
		Topics: acting.Topics,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Step(dying); err != nil {
		t.Fatal(err)
	}
	if got := scan[string](t, pool, newest); got != "republish running done 2 failed 0" {
		t.Errorf("after the first it is %q", got)
	}
	sink.meanwhile = nil
	operations(t, pool, acting)
	if got := scan[string](t, pool, newest); got != "republish done done 4 failed 0" ||
		!slices.Equal(sink.taken(), []string{"a 1", "a 2", "a 3", "a 4"}) {
		t.Errorf("in the end it is %q, and the sink has %q", got, sink.taken())
	}
}
