package roles_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/acts"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/test/support/acting"
)

// The operator and the worker create tokens and sessions through functions only, which leave a
// record.
func TestRolesCannotForgeTokensAndSessions(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	_, err := in.admin.Exec(t.Context(), `INSERT INTO tidemark.tokens (name, role, hash, created_by)
		VALUES ('old', 'admin', E'\\x01', 'sql');
		INSERT INTO tidemark.sessions (hash, token_id, expires_at) SELECT E'\\x02', id, expires_at FROM tidemark.tokens`)
	must(t, err)
	var expires bool
	must(t, in.admin.QueryRow(t.Context(),
		`SELECT expires_at - created_at BETWEEN interval '89 days' AND interval '91 days'
			FROM tidemark.tokens`).Scan(&expires))
	if !expires {
		t.Error("a token that SQL has inserted does not expire after 90 days")
	}
	functions := []string{
		`SELECT tidemark.create_token('eve', 'admin', sha256('x'), NULL, 'eve', '', '', 0, '')`,
		`SELECT tidemark.revoke_token('old', 'eve', '', '', 0, '')`, `SELECT FROM tidemark.use_token(E'\\x01')`,
		`SELECT FROM tidemark.find_session(E'\\x02')`, `SELECT tidemark.begin_session(E'\\x01', sha256('y'), '1 hour')`,
		`SELECT tidemark.end_session(E'\\x02')`, `SELECT FROM tidemark.valid_secrets()`,
		`SELECT FROM tidemark.holding_secrets('{}')`,
	}
	for _, role := range []string{"appender", "publisher", "reader"} {
		refuses(t, in.as(t, role), append(functions, `SELECT name FROM tidemark.tokens`, `SELECT FROM tidemark.sessions`)...)
	}
	for _, role := range []string{"worker", "operator"} {
		pool := in.as(t, role)
		refuses(t, pool,
			`INSERT INTO tidemark.tokens (name, role, hash, created_by) VALUES ('eve', 'admin', sha256('x'), 'eve')`,
			`UPDATE tidemark.tokens
				SET role = 'admin'`, `UPDATE tidemark.tokens
				SET last_used_at = now()`, `DELETE FROM tidemark.tokens`,
			`TRUNCATE tidemark.tokens CASCADE`, `SELECT hash FROM tidemark.tokens`, `SELECT t FROM tidemark.tokens t`,
			`INSERT INTO tidemark.sessions (hash, token_id, expires_at) VALUES (sha256('x'), 1, 'infinity')`,
			`UPDATE tidemark.sessions
				SET expires_at = 'infinity'`, `DELETE FROM tidemark.sessions`, `TRUNCATE tidemark.sessions`,
			`SELECT hash FROM tidemark.sessions`, `COPY tidemark.tokens TO STDOUT`)
		useTokens(t, pool, in.prefix+"_"+role+"_login")
	}
}

// useTokens creates a token, logs in and out with it, and revokes it. Both acts are in the log.
func useTokens(t *testing.T, pool *pgxpool.Pool, login string) {
	t.Helper()
	by := admin.By("ada", "a test")
	o, err := acting.Do(t.Context(), admin.On(pool), by, "createToken", "name=ben", "role=viewer", "expires=1h")
	must(t, err)
	var made acts.NewToken
	must(t, json.Unmarshal(o.Detail, &made))
	who, err := auth.New(auth.Config{Pool: pool})
	must(t, err)
	failed := func(_ http.ResponseWriter, _ *http.Request, err error) { t.Error(err) }
	page := who.Require(auth.Viewer, failed, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	form := url.Values{"token": {made.Token}}.Encode()
	post := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/login", strings.NewReader(form))
	post.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	cookies := (&http.Response{Header: ask(who.Login(failed), post).Header()}).Cookies()
	if len(cookies) != 1 {
		t.Fatalf("the login sets the cookies %v", cookies)
	}
	request := func(header, value string) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/me", nil)
		r.Header.Set(header, value)
		return r
	}
	session := func() *http.Request { return request("Cookie", cookies[0].String()) }
	token := func() *http.Request { return request("Authorization", "Bearer "+made.Token) }
	holds := func(when string, r *http.Request, want int) {
		t.Helper()
		if got := ask(page, r).Code; got != want {
			t.Errorf("%s: status %d, want %d", when, got, want)
		}
	}
	holds("the session", session(), http.StatusOK)
	holds("the token", token(), http.StatusOK)
	ask(who.Logout(failed), session())
	holds("the session after the logout", session(), http.StatusUnauthorized)
	_, err = acting.Do(t.Context(), admin.On(pool), by, "revokeToken", "name=ben")
	must(t, err)
	holds("the token after it was revoked", token(), http.StatusUnauthorized)

	tokens, err := auth.List(t.Context(), pool, true)
	must(t, err)
	if got := tokens[len(tokens)-1]; got.LastUsedAt == nil || got.RevokedBy != "ada" {
		t.Errorf("the token is %+v", got)
	}
	records, err := publications.Log(t.Context(), pool, publications.LogFilter{Limit: 2})
	must(t, err)
	for i, act := range []string{"token_revoked", "token_created"} {
		got := records[i]
		if got.Act != act || got.Actor != "ada" || got.Reason != "a test" || got.Way != "cli" || got.DatabaseUser != login ||
			!strings.Contains(string(got.Detail), `"ben"`) {
			t.Errorf("the record is %+v with the detail %s", got, got.Detail)
		}
	}
}
