package auth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"time"
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
