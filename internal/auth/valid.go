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

// validFor is how old the hashes may be that tell a valid secret from a wrong one, where an address
// has sent too many wrong ones.
const validFor = time.Second

// valid recognises the secrets of all tokens and sessions that hold, by the SHA-256 of their
// hashes. A flood of wrong secrets costs the database one query a second, and locks no valid one
// out.
type valid struct {
	mu     sync.Mutex
	read   time.Time
	hashes map[[sha256.Size]byte]bool
}

// has says whether a secret may be valid: it errs only for a token that is younger than validFor,
// and where the database does not answer.
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

// hashesOf answers the hashes that a query answers.
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

// Holding says of each identity whether its token, session or JWT still holds. Others hold as long
// as their connection.
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
