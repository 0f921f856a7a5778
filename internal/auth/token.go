package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Errors of tokens.
var (
	// ErrNameTaken is returned by [Create].
	ErrNameTaken = errors.New("there is a token of that name: revoke it first, or choose another name")
	// ErrNoToken is returned by [Revoke].
	ErrNoToken = errors.New("there is no such token")
)

const (
	tokenPrefix = "tmk_" // so that a scanner of secrets knows one when it sees one
	secretBytes = 32
	nameBytes   = 128
)

// Token is what is known of a token. The token itself is not.
type Token struct {
	ID         int64
	Name       string
	Role       string
	CreatedAt  time.Time
	CreatedBy  string
	ExpiresAt  *time.Time // nil: never
	LastUsedAt *time.Time // to within a minute; nil: never
	RevokedAt  *time.Time // nil: it is not
	RevokedBy  string
}

// How long tokens hold.
const (
	DefaultExpiry = 90 * 24 * time.Hour
	Never         = time.Duration(-1) // expires
)

// Create makes a token for name and answers it. It is shown this once and cannot be had again. It
// expires after d, which may be [Never]; 0: after [DefaultExpiry]. The log of operators gets a
// record of who did it and why. Errors: [ErrNameTaken].
func Create(
	ctx context.Context, db journal.Querier, name string, role Role, d time.Duration, who Identity, reason string,
) (token string, err error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	if role < Viewer || role > Admin {
		return "", fmt.Errorf("create token %q: role %q: use viewer, operator or admin", name, role)
	}
	if d == 0 {
		d = DefaultExpiry
	}
	expires := &d
	if d == Never {
		expires = nil
	} else if d < 0 {
		return "", fmt.Errorf("create token %q: it would expire after %v: give a time that lies ahead", name, d)
	}
	token = tokenPrefix + random()
	id, err := one[*int64](ctx, db, queryCreate, name, role.String(), hash(token), expires,
		who.Name, reason, who.Way, who.TokenID, who.Address)
	if err == nil && id == nil {
		err = ErrNameTaken
	}
	if err != nil {
		return "", fmt.Errorf("create token %q: %w", name, err)
	}
	return token, nil
}

// List answers the tokens that hold or, with all, also those that were revoked or have expired,
// oldest first.
func List(ctx context.Context, db journal.Querier, all bool) ([]Token, error) {
	rows, err := db.Query(ctx, queryList, all)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	tokens, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Token])
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	return tokens, nil
}

// Revoke ends the token of that name and the sessions begun with it, at once. The log of operators
// gets a record of who did it and why. Errors: [ErrNoToken].
func Revoke(ctx context.Context, db journal.Querier, name string, who Identity, reason string) error {
	found, err := one[bool](ctx, db, queryRevoke, name, who.Name, reason, who.Way, who.TokenID, who.Address)
	if err == nil && !found {
		err = ErrNoToken
	}
	if err != nil {
		return fmt.Errorf("revoke token %q: %w", name, err)
	}
	return nil
}

// one reads one value.
func one[T any](ctx context.Context, db journal.Querier, sql string, args ...any) (value T, err error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return value, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
}

// checkName keeps what would be unreadable in a log, or cannot be a user of basic authentication,
// from being a name.
func checkName(name string) error {
	bad := name == "" || len(name) > nameBytes || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, func(r rune) bool { return r == ':' || unicode.IsSpace(r) || !unicode.IsPrint(r) })
	if bad {
		return fmt.Errorf(
			"token's name %q: use 1 to %d bytes of printable characters without spaces and colons",
			name,
			nameBytes,
		)
	}
	return nil
}

func random() string {
	b := make([]byte, secretBytes)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// hash is what is kept of a token or a session. Both are 256 random bits, so that one round is enough.
func hash(secret string) []byte {
	h := sha256.Sum256([]byte(secret))
	return h[:]
}
