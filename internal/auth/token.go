package auth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

var (
	// ErrNameTaken is returned by [Create].
	ErrNameTaken = errors.New("a token of that name exists: revoke it first, or choose another name")
	// ErrNoToken is returned by [Revoke].
	ErrNoToken = errors.New("there is no such token")
)

const (
	tokenPrefix = "tmk_" // lets secret scanners recognise a token
	secretBytes = 32
	nameBytes   = 128
)

// Token describes a token, without its secret.
type Token struct {
	ID         int64
	Name       string
	Role       string
	CreatedAt  time.Time
	CreatedBy  string
	ExpiresAt  *time.Time // nil: never
	LastUsedAt *time.Time // accurate to a minute; nil: never
	RevokedAt  *time.Time // nil: not revoked
	RevokedBy  string
}

// Lifetimes of tokens.
const (
	DefaultExpiry = 90 * 24 * time.Hour
	Never         = time.Duration(-1) // no expiry
)

// Create creates a token for name and returns its secret, which cannot be read again. It expires
// after d; 0 means [DefaultExpiry], and [Never] no expiry. The operator log records who created it
// and the reason. Errors: [ErrNameTaken].
func Create(
	ctx context.Context, db event.Querier, name string, role Role, d time.Duration, who Identity, reason string,
) (token string, err error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	if role < Viewer || role > Admin {
		return "", fmt.Errorf("create token %q: role %q: use viewer, operator or admin", name, role)
	}
	d = cmp.Or(d, DefaultExpiry)
	expires := &d
	if d == Never {
		expires = nil
	} else if d < 0 {
		return "", fmt.Errorf("create token %q: its lifetime is %v: it must be positive", name, d)
	}
	token = tokenPrefix + random()
	id, err := rows.One(ctx, db, pgx.RowTo[*int64], "", queryCreate, name, role.String(), hash(token), expires,
		who.Name, reason, who.Way, who.TokenID, who.Address)
	if err == nil && id == nil {
		err = ErrNameTaken
	}
	if err != nil {
		return "", fmt.Errorf("create token %q: %w", name, err)
	}
	return token, nil
}

// List returns the valid tokens, oldest first; with all, also those that were revoked or expired.
func List(ctx context.Context, db event.Querier, all bool) ([]Token, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Token], "list tokens", queryList, all)
}

// Revoke ends the token and its sessions at once. The operator log records who revoked it and the
// reason. Errors: [ErrNoToken].
func Revoke(ctx context.Context, db event.Querier, name string, who Identity, reason string) error {
	found, err := rows.One(ctx, db, pgx.RowTo[bool], "", queryRevoke, name, who.Name, reason, who.Way, who.TokenID,
		who.Address)
	if err == nil && !found {
		err = ErrNoToken
	}
	if err != nil {
		return fmt.Errorf("revoke token %q: %w", name, err)
	}
	return nil
}

// checkName rejects names that are unreadable in a log or cannot be the user of basic authentication.
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

// hash returns the SHA-256 that the database stores of a token or session. One round is enough: each
// is 256 random bits.
func hash(secret string) []byte {
	h := sha256.Sum256([]byte(secret))
	return h[:]
}

// validFor is the maximum age of the cached hashes.
const validFor = time.Second

// valid caches the SHA-256 of the hashes of valid tokens and sessions. With it, a flood of wrong
// secrets costs one query a second and locks no valid secret out.
type valid struct {
	mu     sync.Mutex
	read   time.Time
	hashes map[[sha256.Size]byte]bool
}

// has reports whether a secret may be valid. It misses a secret younger than validFor, a session
// beyond the 100,000 that queryValid reads, and any if the database fails.
func (v *valid) has(ctx context.Context, pool *pgxpool.Pool, secret string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Since(v.read) > validFor {
		v.read = time.Now()
		hashes, err := hashesOf(ctx, pool, queryValid)
		if err != nil {
			return false
		}
		v.hashes = hashes
	}
	return v.hashes[sha256.Sum256(hash(secret))]
}

func hashesOf(ctx context.Context, pool *pgxpool.Pool, query string, args ...any) (map[[sha256.Size]byte]bool, error) {
	found, err := rows.All(ctx, pool, pgx.RowTo[[]byte], "", query, args...)
	hashes := make(map[[sha256.Size]byte]bool, len(found))
	for _, h := range found {
		hashes[[sha256.Size]byte(h)] = true
	}
	return hashes, err
}

// Holding reports for each identity whether its token, session or JWT is still valid. Other
// identities are valid as long as their connection.
func (a *Authenticator) Holding(ctx context.Context, ids []Identity) ([]bool, error) {
	hashes := make([][]byte, 0, len(ids))
	for i := range ids {
		if ids[i].TokenID != 0 {
			hashes = append(hashes, ids[i].secret[:])
		}
	}
	var known map[[sha256.Size]byte]bool
	if len(hashes) > 0 {
		var err error
		if known, err = hashesOf(ctx, a.cfg.Pool, queryHolding, hashes); err != nil {
			return nil, fmt.Errorf("look for tokens and sessions: %w", err)
		}
	}
	holds := make([]bool, len(ids))
	for i := range ids {
		holds[i] = (ids[i].TokenID == 0 || known[ids[i].secret]) &&
			(ids[i].Until.IsZero() || time.Now().Before(ids[i].Until))
	}
	return holds, nil
}
