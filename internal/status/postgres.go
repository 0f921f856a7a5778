package status

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Postgres is the health of the server.
type Postgres struct {
	OldestTransaction time.Duration // age of the oldest transaction in this database; 0: none, or none visible
	OldestPID         int           // its backend; 0: none, or a prepared transaction
	OldestGID         string        // name of the prepared transaction; empty: not a prepared one
	Connections       int           // client connections to all databases of the server
	MaxConnections    int
	WraparoundLeft    int64   // transactions until the database refuses to write, unless it is vacuumed
	NotifyQueue       float64 // how full the server's NOTIFY queue is, from 0 to 1
	NotifyHolder      *Holder // of a queue that is more than half full: the session that most likely keeps it so
	Tables            []Table
	Holders           []Holder
}

// Table is the state of a table with frequent writes.
type Table struct {
	Name         string
	LiveTuples   int64 // by the statistics
	DeadTuples   int64 // by the statistics: rows that vacuum has not removed yet
	Bytes        int64 // with indexes and TOAST
	VacuumedAt   *time.Time
	AutovacuumAt *time.Time
}

// Oldest returns the oldest open transaction and the statement that ends it, or "" if none is
// visible.
func (p *Postgres) Oldest() (name, remedy string) {
	switch {
	case p.OldestGID != "":
		h := Holder{GID: p.OldestGID}
		return "prepared transaction " + h.quoted(), "ROLLBACK PREPARED " + h.quoted()
	case p.OldestPID != 0:
		return fmt.Sprintf("backend %d", p.OldestPID), fmt.Sprintf("SELECT pg_terminate_backend(%d)", p.OldestPID)
	}
	return "", ""
}

func readPostgres(ctx context.Context, tx pgx.Tx, s *Status) (err error) {
	p := &Postgres{}
	var seconds float64
	if err = tx.QueryRow(ctx, queryServer).Scan(&seconds, &p.OldestPID, &p.OldestGID, &p.Connections, &p.MaxConnections,
		&p.WraparoundLeft, &p.NotifyQueue); err != nil {
		return err
	}
	p.NotifyQueue = math.Round(p.NotifyQueue*1e4) / 1e4
	p.OldestTransaction = time.Duration(seconds * float64(time.Second))
	if p.Holders, err = Holders(ctx, tx, longAppend); err != nil {
		return err
	}
	if p.NotifyQueue > halfFull {
		found, err := rows.All(ctx, tx, pgx.RowToAddrOfStructByPos[Holder], "look who holds the NOTIFY queue", queryNotified)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			p.NotifyHolder = found[0]
		}
	}
	if p.Tables, err = rows.All(ctx, tx, pgx.RowToStructByPos[Table], "look at tables", queryTables); err != nil {
		return err
	}
	s.Postgres = p
	return nil
}

// storage reports problems of Postgres, the journal and the inbox.
func (s *Status) storage(found *problems) {
	ago := func(d time.Duration) *time.Time { return new(s.At.Add(-d)) }
	if j := s.Journal; j != nil && j.FloorAge > longAppend {
		found.add(Critical, "journal", ago(j.FloorAge),
			"end it: "+j.FloorRemedy+"; and set idle_in_transaction_session_timeout for the application's role",
			"a transaction that has appended stays open (%s): publishers, projections across campaigns and ReadAll cannot read "+
				"past it", j.FloorHolder)
	}
	if i := s.Inbox; i != nil && i.OldestExpiry != nil && i.At.Sub(*i.OldestExpiry) > longUnpruned {
		found.add(Warning, "inbox", i.OldestExpiry, "run inbox.Pruner in a consumer; docs/guides/inbox.md",
			"no program prunes the marks that have expired")
	}
	p := s.Postgres
	if p == nil {
		return
	}
	if p.OldestTransaction > longTransaction {
		name, remedy := p.Oldest()
		found.add(Warning, "Postgres", ago(p.OldestTransaction),
			"end it: "+remedy+"; or set idle_in_transaction_session_timeout",
			"the oldest transaction (%s) keeps dead rows of the hot tables from being removed", name)
	}
	if share := float64(p.Connections) / float64(max(1, p.MaxConnections)); share > busyConnections {
		found.add(Warning, "Postgres", nil, "put PgBouncer in front, or raise max_connections",
			"%d of %d connections are in use", p.Connections, p.MaxConnections)
	}
	if p.NotifyQueue > halfFull {
		severity, do := Warning, "end the session that listens and is idle in a transaction"
		if p.NotifyQueue > nearlyFull {
			severity = Critical
		}
		if p.NotifyHolder != nil {
			do += ", most likely " + p.NotifyHolder.String() + ": " + p.NotifyHolder.Remedy
		}
		found.add(severity, "Postgres", nil, do,
			"the server's NOTIFY queue is %.0f %% full: programs poll, and once it is full, commits of others that notify fail",
			100*p.NotifyQueue)
	}
	if p.WraparoundLeft < fewTransactions {
		severity := Warning
		if p.WraparoundLeft < noTransactions {
			severity = Critical
		}
		found.add(severity, "Postgres", nil,
			"end old transactions, drop unused replication slots, then VACUUM (FREEZE) the oldest tables",
			"%d transactions are left until the database refuses to write", p.WraparoundLeft)
	}
	for _, t := range p.Tables {
		if t.DeadTuples > manyDead && t.DeadTuples > t.LiveTuples {
			found.add(Warning, "table "+t.Name, t.VacuumedAt,
				"look for what keeps autovacuum away: an old transaction, or autovacuum switched off; VACUUM tidemark."+t.Name+
					" by hand",
				"%d dead rows beside %d live ones", t.DeadTuples, t.LiveTuples)
		}
	}
}

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
			h.Remedy+"; tidemark migrate roles --advisory-locks revokes such locks from other roles "+
				"(docs/guides/operations/security.md)",
			"%s holds Tidemark's advisory locks: appends and workers may wait for it", h)
	}
}
