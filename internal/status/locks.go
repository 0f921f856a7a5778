package status

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Holder is a session or a prepared transaction that holds advisory locks of Tidemark's namespaces
// longer than Tidemark itself does. Any role that may log in can take these locks, and with them stop
// appends and workers.
type Holder struct {
	PID         int    // 0: a prepared transaction
	GID         string // name of the prepared transaction
	Application string
	User        string
	// start or prepare time of its transaction; outside a transaction, its last activity
	Since  time.Time
	Remedy string // the statement that ends it
}

// String describes the holder for an operator.
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

// quoted returns GID as an SQL literal.
func (h Holder) quoted() string { return "'" + strings.ReplaceAll(h.GID, "'", "''") + "'" }

// Holders returns the holders of advisory locks of Tidemark's namespaces that have held them for
// longer than the limit or outside a transaction: up to five, the oldest first.
func Holders(ctx context.Context, tx pgx.Tx, longer time.Duration) ([]Holder, error) {
	return rows.All(ctx, tx, pgx.RowToStructByPos[Holder], "look who holds advisory locks", queryHolders, longer)
}

// locked reports the holders of advisory locks, except an append that storage reports already.
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
