package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/auth"
)

// NewToken is a token that was made. Neither the log nor what is kept of an idempotency key has the token itself.
type NewToken struct {
	Name    string `json:"name"`
	Role    string `json:"role"`
	Expires string `json:"expires"`         // a Go duration, or "never"
	Token   string `json:"token,omitempty"` // "" in the answer to a request that is repeated: revoke it, and make another
}

// CreateToken makes a token, which expires after d as [auth.Create] says. The outcome's detail is the [NewToken].
// Errors: [ErrInvalid], and those of [auth.Create].
func (a *Acts) CreateToken(
	ctx context.Context, r Request, name string, role auth.Role, d time.Duration,
) (*Outcome, error) {
	made := NewToken{Name: name, Role: role.String()}
	switch d {
	case 0:
		made.Expires = auth.DefaultExpiry.String()
	case auth.Never:
		made.Expires = "never"
	default:
		made.Expires = d.String()
	}
	var token string
	t := act{Request: r, kind: ActCreateToken, request: made, logs: true}
	o, err := a.do(ctx, t, func(ctx context.Context, tx pgx.Tx) (_ any, err error) {
		token, err = auth.Create(ctx, tx, name, role, d, r.Who, r.Reason)
		return made, err
	})
	if err != nil || o.Repeated {
		return o, err
	}
	made.Token = token
	if o.Detail, err = json.Marshal(made); err != nil {
		return nil, fmt.Errorf("%s: %w", ActCreateToken, err)
	}
	return o, nil
}

// RevokeToken ends a token, and the sessions begun with it, at once. Errors are those of [auth.Revoke].
func (a *Acts) RevokeToken(ctx context.Context, r Request, name string) (*Outcome, error) {
	asked := map[string]string{"name": name}
	t := act{Request: r, kind: ActRevokeToken, request: asked, logs: true}
	return a.do(ctx, t, func(ctx context.Context, tx pgx.Tx) (any, error) {
		return asked, auth.Revoke(ctx, tx, name, r.Who, r.Reason)
	})
}
