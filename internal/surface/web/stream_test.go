package web_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
	"github.com/tidemark-go/tidemark/internal/surface/web"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// shown is an event of a stream.
type shown struct {
	event  string // "": an event of the journal
	cursor string
	id     int64
	data   struct {
		CampaignID string `json:"campaign_id"`
		Seq        int64
		Position   int64
		Type       string
		Tags       []string
		Payload    json.RawMessage
	}
}

// following is an open stream of events.
type following struct {
	lines *bufio.Scanner
	stop  func()
}

// follow opens a stream. last is the Last-Event-ID; "": none.
func (s *served) follow(t *testing.T, role auth.Role, path, last string) *following {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/api/v1"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.tokens[role])
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request) //nolint:bodyclose // stop closes it
	if err != nil {
		t.Fatal(err)
	}
	f := &following{lines: bufio.NewScanner(response.Body), stop: func() {
		cancel()
		_ = response.Body.Close()
	}}
	f.lines.Buffer(nil, 4<<20)
	t.Cleanup(f.stop)
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("%s is answered %s, %s", path, response.Status, kind)
	}
	return f
}

// place reads the next id without data, and returns it.
func (f *following) place(t *testing.T) (e shown) {
	t.Helper()
	for f.lines.Scan() {
		name, value, _ := strings.Cut(f.lines.Text(), ": ")
		at, err := event.ParseCursor(value)
		switch {
		case name == "data":
			t.Fatalf("there is an event: %s", value)
		case name == "id" && err != nil:
			t.Fatal(err)
		case name == "id":
			return shown{id: at.Position, cursor: value}
		}
	}
	t.Fatalf("the stream has ended: %v", f.lines.Err())
	return e
}

// next reads the next event.
func (f *following) next(t *testing.T) (e shown) {
	t.Helper()
	for f.lines.Scan() {
		name, value, _ := strings.Cut(f.lines.Text(), ": ")
		switch name {
		case "id":
			at, err := event.ParseCursor(value)
			if err != nil {
				t.Fatal(err)
			}
			e.id, e.cursor = at.Position, value
		case "event":
			e.event = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e.data); err != nil {
				t.Fatal(err)
			}
			return e
		}
	}
	t.Fatalf("the stream has ended: %v", f.lines.Err())
	return e
}

// ids reads the next events, and returns their ids.
func (f *following) ids(t *testing.T, n int) (ids []int64) {
	t.Helper()
	for range n {
		ids = append(ids, f.next(t).id)
	}
	return ids
}

func appendOne(t *testing.T, pool *pgxpool.Pool, campaign, kind string, tags ...string) journal.Appended {
	t.Helper()
	var all []journal.Appended
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
		all, err = journal.Journal{}.Append(t.Context(), tx, campaign, journal.Any, event.Event{
			Type: kind, Tags: tags, Payload: []byte(`{"secret": "s3cret", "open": 1}`),
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestAStreamOfACampaignHasItsEventsInOrderAndGoesOn(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for range 3 {
		appendOne(t, s.pool, "oak", "noted")
		appendOne(t, s.pool, "elm", "noted")
	}
	f := s.follow(t, auth.Operator, "/campaigns/oak/events/stream", "")
	same(t, "what was there", f.ids(t, 3), "[1 2 3]")
	late := s.follow(t, auth.Operator, "/campaigns/oak/events/stream?after=2", "")
	same(t, "after 2", late.ids(t, 1), "[3]")
	for range 3 {
		appendOne(t, s.pool, "elm", "noted")
		appendOne(t, s.pool, "oak", "noted")
	}
	same(t, "what came", f.ids(t, 3), "[4 5 6]")
	same(t, "what came later", late.ids(t, 3), "[4 5 6]")
	new := s.follow(t, auth.Operator, "/campaigns/new%2F1/events/stream", "")
	appendOne(t, s.pool, "new/1", "noted")
	if e := new.next(t); e.id != 1 || e.data.CampaignID != "new/1" {
		t.Errorf("a campaign that was not there has %+v", e)
	}
}

func TestAStreamOfASelectionHasItsEventsAlone(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	var want []int64
	add := func() {
		appendOne(t, s.pool, "a", "hit", "player=ada")
		want = append(want, appendOne(t, s.pool, "b", "hit", "player=ada", "boss").Position)
		appendOne(t, s.pool, "c", "healed", "player=ada", "boss")
		want = append(want, appendOne(t, s.pool, "d", "missed", "player=ada", "boss").Position)
	}
	add()
	f := s.follow(t, auth.Operator, "/events/stream?type=hit&type=missed&tag=player%3Dada&tag=boss", "")
	same(t, "what was there", f.ids(t, 2), want)
	add()
	add()
	same(t, "what came", f.ids(t, 4), want[2:])
	from := s.follow(t, auth.Operator, fmt.Sprintf("/events/stream?type=missed&tag=boss&after=%d", want[1]), "")
	same(t, "from a position", from.ids(t, 2), []int64{want[3], want[5]})
}

// TestAStreamThatIsCutAtAnyEventResumesWithoutLossOrRepeat cuts streams after each of their events, while
// others append.
func TestAStreamThatIsCutAtAnyEventResumesWithoutLossOrRepeat(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	const events = 150
	for name, path := range map[string]string{"a campaign": "/campaigns/oak/events/stream", "a selection": "/events/stream?type=noted"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			campaign := map[string]string{"a campaign": "oak", "a selection": "elm"}[name]
			done := make(chan error, 1)
			go func() {
				for i := range events {
					kind := "noted"
					if campaign == "oak" {
						kind = "other"
					}
					_, err := s.pool.Exec(t.Context(), `SELECT tidemark.append($1, jsonb_build_array(jsonb_build_object('type', $2::text,
						'payload', jsonb_build_object('n', $3::int))))`, campaign, kind, i)
					if err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
			var got []int64
			last := ""
			for cut := 1; len(got) < events; cut++ {
				f := s.follow(t, auth.Operator, path, last)
				for range min(1+cut%3, events-len(got)) {
					e := f.next(t)
					got = append(got, e.data.Seq)
					last = strconv.FormatInt(e.id, 10)
				}
				f.stop()
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			for i, seq := range got {
				if seq != int64(i+1) {
					t.Fatalf("the stream has the events %v", got)
				}
			}
		})
	}
}

func TestASelectionShowsNothingAboveTheWriterFloor(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	f := s.follow(t, auth.Operator, "/events/stream?type=noted", "")
	appendOne(t, s.pool, "oak", "noted")
	f.next(t)
	open, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Rollback(context.WithoutCancel(t.Context())) }()
	early, err := journal.Journal{}.Append(t.Context(), open, "slow", journal.Any, event.Event{Type: "noted"})
	if err != nil {
		t.Fatal(err)
	}
	later := appendOne(t, s.pool, "oak", "noted")
	late := s.follow(t, auth.Operator, "/events/stream?type=noted&after=1", "")
	if err := open.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []int64{early[0].Position, later.Position}
	same(t, "a stream from before", f.ids(t, 2), want)
	same(t, "a stream from meanwhile", late.ids(t, 2), want)
}

func TestAStreamThatFallsBehindReadsForItself(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	f := s.follow(t, auth.Operator, "/campaigns/oak/events/stream", "")
	const n = 1500 // events of some KiB, more than the tail keeps
	exec(t, s.pool, `SELECT tidemark.append('oak', (SELECT jsonb_agg(jsonb_build_object('type', 'noted', 'payload',
		jsonb_build_object('text', repeat('x', 15000)))) FROM generate_series(1, 500))) FROM generate_series(1, 3)`)
	for i := range n {
		if e := f.next(t); e.id != int64(i+1) {
			t.Fatalf("event %d of the stream has the id %d", i+1, e.id)
		}
	}
	appendOne(t, s.pool, "oak", "noted")
	same(t, "what came", f.ids(t, 1), "[1501]")
}

// TestAStreamThatIsNotReadIsCutOffAndResumes has a client that stops reading, with more events than the
// kernel keeps for it.
func TestAStreamThatIsNotReadIsCutOffAndResumes(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *web.Config) { cfg.MaxStreams = 1 })
	const n = 1500
	exec(t, s.pool, `SELECT tidemark.append('oak', (SELECT jsonb_agg(jsonb_build_object('type', 'noted', 'payload',
		jsonb_build_object('text', repeat('x', 15000)))) FROM generate_series(1, 500))) FROM generate_series(1, 3)`)
	const path = "/campaigns/oak/events/stream"
	slow := s.follow(t, auth.Operator, path, "")
	tally.Eventually(t, "the end of the stream that is not read", func(context.Context) (bool, error) {
		response, _ := s.call(t, auth.Operator, http.MethodHead, "/api/v1"+path, "", nil)
		return response.StatusCode == http.StatusOK, nil
	})
	last, text := 0, ""
	for slow.lines.Scan() { // what was on the way
		name, value, _ := strings.Cut(slow.lines.Text(), ": ")
		switch {
		case name == "id":
			text = value
		case name == "" && text != "": // the event is complete
			last, _ = strconv.Atoi(strings.Split(text, "@")[0])
		}
	}
	if last == 0 || last == n {
		t.Errorf("%d of %d events have arrived", last, n)
	}
	resumed := s.follow(t, auth.Operator, path, strconv.Itoa(last))
	for i := last + 1; i <= n; i++ {
		if e := resumed.next(t); e.id != int64(i) {
			t.Fatalf("after event %d comes %d", i-1, e.id)
		}
	}
}

func TestAStreamHidesWhatItsReaderMayNotSee(t *testing.T) {
	t.Parallel()
	paths, err := payload.ParsePaths("$.secret")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(c *web.Config) { c.Payloads.Redact = paths })
	for _, path := range []string{"/campaigns/oak/events/stream", "/events/stream?type=noted"} {
		before, after := s.follow(t, auth.Viewer, path, ""), s.follow(t, auth.Operator, path, "")
		appendOne(t, s.pool, "oak", "noted", "player=ada") // from the tail
		again := s.follow(t, auth.Viewer, path, "")        // from the journal
		for _, f := range []*following{before, again} {
			if e := f.next(t); string(e.data.Payload) != "null" || len(e.data.Tags) > 0 {
				t.Errorf("a viewer sees %s, %q", e.data.Payload, e.data.Tags)
			}
		}
		if e := after.next(t); !bytes.Contains(e.data.Payload, []byte(payload.Hidden)) || bytes.Contains(e.data.Payload,
			[]byte("s3cret")) || len(e.data.Tags) == 0 {
			t.Errorf("an operator sees %s, %q", e.data.Payload, e.data.Tags)
		}
		exec(t, s.pool, `SELECT setval('tidemark.waiting', 0)`)
	}
}

func TestAStreamThatCannotBeginHasAnAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for path, want := range map[string]int{
		"/api/v1/events/stream?tag=":                     http.StatusBadRequest,
		"/api/v1/events/stream?after=-1":                 http.StatusBadRequest,
		"/api/v1/events/stream?campaign=oak":             http.StatusBadRequest,
		"/api/v1/campaigns/oak/events/stream?after=x":    http.StatusBadRequest,
		"/api/v1/campaigns/oak/events/stream?type=noted": http.StatusBadRequest,
	} {
		if response, body := s.call(t, auth.Admin, http.MethodGet, path, "", nil); response.StatusCode != want {
			t.Errorf("%s is answered %s\n%s", path, response.Status, body)
		}
	}
	response, body := s.call(t, auth.Admin, http.MethodGet, "/api/v1/events/stream", "", map[string]string{"Last-Event-ID": "x"})
	if response.StatusCode != http.StatusBadRequest || !strings.Contains(body, "Last-Event-ID") {
		t.Errorf("a wrong Last-Event-ID is answered %s\n%s", response.Status, body)
	}
}

// TestTheJournalsEndIsReadOnceForAllStreams counts the connections, and the memory of 1,000 idle streams.
// Not parallel: it measures the whole process.
func TestTheJournalsEndIsReadOnceForAllStreams(t *testing.T) { //nolint:paralleltest // see above
	config := pgtest.New(t).Config()
	config.ConnConfig.RuntimeParams["application_name"] = "streams"
	config.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := serveOn(t, pool, admin.Config{}, func(c *web.Config) { c.MaxStreamsEach = 1000 })
	measure := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	// A client is a bare connection: both ends are in this process.
	open := make([]net.Conn, 1000)
	last := make([]byte, 1<<10)
	upTo := func(from, to int) uint64 {
		for i := from; i < to; i++ {
			path := fmt.Sprintf("/campaigns/c%d/events/stream", i%10)
			if i%2 == 0 {
				path = "/events/stream?type=noted"
			}
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.base, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			open[i] = conn
			t.Cleanup(func() { _ = conn.Close() })
			if _, err := fmt.Fprintf(conn, "GET /api/v1%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path,
				s.tokens[auth.Viewer]); err != nil {
				t.Fatal(err)
			}
		}
		position := appendOne(t, s.pool, "c1", "noted").Position
		for i, conn := range open[:to] {
			if i%2 == 1 && i%10 != 1 {
				continue
			}
			var got []byte
			for !bytes.Contains(got, fmt.Appendf(nil, `"position":%d,`, position)) {
				n, err := conn.Read(last)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, last[:n]...)
			}
		}
		return measure()
	}
	before := upTo(0, 10)
	if each := (upTo(10, 1000) - before) / 990; each > 50<<10 {
		t.Errorf("an idle stream takes %d KiB", each>>10)
	} else {
		t.Logf("an idle stream takes %d KiB", each>>10)
	}
	// The pool, one connection for the end of the journal, and one that waits for projections.
	if n := scan[int](t, pool, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'streams'`); n > 6 {
		t.Errorf("1,000 streams have %d connections", n)
	}
}

func TestACallWithATokenWaitsBeforeItReads(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	s := serveOn(t, pool, acting, nil)
	first := scan[string](t, pool, `SELECT concat_ws('.', 1, position, seq, event_id, campaign_id) FROM tidemark.journal
		WHERE campaign_id = 'a' AND seq = 1`)
	const id = "018c5f3e-0000-7000-8000-000000000001"
	for token, want := range map[string]int{
		first: http.StatusOK, "1.3.1." + id + ".b": http.StatusBadRequest, "1.9.2." + id + ".a": http.StatusConflict,
		"1.1.1." + id + ".a": http.StatusConflict, "a": http.StatusBadRequest,
	} {
		response, body := s.call(t, auth.Operator, http.MethodGet,
			"/api/v1/campaigns/a/as-of?projection=notes&seq=1&after="+token, "", nil)
		if response.StatusCode != want {
			t.Errorf("with the token %s it is answered %s\n%s", token, response.Status, body)
		}
	}
}

// leap leaves positions free, as many as some windows have, and appends an event.
func (s *served) leap(t *testing.T, by int64) journal.Appended {
	t.Helper()
	exec(t, s.pool, fmt.Sprintf(`SELECT setval('tidemark.journal_position', last_value + %d)
		FROM tidemark.journal_position`, by))
	return appendOne(t, s.pool, "oak", "common")
}

// TestAStreamOfRareEventsTellsHowFarItHasRead has none of the wanted events at first.
func TestAStreamOfRareEventsTellsHowFarItHasRead(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for range 4 {
		s.leap(t, 200_000)
	}
	end := s.leap(t, 200_000)
	f := s.follow(t, auth.Operator, "/events/stream?type=rare", "")
	var places []shown
	for len(places) == 0 || places[len(places)-1].id < end.Position {
		places = append(places, f.place(t))
		if n := len(places); n > 1 && places[n-1].id <= places[n-2].id || n > 50 {
			t.Fatalf("the places are %v", places)
		}
	}
	if len(places) < 3 || places[0].id > 100_000 {
		t.Errorf("the places are %v", places)
	}
	later := s.leap(t, 5000) // behind the tail
	// The tail may have read up to the event before its append committed.
	if at := f.place(t); at.id < later.Position-1 {
		t.Errorf("behind the tail the place is %v, want %d", at, later.Position)
	}
	rare := appendOne(t, s.pool, "oak", "rare")
	if e := f.next(t); e.id != rare.Position {
		t.Errorf("the stream has %+v, want position %d", e, rare.Position)
	}
	again := s.follow(t, auth.Operator, "/events/stream?type=rare", places[len(places)-1].cursor)
	if e := again.next(t); e.id != rare.Position {
		t.Errorf("the stream that went on has %+v, want position %d", e, rare.Position)
	}
}

// TestAStreamThatMeetsArchivedEventsSaysSo has an archive at its place, then far behind it.
func TestAStreamThatMeetsArchivedEventsSaysSo(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.leap(t, 1)
	far := s.leap(t, 500_000)
	archived := func(position int64) {
		exec(t, s.pool, fmt.Sprintf(`INSERT INTO tidemark.archives VALUES ('object', sha256(''), 1, 1, 1, 1, 0, %[1]d,
			%[1]d, now(), '{common}', '{1}', 'ada', 'a test')
			ON CONFLICT (object) DO UPDATE SET first_position = %[1]d, last_position = %[1]d`, position))
	}
	archived(far.Position - 1)
	f := s.follow(t, auth.Operator, "/events/stream?type=common", "")
	same(t, "before the archive", f.next(t).data.Type, "common")
	failed := ""
	for f.lines.Scan() {
		if name, value, _ := strings.Cut(f.lines.Text(), ": "); name == "event" && value == "error" || failed != "" {
			failed += f.lines.Text()
		}
	}
	if !strings.Contains(failed, `"status":409`) || !strings.Contains(failed, "object") {
		t.Errorf("the stream ends with %q", failed)
	}
	archived(1)
	answer, body := s.call(t, auth.Operator, http.MethodGet, "/api/v1/events/stream?type=common", "", nil)
	if answer.StatusCode != http.StatusConflict || !strings.Contains(body, "archived") {
		t.Errorf("at its place: %d %s", answer.StatusCode, body)
	}
}
