package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/web"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestOtherSitesCanNeitherSendNorFrame(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	s := serveOn(t, pool, acting, nil)
	before := scan[string](t, pool, everything)
	for _, header := range []map[string]string{
		{"Origin": "https://evil.example"},
		{"Sec-Fetch-Site": "cross-site"},
		{"Sec-Fetch-Site": "same-site"},
	} {
		for _, what := range []string{"/api/v1/failed/notes/b%2F1/requeue", "/login", "/logout"} {
			response, body := s.call(t, auth.Admin, http.MethodPost, what, "", header)
			if response.StatusCode != http.StatusForbidden {
				t.Errorf("%s with %v is answered %s\n%s", what, header, response.Status, body)
			}
		}
	}
	if scan[string](t, pool, everything) != before {
		t.Error("another site has changed something")
	}
	if response, body := s.call(t, auth.Admin, http.MethodPost, "/api/v1/failed/notes/b%2F1/requeue", "",
		map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": s.base}); response.StatusCode != http.StatusOK {
		t.Errorf("a page of its own is answered %s\n%s", response.Status, body)
	}
	for _, what := range []string{"/", "/login", "/api/v1/me", "/static/tidemark.css", "/nothing"} {
		response, _ := s.call(t, auth.Viewer, http.MethodGet, what, "", nil)
		policy := response.Header.Get("Content-Security-Policy")
		for _, part := range []string{
			"default-src 'none'", "script-src 'self'", "style-src 'self'",
			"frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'",
		} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s has the policy %q without %s", what, policy, part)
			}
		}
		if strings.Contains(policy, "unsafe") || response.Header.Get("X-Frame-Options") != "DENY" ||
			response.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s has the headers %v", what, response.Header)
		}
		if response.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s lets other origins read", what)
		}
	}
}

func TestLargeBodiesAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	// A server closes a connection once it has responded without reading the body. A client that is
	// still writing can see the close before the response, so this one does not write the part that
	// is not read.
	status := s.refused(t, fmt.Sprintf("Content-Length: %d\r\n", 2<<20), "")
	if status != http.StatusRequestEntityTooLarge {
		t.Errorf("2 MiB are answered %d", status)
	}
	// Without a length, the server finds the limit while it reads. net/http reads some more before
	// it responds, and would wait for it.
	const read = 1<<20 + 1 + 256<<10 + 1
	status = s.refused(t, "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s", 2<<20, strings.Repeat(" ", read)))
	if status != http.StatusRequestEntityTooLarge {
		t.Errorf("2 MiB of unknown length are answered %d", status)
	}
	const most = 32<<10 + 4096 // the listener's limit and the slack of net/http
	if status = s.refused(t, "X-Long: "+strings.Repeat("x", most), ""); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("36 KiB of headers are answered %d", status)
	}
}

// refused sends the start of an act's request and returns the status.
func (s *served) refused(t *testing.T, header, body string) int {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(3 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn,
		"POST /api/v1/groups/default/pause HTTP/1.1\r\nHost: tidemark\r\nAuthorization: Bearer %s\r\nContent-Type: "+
			"application/json\r\n%s\r\n%s", s.tokens[auth.Admin], header, body); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.base, "http://"))
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			if _, err = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Never-"); err == nil {
				err = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
			}
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := io.ReadAll(conn); err != nil {
				t.Errorf("a client that never ends its headers is kept: %v", err)
			}
		})
	}
	// Other clients are served meanwhile.
	if response, body := s.call(t, auth.Viewer, http.MethodGet, "/api/v1/me", "",
		nil); response.StatusCode != http.StatusOK {
		t.Errorf("beside slow clients: %s %s", response.Status, body)
	}
	wg.Wait()
}

func TestWrongTokensAtRate(t *testing.T) {
	t.Parallel()
	var now time.Time
	var mu sync.Mutex
	later := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
	later(time.Hour)
	network := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	s := serve(t, func(c *web.Config) {
		c.Auth.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
		c.Auth.Forwarders = network
	})
	from := func(addr string, token string) int {
		response, _ := s.call(t, auth.Nobody, http.MethodGet, "/api/v1/me", "",
			map[string]string{"X-Forwarded-For": addr, "Authorization": "Bearer " + token})
		if response.StatusCode == http.StatusTooManyRequests && response.Header.Get("Retry-After") == "" {
			t.Error("429 without Retry-After")
		}
		return response.StatusCode
	}
	if got := from("192.0.2.1", s.tokens[auth.Viewer]); got != http.StatusOK {
		t.Fatalf("a good token is answered %d", got)
	}
	var refused, limited int
	for i := range 60 {
		switch got := from("192.0.2.1", fmt.Sprintf("tmk_wrong%d", i)); got {
		case http.StatusUnauthorized:
			refused++
		case http.StatusTooManyRequests:
			limited++
		default:
			t.Errorf("a wrong token is answered %d", got)
		}
	}
	if refused != 10 || limited != 50 {
		t.Errorf("of 60 wrong tokens %d were looked at", refused)
	}
	for _, role := range []auth.Role{auth.Viewer, auth.Operator} { // a token that was used before and one that was not
		if got := from("192.0.2.1", s.tokens[role]); got != http.StatusOK {
			t.Errorf("a good token from that address is answered %d", got)
		}
	}
	if got := from("192.0.2.2", s.tokens[auth.Operator]); got != http.StatusOK {
		t.Errorf("a good token from another address is answered %d", got)
	}
	later(6 * time.Second)
	if got := from("192.0.2.1", "tmk_wrong"); got != http.StatusUnauthorized {
		t.Errorf("after a while a wrong token is answered %d", got)
	}
	if got := from("192.0.2.1", "tmk_wrong"); got != http.StatusTooManyRequests {
		t.Errorf("and the next one %d", got)
	}
}

func TestAddressesThatOthersReach(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	acts, err := admin.New(admin.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	try := func(addr string, role auth.Role) error {
		s, err := web.New(t.Context(), web.Config{Addr: addr, Pool: pool, Acts: acts, Auth: auth.Config{Anonymous: role}})
		if err == nil {
			ctx, stop := context.WithCancel(t.Context())
			stop()
			err = s.Run(ctx)
		}
		return err
	}
	for addr, want := range map[string]bool{
		"127.0.0.1:0": true, "[::1]:0": true, "localhost:0": true, "0.0.0.0:0": false,
		":0": false, "nonsense": false,
	} {
		if err := try(addr, auth.Nobody); (err == nil) != want &&
			(addr != "[::1]:0" || !strings.Contains(err.Error(), "listen")) {
			t.Errorf("without a token, %s: %v", addr, err)
		}
	}
	if _, err := auth.Create(t.Context(), pool, "ada", auth.Viewer, 0, auth.Identity{Name: "the test"}, ""); err != nil {
		t.Fatal(err)
	}
	// The listener is closed before a client can reach it.
	if err := try("0.0.0.0:0", auth.Viewer); err == nil || !strings.Contains(err.Error(), "TIDEMARK_ADMIN_ANONYMOUS") {
		t.Errorf("everybody is a viewer on all addresses: %v", err)
	}
	s := serve(t, func(c *web.Config) { c.Auth.Anonymous = auth.Viewer })
	if response, _ := s.call(t, auth.Nobody, http.MethodGet, "/api/v1/me", "", nil); response.StatusCode != http.StatusOK {
		t.Errorf("an anonymous viewer is answered %s", response.Status)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+"/api/v1/me", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "rebound.example"
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("under a name that is not the machine's it is answered %s", response.Status)
	}
}

// stream opens an event stream and reads its first event.
func (s *served) stream(t *testing.T) (io.ReadCloser, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+"/events", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.tokens[auth.Viewer])
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("a stream is answered %s", response.Status)
	}
	return response.Body, nil
}

func await(body io.Reader, text string) error {
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return nil
		}
	}
	return fmt.Errorf("the stream ended without %q: %w", text, lines.Err())
}

func TestStreamsTellWhatHappens(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	s := serveOn(t, pool, acting, func(c *web.Config) { c.StreamInterval, c.MaxStreams = 20*time.Millisecond, 1 })
	body, err := s.stream(t)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = body.Close() }()
	acts := scan[int](t, pool, `SELECT max(id) FROM tidemark.operator_log`)
	if err := await(body, fmt.Sprintf(`"acts":%d,`, acts)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.stream(t); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("one more stream than there may be: %v", err)
	}
	exec(t, pool, `INSERT INTO tidemark.operator_log (actor, act) VALUES ('ada', 'noted')`)
	if err := await(body, fmt.Sprintf(`"acts":%d,`, acts+1)); err != nil {
		t.Error(err)
	}
}

// 200 streams use as much memory after many polls as after a few, and share one query per poll. Not
// parallel: the test measures the memory of the whole process.
func TestIdleStreamsHoldSteadyMemory(t *testing.T) { //nolint:paralleltest // see above
	s := serve(t, func(c *web.Config) { c.StreamInterval, c.MaxStreamsEach = 10*time.Millisecond, 300 })
	var streams []io.ReadCloser
	for range 200 {
		body, err := s.stream(t)
		if err != nil {
			t.Fatal(err)
		}
		if err := await(body, "event: marks"); err != nil {
			t.Fatal(err)
		}
		streams = append(streams, body)
	}
	watcher := streams[0]
	heap := func(rounds int) uint64 {
		for range rounds {
			exec(t, s.pool, `INSERT INTO tidemark.operator_log (actor, act) VALUES ('ada', 'noted')`)
			if err := await(watcher, "event: marks"); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before := heap(5)
	after := heap(60)
	t.Logf("with 200 streams: %d KiB, after 60 more events %d KiB", before>>10, after>>10)
	if after > before+before/2+8<<20 {
		t.Errorf("memory grew from %d to %d bytes", before, after)
	}
	for _, body := range streams {
		_ = body.Close()
	}
}
