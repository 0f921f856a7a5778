package auth_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const (
	secret   = "a secret of the proxy's"
	audience = "tidemark"
)

// issuer signs tokens and serves its keys.
type issuer struct {
	*httptest.Server
	key, other *rsa.PrivateKey
	fetched    atomic.Int64
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	var err error
	for _, key := range []**rsa.PrivateKey{&i.key, &i.other} {
		if *key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			t.Fatal(err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL, "token_endpoint": i.URL,
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.fetched.Add(1)
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
			{Key: i.key.Public(), KeyID: "1", Algorithm: "RS256", Use: "sig"},
		}})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

// token returns a JWT of a kind, with a role unless it is empty.
func (i *issuer) token(t *testing.T, kind, role string) string {
	t.Helper()
	now := time.Now()
	claims := map[string]any{
		"iss": i.URL, "aud": audience, "sub": "carol", "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(),
	}
	if role != "" {
		claims["roles"] = []string{"staff", role}
	}
	var key any = jose.JSONWebKey{Key: i.key, KeyID: "1"}
	alg := jose.RS256
	switch kind {
	case "expired":
		claims["exp"] = now.Add(-time.Minute).Unix()
	case "without an end":
		delete(claims, "exp")
	case "not yet":
		claims["nbf"] = now.Add(time.Hour).Unix()
	case "another audience":
		claims["aud"] = "another"
	case "another issuer":
		claims["iss"] = "https://example.com"
	case "another key":
		key = jose.JSONWebKey{Key: i.other, KeyID: "1"}
	case "an unknown key":
		key = jose.JSONWebKey{Key: i.other, KeyID: "2"}
	case "the public key as a secret":
		der, err := x509.MarshalPKIXPublicKey(i.key.Public())
		if err != nil {
			t.Fatal(err)
		}
		key, alg = der, jose.HS256
	case "alg none":
		body, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		part := base64.RawURLEncoding.EncodeToString
		return part([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + part(body) + "."
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	if kind == "changed" {
		parts := strings.Split(text, ".")
		claims["sub"] = "mallory"
		if body, err = json.Marshal(claims); err != nil {
			t.Fatal(err)
		}
		parts[1] = base64.RawURLEncoding.EncodeToString(body)
		text = strings.Join(parts, ".")
	}
	return text
}

// who returns the identity of a request as "role name way", or the status of its refusal.
func who(a *auth.Authenticator, peer string, header map[string]string) string {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/me", nil)
	r.RemoteAddr = net.JoinHostPort(peer, "1")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	known := "?"
	failed := func(_ http.ResponseWriter, _ *http.Request, err error) { known = err.Error() }
	a.Require(auth.Viewer, failed, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		id := auth.From(r.Context())
		known = fmt.Sprintf("%s %s %s", id.Role, id.Name, id.Via)
	})).ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return fmt.Sprint(w.Code)
	}
	return known
}

func networks(list ...string) (found []netip.Prefix) {
	for _, text := range list {
		found = append(found, netip.MustParsePrefix(text))
	}
	return found
}

// The test combines each address, header, secret and token with each configuration. The expected
// results are written out here a second time.
func TestWhoARequestIsFrom(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	issued := newIssuer(t)
	jwts := map[string]string{"": ""}
	for _, kind := range []string{
		"good", "expired", "without an end", "not yet", "another audience", "another issuer", "another key",
		"an unknown key", "the public key as a secret", "alg none", "changed",
	} {
		jwts[kind] = issued.token(t, kind, "operator")
	}
	jwts["good, without a role"] = issued.token(t, "good", "")
	jwts["good, with a role of theirs"] = issued.token(t, "good", "root")
	peers := map[string]string{
		"loopback":      "127.0.0.1",
		"IPv6 loopback": "::1",
		"proxy":         "10.0.0.1",
		"proxy as IPv6": "::ffff:10.0.0.1",
		"forwarder":     "172.16.0.1",
		"other":         "192.0.2.1",
	}
	n := 0
	for _, setting := range []struct {
		roleHeader, secret string
		jwt                bool
		roleClaim          string
		anonymous          auth.Role
	}{
		{},
		{secret: secret},
		{roleHeader: "X-Forwarded-Role", secret: secret},
		{anonymous: auth.Admin},
		{anonymous: auth.Admin, roleHeader: "X-Forwarded-Role", secret: secret},
		{jwt: true},
		{jwt: true, roleClaim: "roles", anonymous: auth.Viewer, roleHeader: "X-Forwarded-Role", secret: secret},
	} {
		now := time.Now()
		cfg := auth.Config{
			Pool:       pool,
			Anonymous:  setting.anonymous,
			Forwarders: networks("172.16.0.0/12"),
			Proxies:    networks("10.0.0.0/8"),
			RoleHeader: setting.roleHeader,
			Secret:     setting.secret,
			Now:        func() time.Time { now = now.Add(time.Hour); return now }, // lockouts expire between calls
		}
		if setting.jwt {
			cfg.JWT = auth.JWT{
				Issuer:    issued.URL,
				Audience:  audience,
				RoleClaim: setting.roleClaim,
				Header:    "X-Access-Token",
			}
		}
		a, err := auth.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for from, peer := range peers {
			for _, user := range []string{"", "ada"} {
				for _, role := range []string{"", "viewer", "operator", "admin", "root"} {
					for _, given := range []string{"", secret, "wrong"} {
						for _, by := range []string{"", "127.0.0.1"} {
							for kind, jwt := range jwts {
								if jwt != "" && (role == "viewer" || role == "operator" || by != "") {
									continue // these cases do not differ
								}
								header := map[string]string{}
								for name, value := range map[string]string{
									"X-Forwarded-User": user, "X-Forwarded-Role": role, "X-Tidemark-Proxy-Secret": given, "X-Forwarded-For": by,
									"X-Access-Token": jwt,
								} {
									if value != "" {
										header[name] = value
									}
								}
								want := "401"
								proxied := user != "" && strings.HasPrefix(from, "proxy")
								proved := setting.secret == "" || given == secret
								switch {
								case setting.jwt && jwt != "":
									switch {
									case kind == "good" && setting.roleClaim != "":
										want = "operator carol jwt"
									case kind == "good",
										kind == "good, without a role",
										kind == "good, with a role of theirs" && setting.roleClaim == "":
										want = "viewer carol jwt"
									}
								case proxied && proved && setting.roleHeader == "":
									want = "viewer ada proxy"
								case proxied && proved && role == "root":
								case proxied && proved && role == "":
									want = "viewer ada proxy"
								case proxied && proved:
									want = role + " ada proxy"
								case setting.anonymous > auth.Nobody && strings.Contains(from, "loopback") && len(header) == 0,
									setting.anonymous > auth.Nobody && strings.Contains(from, "loopback") && len(header) == 1 &&
										jwt != "":
									want = setting.anonymous.String() + " anonymous anonymous"
								}
								n++
								if got := who(a, peer, header); got != want {
									t.Errorf("with %+v a request from %s (%s) with %v and a JWT that is %q is %s, want %s",
										setting, from, peer, header, kind, got, want)
								}
							}
						}
					}
				}
			}
		}
	}
	if n < 5000 {
		t.Errorf("only %d requests were tried", n)
	}
	if got := issued.fetched.Load(); got > 10 {
		t.Errorf("tokens with unknown keys had the keys read %d times", got)
	}
}

func TestARoleHeaderNeedsASecret(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for given, ok := range map[string]bool{"": false, "short": false, secret: true} {
		cfg := auth.Config{Pool: pool, Proxies: networks("10.0.0.0/8"), RoleHeader: "X-Forwarded-Role", Secret: given}
		if _, err := auth.New(cfg); (err == nil) != ok {
			t.Errorf("with the secret %q: %v", given, err)
		}
	}
	if _, err := auth.New(auth.Config{Pool: pool, JWT: auth.JWT{Issuer: "https://example.com"}}); err == nil {
		t.Error("JWTs for any audience are believed")
	}
}

// Keys that come in the clear can be replaced on their way.
func TestKeysOfJWTsNeverComeInTheClear(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, c := range []struct {
		issuer, keys string
		ok           bool
	}{
		{"https://id.example.com", "", true},
		{"https://id.example.com", "https://keys.example.com/jwks", true},
		{"http://127.0.0.1:8080", "", true},
		{"http://[::1]:8080", "http://localhost/jwks", true},
		{"http://id.example.com", "", false},
		{"http://10.0.0.7:8080/realms/shop", "", false},
		{"http://127.0.0.1.example.com", "", false},
		{"https://id.example.com", "http://keys.example.com/jwks", false},
		{"id.example.com", "", false},
		{"ftp://id.example.com", "", false},
		{"https://", "", false},
	} {
		_, err := auth.New(auth.Config{Pool: pool, JWT: auth.JWT{Issuer: c.issuer, Audience: audience, KeysURL: c.keys}})
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "https") {
			t.Errorf("issuer %s, keys %q: %v", c.issuer, c.keys, err)
		}
	}
}

func TestAJWTIsABearerTokenWhereNoHeaderIsNamed(t *testing.T) {
	t.Parallel()
	pool, issued := pgtest.New(t), newIssuer(t)
	a, err := auth.New(auth.Config{
		Pool: pool,
		JWT:  auth.JWT{Issuer: issued.URL, Audience: audience, KeysURL: issued.URL + "/keys", RoleClaim: "roles"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ours, err := auth.Create(t.Context(), pool, "ada", auth.Admin, 0, auth.Identity{Name: "the test"}, "")
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{
		issued.token(t, "good", "admin"):        "admin carol jwt",
		issued.token(t, "another key", "admin"): "401", ours: "admin ada token",
	} {
		if got := who(a, "192.0.2.1", map[string]string{"Authorization": "Bearer " + token}); got != want {
			t.Errorf("it is %s, want %s", got, want)
		}
	}
	issued.Close()
	dark, err := auth.New(auth.Config{Pool: pool, JWT: auth.JWT{Issuer: issued.URL, Audience: audience}})
	if err != nil {
		t.Fatal(err)
	}
	bearer := map[string]string{"Authorization": "Bearer " + issued.token(t, "good", "admin")}
	if got := who(dark, "192.0.2.1", bearer); got != "503" {
		t.Errorf("while the issuer cannot be reached, a token is answered %s", got)
	}
}

func TestTokensExpireUnlessToldNotTo(t *testing.T) {
	t.Parallel()
	pool, by := pgtest.New(t), auth.Identity{Name: "the test"}
	for name, d := range map[string]time.Duration{"default": 0, "never": auth.Never, "hour": time.Hour} {
		if _, err := auth.Create(t.Context(), pool, name, auth.Viewer, d, by, ""); err != nil {
			t.Fatal(err)
		}
	}
	tokens, err := auth.List(t.Context(), pool, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range tokens {
		want := map[string]time.Duration{"default": auth.DefaultExpiry, "hour": time.Hour}[token.Name]
		if token.ExpiresAt == nil != (want == 0) {
			t.Errorf("%s expires at %v", token.Name, token.ExpiresAt)
		} else if want > 0 && time.Until(*token.ExpiresAt).Round(time.Hour/2) != want {
			t.Errorf("%s expires in %v, want %v", token.Name, time.Until(*token.ExpiresAt), want)
		}
	}
	if _, err := auth.Create(t.Context(), pool, "past", auth.Viewer, -time.Hour, by, ""); err == nil {
		t.Error("a token was made that has expired")
	}
}
