package status

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Holder is a session, or a prepared transaction, that holds advisory locks of Tidemark's namespaces for longer than
// Tidemark itself does. Any role that may log in can take those, and so stop appends and workers.
type Holder struct {
	PID         int    // 0: it is a prepared transaction
	GID         string // its name
	Application string
	User        string
	// when its transaction began or was prepared; outside of a transaction, when it last did anything
	Since  time.Time
	Remedy string // the statement that ends it
}

// String names it.
func (h Holder) String() string {
	if h.GID != "" {
		return fmt.Sprintf("prepared transaction %s (%s)", h.quoted(), h.User)
	}
	application := ""
	if h.Application != "" {
		application = ", " + h.Application
	}
	return fmt.Sprintf("process %d (%s%s)", h.PID, h.User, application)
}

// quoted is the name of the prepared transaction as a literal.
func (h Holder) quoted() string { return "'" + strings.ReplaceAll(h.GID, "'", "''") + "'" }

// Holders answers who has held advisory locks of Tidemark's namespaces for longer than that, or outside of a
// transaction: five of them, the oldest first.
func Holders(ctx context.Context, tx pgx.Tx, longer time.Duration) ([]Holder, error) {
	return rows.All(ctx, tx, pgx.RowToStructByPos[Holder], "look who holds advisory locks", queryHolders, longer)
}

// locked is about those who hold locks of ours, but for the append that is named as the journal's.
func (s *Status) locked(found *problems) {
	if s.Postgres == nil {
		return
	}
	for _, h := range s.Postgres.Holders {
		if j := s.Journal; j != nil && j.FloorAge > longAppend && j.FloorRemedy == h.Remedy {
			continue
		}
		found.add(Warning, "Postgres", &h.Since,
			h.Remedy+"; deploy/sql/advisory-locks.sql revokes such locks from other roles "+
				"(docs/guides/operations/security.md)",
			"%s holds advisory locks of Tidemark's: appends and workers may wait for it", h)
	}
}
