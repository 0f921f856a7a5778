package web_test

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
	"github.com/tidemark-go/tidemark/internal/surface/web"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// served is an admin listener with a token for each role.
type served struct {
	pool   *pgxpool.Pool
	acts   *admin.Acts
	base   string
	tokens map[auth.Role]string
}

// serve runs an admin listener until the test ends.
func serve(t *testing.T, change func(*web.Config)) *served {
	t.Helper()
	return serveOn(t, pgtest.New(t), admin.Config{}, change)
}

// listen serves a database that may have no schema, and then has no tokens.
func listen(t *testing.T, pool *pgxpool.Pool, acting admin.Config, change func(*web.Config)) *served {
	t.Helper()
	acting.Pool = pool
	acts, err := admin.New(acting)
	if err != nil {
		t.Fatal(err)
	}
	cfg := web.Config{Addr: "127.0.0.1:0", Pool: pool, Acts: acts, Payloads: payload.Rule{Least: auth.Operator}}
	if change != nil {
		change(&cfg)
	}
	server, err := web.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the listener ended with: %v", err)
		}
	})
	return &served{pool: pool, acts: acts, base: "http://" + server.Addr().String(), tokens: map[auth.Role]string{}}
}

func serveOn(t *testing.T, pool *pgxpool.Pool, acting admin.Config, change func(*web.Config)) *served {
	t.Helper()
	s := listen(t, pool, acting, change)
	for _, role := range []auth.Role{auth.Viewer, auth.Operator, auth.Admin} {
		var err error
		if s.tokens[role], err = auth.Create(t.Context(), pool, role.String(), role, 0, auth.Identity{Name: "the test"},
			""); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// answered is a response whose body has been read.
type answered struct {
	Status     string
	StatusCode int
	Header     http.Header
	Request    *http.Request // the last one, after redirects
}

func of(r *http.Response) *answered { return &answered{r.Status, r.StatusCode, r.Header, r.Request} }

// call sends a request. header overrides the headers of the role.
func (s *served) call(
	t *testing.T, role auth.Role, method, path, body string, header map[string]string,
) (*answered, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token := s.tokens[role]; token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for name, value := range header {
		request.Header.Set(name, value)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return of(response), string(answer)
}

func TestABrowserLogsInAndOut(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (*answered, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", "text/html")
		response, err := browser.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return of(response), string(body)
	}
	if response, body := get("/api/v1/me?x=1"); response.Request.URL.Path != "/login" ||
		!strings.Contains(body, `value="/api/v1/me?x=1"`) {
		t.Fatalf("a browser without a session gets %s\n%s", response.Request.URL, body)
	}
	post := func(path string, form url.Values) *answered {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+path,
			strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := browser.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return of(response)
	}
	if response := post("/login", url.Values{"token": {"tmk_wrong"}}); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong token is answered %s", response.Status)
	}
	response := post("/login", url.Values{"token": {s.tokens[auth.Operator]}, "next": {"/api/v1/me?x=1"}})
	if response.StatusCode != http.StatusOK || response.Request.URL.RequestURI() != "/api/v1/me?x=1" {
		t.Fatalf("logged in: %s %s", response.Status, response.Request.URL)
	}
	if _, body := get("/api/v1/me"); !strings.Contains(body, `"via":"session"`) || !strings.Contains(body, `"operator"`) {
		t.Errorf("logged in, it is %s", body)
	}
	post("/logout", nil)
	if response, _ := get("/api/v1/me"); response.Request.URL.Path != "/login" {
		t.Errorf("logged out, a browser gets %s", response.Request.URL)
	}
	response = post("/login", url.Values{"token": {s.tokens[auth.Operator]}, "next": {"//evil.example/"}})
	if response.Request.URL.Host != strings.TrimPrefix(s.base, "http://") {
		t.Errorf("a login leads to %s", response.Request.URL)
	}
	if _, err := s.pool.Exec(t.Context(), `UPDATE tidemark.tokens SET revoked_at = now()`); err != nil {
		t.Fatal(err)
	}
	if response, _ := get("/api/v1/me"); response.Request.URL.Path != "/login" {
		t.Errorf("with its token revoked, a session gets %s", response.Request.URL)
	}
}
