package auth

import (
	"context"
	"fmt"
)

// Role is what somebody may do. Each may also do what the ones before may.
type Role int

// The roles.
const (
	Nobody   Role = iota // has not said who they are
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

// Identity is who sends a request. Its zero value is nobody, who may do nothing.
type Identity struct {
	Name string // that goes into logs; up to 256 bytes
	Role Role
	Via  string // "token", "session", "proxy", "anonymous" or "database"
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
