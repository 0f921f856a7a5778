package web_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/web"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// subscribe opens an event stream. It returns the status and a channel that is closed when the
// stream ends.
func (s *served) subscribe(t *testing.T, header map[string]string) (status int, ended <-chan struct{}) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		request.Header.Set(name, value)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request) //nolint:bodyclose // in the clean-up
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		lines := bufio.NewScanner(response.Body)
		for lines.Scan() {
		}
	}()
	t.Cleanup(func() { _ = response.Body.Close(); <-over })
	return response.StatusCode, over
}

func bearer(token string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + token}
}

func TestAStreamEndsWhenItsTokenDoes(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *web.Config) { c.StreamInterval = 10 * time.Millisecond })
	_, cookie := s.logIn(t, s.tokens[auth.Operator], nil)
	session := map[string]string{"Cookie": cookie.Name + "=" + cookie.Value}
	_, kept := s.subscribe(t, bearer(s.tokens[auth.Admin]))
	for what, c := range map[string]struct {
		header map[string]string
		sql    string
	}{
		"the token is revoked": {bearer(s.tokens[auth.Viewer]), `UPDATE tidemark.tokens SET revoked_at = now()
			WHERE name = 'viewer'`},
		"the session is over": {session, `UPDATE tidemark.sessions SET expires_at = now()`},
		"the token has expired": {bearer(s.tokens[auth.Operator]), `UPDATE tidemark.tokens SET expires_at = now()
			WHERE name = 'operator'`},
	} {
		if what == "the session is over" { // must end before its token does
			exec(t, s.pool, `UPDATE tidemark.tokens SET expires_at = 'infinity'
				WHERE name = 'operator'; UPDATE tidemark.sessions SET expires_at = now() + interval '1 hour'`)
		}
		if what == "the token has expired" {
			exec(t, s.pool, `UPDATE tidemark.tokens SET expires_at = 'infinity' WHERE name = 'operator'`)
		}
		status, ended := s.subscribe(t, c.header)
		if status != http.StatusOK {
			t.Fatalf("a stream is answered %d before %s", status, what)
		}
		exec(t, s.pool, c.sql)
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Errorf("a stream goes on a minute after %s", what)
		}
	}
	select {
	case <-kept:
		t.Error("the stream of a token that holds has ended")
	default:
	}
}

func TestStreamsAreCountedByIdentityAsWell(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *web.Config) { c.MaxStreams, c.MaxStreamsEach = 5, 2 })
	open := func(role auth.Role) int { status, _ := s.subscribe(t, bearer(s.tokens[role])); return status }
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusServiceUnavailable} {
		if got := open(auth.Viewer); got != want {
			t.Errorf("stream %d of a token is answered %d, want %d", i+1, got, want)
		}
	}
	for i, role := range []auth.Role{auth.Operator, auth.Operator, auth.Admin} {
		if got := open(role); got != http.StatusOK {
			t.Errorf("stream %d of others is answered %d", i+1, got)
		}
	}
	if got := open(auth.Admin); got != http.StatusServiceUnavailable {
		t.Errorf("a stream more than there may be is answered %d", got)
	}
}

func TestAFloodOfWrongTokensLocksNoValidOneOut(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *web.Config) { c.Auth.Forwarders = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} })
	_, cookie := s.logIn(t, s.tokens[auth.Operator], nil)
	basic := &http.Request{Header: http.Header{}}
	basic.SetBasicAuth("viewer", s.tokens[auth.Viewer])
	last := 0
	for i := range 30 {
		response, _ := s.call(t, auth.Nobody, http.MethodGet, "/api/v1/me", "", bearer(fmt.Sprint("tmk_wrong", i)))
		last = response.StatusCode
	}
	if last != http.StatusTooManyRequests {
		t.Fatalf("the last wrong token is answered %d", last)
	}
	for what, header := range map[string]map[string]string{
		"a token that was never used": bearer(s.tokens[auth.Admin]),
		"a session":                   {"Cookie": cookie.Name + "=" + cookie.Value},
		"basic authentication":        {"Authorization": basic.Header.Get("Authorization")},
	} {
		if response, body := s.call(t, auth.Nobody, http.MethodGet, "/api/v1/me", "",
			header); response.StatusCode != http.StatusOK {
			t.Errorf("behind the same address %s is answered %s %s", what, response.Status, body)
		}
	}
	if response, _ := s.logIn(t, s.tokens[auth.Viewer], nil); response.StatusCode != http.StatusSeeOther {
		t.Errorf("a login is answered %s", response.Status)
	}
}

func TestIdempotencyKeysBelongToTheToken(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	s := serveOn(t, pool, acting, func(c *web.Config) {
		c.Auth.Proxies, c.Auth.RoleHeader, c.Auth.Secret = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			"X-Forwarded-Role", proxySecret
	})
	pause := func(header map[string]string) string {
		all := map[string]string{"Idempotency-Key": "k", "Content-Type": "application/json"}
		for name, value := range header {
			all[name] = value
		}
		_, body := s.call(t, auth.Nobody, http.MethodPost, "/api/v1/publishers/t/s/pause", `{"reason": "r", "with": {}}`, all)
		return body
	}
	first := pause(bearer(s.tokens[auth.Operator]))
	if strings.Contains(first, `"repeated":true`) {
		t.Fatal(first)
	}
	if again := pause(bearer(s.tokens[auth.Operator])); !strings.Contains(again, `"repeated":true`) {
		t.Errorf("the same token's key again: %s", again)
	}
	_, cookie := s.logIn(t, s.tokens[auth.Operator], nil)
	if again := pause(map[string]string{"Cookie": cookie.Name + "=" + cookie.Value}); !strings.Contains(again,
		`"repeated":true`) {
		t.Errorf("its session's: %s", again)
	}
	// An identity with the same name from another source, and the next owner of the name.
	if other := pause(map[string]string{
		"X-Forwarded-User": "operator", "X-Forwarded-Role": "operator",
		"X-Tidemark-Proxy-Secret": proxySecret,
	}); strings.Contains(other, `"repeated":true`) {
		t.Errorf("a proxy's user with the token's name gets its answer: %s", other)
	}
	exec(t, pool, `UPDATE tidemark.tokens SET revoked_at = now() WHERE name = 'operator'`)
	next, err := auth.Create(t.Context(), pool, "operator", auth.Operator, 0, auth.Identity{Name: "the test"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if other := pause(bearer(next)); strings.Contains(other, `"repeated":true`) {
		t.Errorf("the next token of that name gets its answer: %s", other)
	}
}

func TestPeopleLogInWhilePagesKeepAllConnectionsBusy(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool, err := web.NewPool(t.Context(), url, 1, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	own, err := web.NewPool(t.Context(), url, 1, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	s := serveOn(t, pool, admin.Config{}, func(c *web.Config) { c.Auth.Pool = own })
	busy, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Release()
	if response, cookie := s.logIn(t, s.tokens[auth.Viewer], nil); response.StatusCode != http.StatusSeeOther ||
		cookie == nil {
		t.Errorf("a login is answered %s", response.Status)
	}
	if response, _ := s.call(t, auth.Viewer, http.MethodGet, "/api/v1/me", "", nil); response.StatusCode != http.StatusOK {
		t.Errorf("who one is is answered %s", response.Status)
	}
}

func TestEveryCookieIsSecureOverTLS(t *testing.T) {
	t.Parallel()
	pool, acting := database(t)
	s := serveOn(t, pool, acting, func(c *web.Config) {
		c.Auth.Forwarders = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	for proto, want := range map[string]bool{"https": true, "http": false} {
		for path, form := range map[string]string{
			"/login":              "token=" + s.tokens[auth.Viewer],
			"/act/pausePublisher": "topic=t&publisher=s&reason=r",
		} {
			header := map[string]string{"Content-Type": "application/x-www-form-urlencoded", "X-Forwarded-Proto": proto}
			response, body := s.call(t, auth.Operator, http.MethodPost, path, form, header)
			cookies := (&http.Response{Header: response.Header}).Cookies()
			if len(cookies) == 0 {
				t.Errorf("%s over %s is answered %s without a cookie\n%s", path, proto, response.Status, body)
			}
			for _, c := range cookies {
				if c.Secure != want || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
					t.Errorf("%s over %s: %v", path, proto, c)
				}
			}
		}
	}
}
