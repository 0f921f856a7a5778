// Package keys finds the keys of subjects that do not open, and deletes one by its id. [catalogue.Sealer] has
// the table tidemark.keys; this package owns none.
package keys

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// ErrNotFound is returned for a key that is not there. Its message tells whether it was deleted.
var ErrNotFound = errors.New("there is no such key")

// Unopened is a key that workers and publishers could not open.
type Unopened struct {
	ID     string `json:"id"`
	Failed int64  `json:"failed"` // failed campaigns, and keys of projections across campaigns
	Parked int64  `json:"parked"` // events of publishers, parked or retried
	Held   int64  `json:"held"`   // readers of the journal that it holds back
}

// List returns the keys that the errors of failed campaigns, parked events and readers name, those with
// most failures first. It reads the first ten thousand failures of each kind.
func List(ctx context.Context, db rows.Querier, limit int) ([]Unopened, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Unopened], "look for keys that do not open", queryUnopened, limit)
}

// Found is a key, with what is known to be sealed by it.
type Found struct {
	ID        string    `json:"id"`
	WrappedBy string    `json:"wrapped_by"` // name of the wrapping key
	CreatedAt time.Time `json:"created_at"`
	Events    int64     `json:"events"`    // of the newest Looked, which name the key
	Looked    int64     `json:"looked"`    // events
	Campaigns []string  `json:"campaigns"` // of these and of the failures, the first ten
	Failed    int64     `json:"failed"`    // failed campaigns whose error names it
	Parked    int64     `json:"parked"`    // parked events whose error names it
}

// Find returns a key, or [ErrNotFound]. It reads the newest ten thousand events.
func Find(ctx context.Context, db rows.Querier, id string) (Found, error) {
	found, err := rows.One(ctx, db, pgx.RowToStructByPos[Found], "", queryFind, id)
	if errors.Is(err, pgx.ErrNoRows) {
		err = missing(ctx, db, id)
	}
	return found, err
}

func missing(ctx context.Context, db rows.Querier, id string) error {
	at, err := rows.One(ctx, db, pgx.RowTo[*time.Time], "", queryDeleted, id)
	if err != nil {
		return err
	}
	if at != nil {
		return fmt.Errorf("key %s was deleted at %s: %w", id, at.UTC().Format(time.RFC3339), ErrNotFound)
	}
	return fmt.Errorf("key %s: %w", id, ErrNotFound)
}

// Actor deletes a key. The operators' log has it.
type Actor struct {
	Name, Reason, Way string
	TokenID           int64
	Address           string
}

// Delete deletes a key for good, and writes that to the operators' log. What the key has sealed is erased.
// Programs drop it from their memory when they read next. Errors: [ErrNotFound], and those of the database.
func Delete(ctx context.Context, tx pgx.Tx, id string, by Actor) error {
	gone, err := rows.One(ctx, tx, pgx.RowTo[bool], "delete a key", queryDelete, id, by.Name, by.Reason, by.Way,
		by.TokenID, by.Address)
	if err == nil && !gone {
		err = missing(ctx, tx, id)
	}
	return err
}
