package auth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

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
	rows, err := pool.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
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
