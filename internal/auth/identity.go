package auth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"time"
)

// Role is what a user may do. Each may also do what the ones before may.
type Role int

// The roles.
const (
	Nobody   Role = iota // without credentials
	Viewer               // looks; sees no payloads unless the configuration allows it
	Operator             // acts so that nothing is lost: requeue, retry, pause, resume, replay, repair, verify
	Admin                // also what leaves events out, moves positions, exchanges tables, drains workers
)

// ParseRole reads "viewer", "operator" or "admin".
func ParseRole(name string) (Role, error) {
	for _, r := range []Role{Viewer, Operator, Admin} {
		if r.String() == name {
			return r, nil
		}
	}
	return Nobody, fmt.Errorf("role %q: use viewer, operator or admin", name)
}

// String answers the role's name.
func (r Role) String() string {
	switch r {
	case Viewer:
		return "viewer"
	case Operator:
		return "operator"
	case Admin:
		return "admin"
	}
	return "nobody"
}

// Identity is who sends a request. The zero value may do nothing.
type Identity struct {
	Name string // that goes into logs; up to 256 bytes
	Role Role
	Via  string // "token", "session", "proxy", "jwt", "anonymous" or "database"

	TokenID int64     // of the token, or of the session's; 0: none
	Until   time.Time // when a JWT expires; zero: something else says so
	Address string    // of the client; "": from the command line
	Way     string    // "cli", "api" or "page"

	secret [sha256.Size]byte // of the token or the session
}

// Owner is what idempotency keys and limits belong to: a token, or else a name and the way it came.
// Who gets the name of a token that was revoked does not get what was its.
func (id Identity) Owner() string {
	if id.TokenID != 0 {
		return "token " + strconv.FormatInt(id.TokenID, 10)
	}
	return id.Via + " " + id.Name
}

type contextKey struct{}

// With answers a context that carries the identity.
func With(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, id)
}

// From answers the identity of a request's context; the zero Identity where there is none.
func From(ctx context.Context) Identity {
	id, _ := ctx.Value(contextKey{}).(Identity)
	return id
}
