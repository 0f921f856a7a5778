package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

// Role is a set of permissions. Each role includes the ones before it.
type Role int

// The roles.
const (
	Nobody   Role = iota // no credentials
	Viewer               // reads; sees no payloads unless the configuration allows it
	Operator             // runs acts that lose nothing: requeue, retry, pause, resume, replay, repair, verify
	Admin                // also skips events, moves positions, swaps tables, drains workers
)

// ParseRole parses "viewer", "operator" or "admin".
func ParseRole(name string) (Role, error) {
	for _, r := range []Role{Viewer, Operator, Admin} {
		if r.String() == name {
			return r, nil
		}
	}
	return Nobody, fmt.Errorf("role %q: use viewer, operator or admin", name)
}

func (r Role) String() string {
	if r < Viewer || r > Admin {
		return "nobody"
	}
	return []string{Viewer: "viewer", Operator: "operator", Admin: "admin"}[r]
}

// Identity is the sender of a request. The zero value has no permissions.
type Identity struct {
	Name string // as it appears in logs; up to 256 bytes
	Role Role
	Via  string // "token", "session", "proxy", "jwt", "anonymous" or "database"

	TokenID int64     // of the token, or the token of the session; 0: none
	Until   time.Time // when a JWT expires; zero: not a JWT
	Address string    // of the client; "": from the command line
	Way     string    // "cli", "api" or "page"

	secret [sha256.Size]byte // of the token or the session
}

// Owner returns the key that idempotency keys and limits belong to: the token's ID, or Via and Name
// if there is no token. A new token with the name of a revoked one is a different owner.
func (id Identity) Owner() string {
	if id.TokenID != 0 {
		return "token " + strconv.FormatInt(id.TokenID, 10)
	}
	return id.Via + " " + id.Name
}

type contextKey struct{}

// With returns a context that carries the identity.
func With(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, id)
}

// From returns the identity in ctx, or the zero Identity if there is none.
func From(ctx context.Context) Identity {
	id, _ := ctx.Value(contextKey{}).(Identity)
	return id
}

// Failed writes the response to a request whose credentials the database could not check.
type Failed func(w http.ResponseWriter, r *http.Request, err error)

// Require passes on requests whose sender has at least the role, with their [Identity] in the
// context. Others get 401 with a challenge, 403, 429 with Retry-After, or 503 if the issuer of JWTs
// cannot be reached. A browser that asks for a page without credentials is redirected to /login.
func (a *Authenticator) Require(role Role, failed Failed, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := a.identify(w, r)
		switch refused, ok := errors.AsType[*problem.Problem](err); {
		case ok:
			challenge(w, refused)
			return
		case err != nil:
			failed(w, r, err)
			return
		case id.Role == Nobody && wantsPage(r):
			http.Redirect(w, r, "/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
			return
		case id.Role == Nobody:
			const remedy = "send a token: Authorization: Bearer tmk_…"
			challenge(w, unauthorized("this needs credentials", remedy))
			return
		case id.Role < role:
			detail := fmt.Sprintf("%s is %s, and this is for role %s", id.Name, id.Role, role)
			challenge(w, problem.New(http.StatusForbidden, detail, "ask a person with that role").
				Of("role", id.Role.String(), role.String()))
			return
		}
		id.Address, id.Way = a.client(r).String(), "page"
		if strings.HasPrefix(r.URL.Path, "/api/") {
			id.Way = "api"
		}
		next.ServeHTTP(w, r.WithContext(With(r.Context(), id)))
	})
}

func challenge(w http.ResponseWriter, p *problem.Problem) {
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="tidemark"`)
		w.Header().Add("WWW-Authenticate", `Basic realm="tidemark", charset="UTF-8"`)
	}
	if p.Status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", p.Limit)
	}
	problem.Write(w, p)
}

func unauthorized(detail, remedy string) *problem.Problem {
	return problem.New(http.StatusUnauthorized, detail, remedy)
}

func tooMany(addr netip.Addr, wait time.Duration) *problem.Problem {
	seconds := strconv.Itoa(int(math.Ceil(wait.Seconds())))
	return problem.New(http.StatusTooManyRequests, "too many wrong credentials from this address", "wait "+seconds+" s").
		Of("address", addr.String(), seconds)
}

func wantsPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		strings.Contains(r.Header.Get("Accept"), "text/html")
}
