package erasure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// isView is the number of pages of a relation that is no table.
const isView = -2

// searchPages is how many pages of a table one statement reads.
const searchPages = 512

// Report is the outcome of a search for erased values.
type Report struct {
	Erasure  int64      `json:"erasure"`
	Searched []Searched `json:"searched"`
	Rows     int64      `json:"rows"`    // that have an erased value, and no event that is left has the value
	Shared   int64      `json:"shared"`  // events that are left and have an erased value: are they about the subject too?
	Pending  []string   `json:"pending"` // projections whose read models are still made anew: search again later
}

// Searched is a table with the number of rows that have an erased value.
type Searched struct {
	Table string `json:"table"`
	Rows  int64  `json:"rows"`
	Error string `json:"error,omitempty"` // why it was not searched, such as a missing right
}

// ErrKey is returned by [Verify] for a certificate without key, or of another database.
var ErrKey = errors.New("the certificate does not fit")

// Verify searches every table of Tidemark's and of the projections for the values that an erasure has
// erased: texts of 4 characters and more, and their words. It reads the tables once, some pages at a
// time, and takes no lock that readers do not take.
//
// models reads the tables of the projections. Give it a login of the workers' role; db does if the
// projections' tables belong to its login. A session that may do more than the owner of a table gets a
// projector.OwnerError, before anything is searched.
func Verify(ctx context.Context, db journal.Querier, models DB, c Certificate) (r *Report, err error) {
	defer rows.Explain(&err, "search for what erasure %d has erased", c.Erasure)
	if len(c.Key) != 32 {
		return nil, fmt.Errorf("%w: its key has %d bytes, 32 are needed", ErrKey, len(c.Key))
	}
	known, err := rows.One(ctx, db, pgx.RowTo[bool], "", queryKnown, c.Erasure)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, fmt.Errorf("%w: this database has no erasure %d", ErrKey, c.Erasure)
	}
	r = &Report{Erasure: c.Erasure}
	if r.Pending, err = rows.All(ctx, db, pgx.RowTo[string], "", queryLeft); err != nil {
		return nil, err
	}
	tables, err := rows.All(ctx, db, pgx.RowToStructByPos[sized], "list tables", queryTables)
	if err != nil {
		return nil, err
	}
	projections, err := rebuild.Projections(ctx, db)
	if err != nil {
		return nil, err
	}
	for _, p := range projections {
		if err := registry.Readable(ctx, models, p.Schema, p.Tables); err != nil {
			return nil, err
		}
		for _, table := range p.Tables {
			pages, err := rows.One(ctx, models, pgx.RowTo[int64], "", queryPages, pgx.Identifier{p.Schema, table}.Sanitize())
			if err != nil {
				return nil, err
			}
			tables = append(tables, sized{p.Schema, table, pages, true})
		}
	}
	shared, err := r.share(ctx, db, c)
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		s := Searched{Table: pgx.Identifier{t.Schema, t.Table}.Sanitize()}
		query := fmt.Sprintf(querySearch, s.Table)
		if t.Pages == isView {
			s.Error = "something else, such as a view, has the name of the table, which was not searched"
		}
		for page := int64(0); page < t.Pages; page += searchPages {
			args := []any{
				c.Erasure, c.Key, fmt.Sprintf("(%d,0)", page), fmt.Sprintf("(%d,0)", page+searchPages), shared,
			}
			var n int64
			if t.Model {
				n, err = t.search(ctx, models, query, args)
			} else {
				n, err = rows.One(ctx, db, pgx.RowTo[int64], "", query, args...)
			}
			if server, ok := errors.AsType[*pgconn.PgError](err); ok {
				s.Error = server.Message
				break
			}
			if err != nil {
				return nil, err
			}
			s.Rows += n
		}
		r.Searched, r.Rows = append(r.Searched, s), r.Rows+s.Rows
	}
	return r, nil
}

// sized is a table to search.
type sized struct {
	Schema, Table string
	Pages         int64
	Model         bool // is a projection's
}

// search searches pages of a projection's table. The table may run code of its owner, which must not see
// the key: it may have left a search_path, or a prepared statement with the name of one of ours. So
// nothing comes between setting the path and the search, and neither has a name.
func (t sized) search(ctx context.Context, models DB, query string, args []any) (n int64, err error) {
	err = pgx.BeginFunc(ctx, models, func(tx pgx.Tx) error {
		if err := registry.HoldReadable(ctx, tx, t.Schema, []string{t.Table}); err != nil {
			return err
		}
		if err := rows.Do(ctx, tx, "", queryAlone, pgx.QueryExecModeExec); err != nil {
			return err
		}
		n, err = rows.One(ctx, tx, pgx.RowTo[int64], "", query, append([]any{pgx.QueryExecModeExec}, args...)...)
		return err
	})
	return n, err
}

// share counts the events that are left and have an erased value, and returns the hashes of these values.
func (r *Report) share(ctx context.Context, db journal.Querier, c Certificate) (hashes [][]byte, err error) {
	hashes = [][]byte{} // not NULL
	pages, err := rows.One(ctx, db, pgx.RowTo[int64], "", queryPages, "tidemark.journal")
	for page := int64(0); page < pages && err == nil; page += searchPages {
		var n int64
		var some [][]byte
		err = rows.Each(ctx, db, []any{&n, &some}, func() {
			r.Shared, hashes = r.Shared+n, append(hashes, some...)
		}, "search the journal", queryShared, c.Erasure, c.Key, fmt.Sprintf("(%d,0)", page),
			fmt.Sprintf("(%d,0)", page+searchPages))
	}
	slices.SortFunc(hashes, bytes.Compare)
	return slices.CompactFunc(hashes, bytes.Equal), err
}
