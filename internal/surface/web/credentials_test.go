package web_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/web"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const proxySecret = "a secret of the proxy's"

// logIn sends the login form and returns the response and its cookie, if any.
func (s *served) logIn(t *testing.T, token string, header map[string]string) (*answered, *http.Cookie) {
	t.Helper()
	all := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	for name, value := range header {
		all[name] = value
	}
	response, _ := s.call(t, auth.Nobody, http.MethodPost, "/login", url.Values{"token": {token}}.Encode(), all)
	cookies := (&http.Response{Header: response.Header}).Cookies()
	if len(cookies) == 0 {
		return response, nil
	}
	return response, cookies[0]
}

func TestCredentialsHoldNoLongerThanTheyShould(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	_, cookie := s.logIn(t, s.tokens[auth.Viewer], nil)
	if cookie == nil {
		t.Fatal("a login is answered without a cookie")
	}
	bearer := map[string]string{"Authorization": "Bearer " + s.tokens[auth.Viewer]}
	session := map[string]string{"Cookie": cookie.Name + "=" + cookie.Value}
	holds := func(when string, credentials map[string]string, want int) {
		t.Helper()
		if response, _ := s.call(t, auth.Nobody, http.MethodGet, "/api/v1/me", "", credentials); response.StatusCode != want {
			t.Errorf("%s the answer is %s, want %d", when, response.Status, want)
		}
	}
	holds("with a session", session, http.StatusOK)
	exec(t, s.pool, `UPDATE tidemark.sessions SET expires_at = now() - interval '1 second'`)
	holds("when the session is over", session, http.StatusUnauthorized)
	exec(t, s.pool, `UPDATE tidemark.sessions SET expires_at = now() + interval '1 hour'; UPDATE tidemark.tokens
		SET expires_at = now() - interval '1 second'`)
	holds("when the session's token has expired", session, http.StatusUnauthorized)
	holds("when the token has expired", bearer, http.StatusUnauthorized)
	exec(t, s.pool, `UPDATE tidemark.tokens SET expires_at = 'infinity', revoked_at = now(), revoked_by = 'ada'`)
	holds("when the session's token was revoked", session, http.StatusUnauthorized)
	holds("when the token was revoked", bearer, http.StatusUnauthorized)
	exec(t, s.pool, `UPDATE tidemark.tokens SET revoked_at = NULL, revoked_by = NULL`)
	holds("again", session, http.StatusOK)
	if response, _ := s.call(t, auth.Nobody, http.MethodPost, "/logout", "",
		session); response.StatusCode != http.StatusSeeOther {
		t.Errorf("a logout is answered %s", response.Status)
	}
	holds("after the logout, to whoever has kept the cookie,", session, http.StatusUnauthorized)
	holds("with the token", bearer, http.StatusOK)
}

func TestSecretsAreKeptAsHashes(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	_, cookie := s.logIn(t, s.tokens[auth.Admin], nil)
	for of, secret := range map[string]string{"tokens": s.tokens[auth.Admin], "sessions": cookie.Value} {
		var kept, all int
		const count = `SELECT count(*) FILTER (WHERE position(convert_to($1, 'UTF8') IN hash) > 0), count(*) FROM tidemark.`
		if err := s.pool.QueryRow(t.Context(), count+of, secret).Scan(&kept, &all); err != nil || kept > 0 || all == 0 {
			t.Errorf("%d of %d %s are kept as they are, %v", kept, all, of, err)
		}
	}
}

func TestASessionsCookieIsForThisServerAlone(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *web.Config) { c.Auth.Forwarders = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	for proto, want := range map[string]http.Cookie{
		"http":  {Name: "tidemark"},
		"https": {Name: "__Host-tidemark", Secure: true},
	} {
		_, c := s.logIn(t, s.tokens[auth.Viewer], map[string]string{"X-Forwarded-Proto": proto})
		if c == nil || c.Name != want.Name || c.Secure != want.Secure || !c.HttpOnly ||
			c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
			t.Errorf("over %s the cookie is %v", proto, c)
		}
	}
	// The header of a client that is not a proxy is ignored.
	_, c := serve(t, nil).logIn(t, s.tokens[auth.Viewer], map[string]string{"X-Forwarded-Proto": "https"})
	if c != nil {
		t.Errorf("a token of elsewhere is answered with %v", c)
	}
}

func TestBasicAuthenticationWantsTheTokensName(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for user, want := range map[string]int{
		"viewer": http.StatusOK, "admin": http.StatusUnauthorized,
		"": http.StatusUnauthorized,
	} {
		request := http.Request{Header: http.Header{}}
		request.SetBasicAuth(user, s.tokens[auth.Viewer])
		response, body := s.call(t, auth.Nobody, http.MethodGet, "/api/v1/me", "",
			map[string]string{"Authorization": request.Header.Get("Authorization")})
		if response.StatusCode != want || want == http.StatusOK && !strings.Contains(body, `"viewer"`) {
			t.Errorf("the viewer's token as the password of %q is answered %s %s", user, response.Status, body)
		}
	}
}

func TestWrongCredentialsAreCountedWhereverTheyAreSent(t *testing.T) {
	t.Parallel()
	proxied := func(c *web.Config) { c.Auth.Forwarders = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} }
	wrong := func(i int) string { return fmt.Sprint("tmk_wrong", i) }
	bearer := func(s *served, i int, from string) *answered {
		response, _ := s.call(t, auth.Nobody, http.MethodGet, "/api/v1/me", "",
			map[string]string{"Authorization": "Bearer " + wrong(i), "X-Forwarded-For": from})
		return response
	}
	for what, c := range map[string]struct {
		s    *served
		send func(s *served, i int) *answered
	}{
		"in the form of the login": {serve(t, nil), func(s *served, i int) *answered {
			response, _ := s.logIn(t, wrong(i), nil)
			return response
		}},
		"as a session": {serve(t, nil), func(s *served, i int) *answered {
			response, _ := s.call(t, auth.Nobody, http.MethodGet, "/api/v1/me", "",
				map[string]string{"Cookie": "tidemark=" + wrong(i)})
			return response
		}},
		"by a stranger who claims to be many": {serve(t, nil), func(s *served, i int) *answered {
			return bearer(s, i, fmt.Sprint("192.0.2.", i))
		}},
		"from many addresses of one network": {serve(t, proxied), func(s *served, i int) *answered {
			return bearer(s, i, fmt.Sprintf("2001:db8:1:2::%x", i))
		}},
	} {
		for i := range 12 {
			response, limited := c.send(c.s, i), i >= 10
			if (response.StatusCode == http.StatusTooManyRequests) != limited || limited &&
				response.Header.Get("Retry-After") == "" {
				t.Errorf("wrong credentials %s are answered %s at try %d", what, response.Status, i+1)
			}
		}
	}
	many := serve(t, proxied)
	for i := range 12 {
		if response := bearer(many, i, fmt.Sprintf("2001:db8:1:%x::1", i)); response.StatusCode != http.StatusUnauthorized {
			t.Errorf("wrong credentials from the network %d of several are answered %s", i+1, response.Status)
		}
	}
}

func TestAProxyThatAddsToWhatClientsSendIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *web.Config) {
		c.Auth.Proxies, c.Auth.RoleHeader, c.Auth.Secret = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			"X-Forwarded-Role", proxySecret
	})
	for _, twice := range []string{"X-Forwarded-User", "X-Forwarded-Role"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+"/api/v1/me", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{
			"X-Forwarded-User": {"ada"}, "X-Forwarded-Role": {"viewer"},
			"X-Tidemark-Proxy-Secret": {proxySecret},
		}
		request.Header.Add(twice, "admin")
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s twice is answered %s", twice, response.Status)
		}
	}
}

func TestALoginIsNoLongerThanATokenNeeds(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	if response, _ := s.logIn(t, s.tokens[auth.Viewer]+strings.Repeat(" ", 9<<10),
		nil); response.StatusCode != http.StatusBadRequest {
		t.Errorf("a form of 9 KiB is answered %s", response.Status)
	}
}

func TestNoStatementOfTheListenerLastsLong(t *testing.T) {
	t.Parallel()
	const limit = 1500 * time.Millisecond
	url := pgtest.URL(t)
	pool, err := web.NewPool(t.Context(), url, 3, limit, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if n := pool.Config().MaxConns; n != 3 {
		t.Errorf("it has up to %d connections, want 3", n)
	}
	for setting, want := range map[string]string{
		"statement_timeout": "1500ms", "lock_timeout": "1500ms",
		"idle_in_transaction_session_timeout": "3s", "jit": "off", "application_name": "tidemark-admin",
	} {
		if got := scan[string](t, pool, "SHOW "+setting); got != want {
			t.Errorf("%s is %s, want %s", setting, got, want)
		}
	}
	long, err := web.NewPool(t.Context(), url, 1, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer long.Close()
	if got := scan[string](t, long, "SHOW lock_timeout"); got != "2s" {
		t.Errorf("a statement that may take a minute waits %s for a lock, want 2s", got)
	}
}
