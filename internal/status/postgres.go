package status

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres is the health of the server, as far as it matters here.
type Postgres struct {
	OldestTransaction time.Duration // since the oldest one open in this database began; 0: none is, or not to be seen
	OldestPID         int           // its backend; 0: none, or a prepared transaction
	OldestGID         string        // the name of the prepared transaction that it is; empty: it is none
	Connections       int           // of clients, to all databases of the server
	MaxConnections    int
	WraparoundLeft    int64 // transactions until the database refuses to write, unless it is vacuumed
	Tables            []Table
	Holders           []Holder
}

// Table is a table that is written all the time.
type Table struct {
	Name         string
	LiveTuples   int64 // by the statistics
	DeadTuples   int64 // by the statistics: rows that vacuum has yet to remove
	Bytes        int64 // with indexes and TOAST
	VacuumedAt   *time.Time
	AutovacuumAt *time.Time
}

// Oldest names the oldest open transaction, with the statement that ends it; "": there is none to be seen.
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

func readPostgres(ctx context.Context, tx pgx.Tx, s *Status) error {
	p := &Postgres{}
	var seconds float64
	if err := tx.QueryRow(ctx, queryServer).Scan(&seconds, &p.OldestPID, &p.OldestGID, &p.Connections, &p.MaxConnections,
		&p.WraparoundLeft); err != nil {
		return err
	}
	p.OldestTransaction = time.Duration(seconds * float64(time.Second))
	var err error
	if p.Holders, err = Holders(ctx, tx, longAppend); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, queryTables)
	if err != nil {
		return err
	}
	if p.Tables, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Table]); err != nil {
		return err
	}
	s.Postgres = p
	return nil
}
