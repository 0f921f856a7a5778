package erasure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// isView is the number of pages of a relation that is no table.
const isView = -2

// searchPages is how many pages of a table one statement reads.
const searchPages = 512

// Report is the outcome of a search for erased values.
type Report struct {
	Erasure int64 `json:"erasure"`
	Ended   bool  `json:"ended"` // false: it runs, or was interrupted: the same request continues it

	// Abandoned erasures have ended before all was erased: [Abandon].
	Abandoned bool `json:"abandoned,omitempty"`

	Searched []Searched `json:"searched"`
	Rows     int64      `json:"rows"`    // that have an erased value, and no event that is left has the value
	Shared   int64      `json:"shared"`  // events that are left and have an erased value: are they about the subject too?
	Pending  []string   `json:"pending"` // projections whose read models are still made anew: search again later
}

// Finished reports whether the erasure has ended, all read models are made anew, and all tables were searched.
func (r *Report) Finished() bool {
	return r.Ended && len(r.Pending) == 0 &&
		!slices.ContainsFunc(r.Searched, func(s Searched) bool { return s.Error != "" })
}

// Searched is a table with the number of rows that have an erased value.
type Searched struct {
	Table string `json:"table"`
	Rows  int64  `json:"rows"`
	Error string `json:"error,omitempty"` // why it was not searched, such as a missing right
}

// ErrKey is returned by [Verify] for a certificate without key, or of another database, and for the number of
// an erasure that has ended.
var ErrKey = errors.New("the certificate does not fit")

// Verify searches every table of Tidemark's and of the projections for the values that an erasure has
// erased, of 4 letters and digits or more: as they were or in longer text, in small or capital letters. It
// reads the tables once, some pages at a time, and takes no lock that readers do not take. Rows may be read
// twice if their tables change places meanwhile.
//
// models reads the tables of the projections. Give it a login of the workers' role; db does if the
// projections' tables belong to its login. A session that may do more than the owner of a table gets a
// lookback.OwnerError, before anything is searched.
//
// A killed erasure has no certificate: give its number alone, as long as it has not ended. The database then
// tells the key, to those alone who may erase.
func Verify(ctx context.Context, db event.Querier, models DB, c Certificate) (r *Report, err error) {
	defer rows.Explain(&err, "search for what erasure %d has erased", c.Erasure)
	if c.Key == nil && c.BeganAt.IsZero() {
		if err := c.unfinished(ctx, db); err != nil {
			return nil, err
		}
	}
	if len(c.Key) != 32 {
		return nil, fmt.Errorf("%w: its key has %d bytes, 32 are needed", ErrKey, len(c.Key))
	}
	var whole bool
	r = &Report{Erasure: c.Erasure}
	known := false
	if err := rows.Each(ctx, db, []any{&r.Ended, &r.Abandoned, &whole}, func() { known = true }, "", queryKnown, c.Erasure,
		c.BeganAt); err != nil {
		return nil, err
	}
	if !known {
		return nil, fmt.Errorf("%w: this database has no erasure %d that began at %s: if it was restored from a backup "+
			"of before, erase again", ErrKey, c.Erasure, c.BeganAt.Format(time.RFC3339Nano))
	}
	if r.Pending, err = rows.All(ctx, db, pgx.RowTo[string], "", queryLeft); err != nil {
		return nil, err
	}
	erased := &values{key: c.Key, hashes: map[hash]bool{}}
	var one []byte
	var words int
	if err := rows.Each(ctx, db, []any{&one, &words}, func() {
		erased.hashes[hash(one)] = true
		if !slices.Contains(erased.words, words) {
			erased.words = append(erased.words, words)
		}
	}, "", queryValues, c.Erasure); err != nil {
		return nil, err
	}
	if _, err := tablesOf(ctx, db, models); err != nil {
		return nil, err
	}
	shared, err := r.journal(ctx, db, erased, whole)
	if err != nil {
		return nil, err
	}
	erased = erased.without(shared)
	if err := r.search(ctx, func(ctx context.Context) ([]relation, error) {
		return rows.All(ctx, db, pgx.RowToStructByPos[relation], "list tables", queryTables)
	}, func(ctx context.Context, t relation, args ...any) (int64, error) {
		return erased.rows(ctx, db, t, args...)
	}); err != nil {
		return nil, err
	}
	return r, r.search(ctx, func(ctx context.Context) ([]relation, error) {
		return tablesOf(ctx, db, models)
	}, func(ctx context.Context, t relation, args ...any) (n int64, err error) {
		// The table may run code of its owner. The session never gets the key, and nothing comes between
		// setting the path and the search.
		err = pgx.BeginFunc(ctx, models, func(tx pgx.Tx) error {
			if err := registry.HoldReadable(ctx, tx, t.Schema, []string{t.Table}); err != nil {
				return err
			}
			if err := rows.Do(ctx, tx, "", queryAlone, pgx.QueryExecModeExec); err != nil {
				return err
			}
			n, err = erased.rows(ctx, tx, t, args...)
			return err
		})
		return n, err
	})
}

// unfinished reads the key of an erasure that has not ended.
func (c *Certificate) unfinished(ctx context.Context, db event.Querier) error {
	err := rows.Each(ctx, db, []any{&c.Key, &c.BeganAt}, func() {}, "", queryKey, c.Erasure)
	if err == nil && c.Key == nil {
		err = fmt.Errorf("%w: no erasure %d is unfinished: give the certificate of one that has ended", ErrKey, c.Erasure)
	}
	return err
}

// relation is a table to search.
type relation struct {
	OID           uint32
	Schema, Table string
	Pages         int64
}

func (t relation) name() string { return pgx.Identifier{t.Schema, t.Table}.Sanitize() }

// tablesOf lists the tables of projections, which a session of models may read.
func tablesOf(ctx context.Context, db, models event.Querier) ([]relation, error) {
	projections, err := rebuild.Projections(ctx, db)
	if err != nil {
		return nil, err
	}
	var schemas, tables []string
	for _, p := range projections {
		if err := registry.Readable(ctx, models, p.Schema, p.Tables); err != nil {
			return nil, err
		}
		for _, table := range p.Tables {
			schemas, tables = append(schemas, p.Schema), append(tables, table)
		}
	}
	return rows.All(ctx, models, pgx.RowToStructByPos[relation], "list tables of projections", queryModels, schemas,
		tables)
}

// search searches the listed tables. It lists them again until there are no others: the swap of a rebuild
// renames and drops tables.
func (r *Report) search(
	ctx context.Context, list func(context.Context) ([]relation, error),
	count func(ctx context.Context, t relation, args ...any) (int64, error),
) error {
	const mostSwaps = 10
	done := map[uint32]bool{}
	for range mostSwaps {
		all, err := list(ctx)
		if err != nil {
			return err
		}
		again := false
		for _, t := range all {
			if done[t.OID] {
				continue
			}
			again = true
			s := Searched{Table: t.name()}
			if t.Pages == isView {
				s.Error = "something else, such as a view, has the name of the table, which was not searched"
			}
			for page := int64(0); page < t.Pages && err == nil; page += searchPages {
				var n int64
				n, err = count(ctx, t, t.OID, fmt.Sprintf("(%d,0)", page), fmt.Sprintf("(%d,0)", page+searchPages))
				s.Rows += n
			}
			server, ok := errors.AsType[*pgconn.PgError](err)
			const undefinedTable, undefinedSchema = "42P01", "3F000"
			switch {
			case ok && (server.Code == undefinedTable || server.Code == undefinedSchema):
				err = nil
				continue // the next list tells whether it has another name
			case ok:
				s.Error, err = server.Message, nil
			case err != nil:
				return err
			}
			done[t.OID] = true
			r.Searched, r.Rows = append(r.Searched, s), r.Rows+s.Rows
		}
		if !again {
			return nil
		}
	}
	return errors.New("tables change places again and again: search when no rebuild is under way")
}

// rows counts the rows in some pages of a table that have an erased value.
func (v *values) rows(ctx context.Context, db event.Querier, t relation, args ...any) (n int64, err error) {
	if len(v.hashes) == 0 {
		return 0, nil
	}
	found, err := db.Query(ctx, fmt.Sprintf(querySearch, t.name()),
		append([]any{pgx.QueryExecModeExec, pgx.QueryResultFormats{pgx.TextFormatCode}}, args...)...)
	if err != nil {
		return 0, err
	}
	defer found.Close()
	columns := found.FieldDescriptions()
	for found.Next() {
		for i, text := range found.RawValues() {
			if v.column(text, columns[i].DataTypeOID, nil) {
				n++
				break
			}
		}
	}
	return n, found.Err()
}

// journal counts the events that are left and have an erased value, and returns these values. An event of
// an erasure of whole payloads must not have one.
func (r *Report) journal(ctx context.Context, db event.Querier, erased *values, whole bool) (map[hash]bool, error) {
	shared := map[hash]bool{}
	s := Searched{Table: "tidemark.journal"}
	pages, err := rows.One(ctx, db, pgx.RowTo[int64], "", queryPages)
	for page := int64(0); page < pages && err == nil; page += searchPages {
		var texts [5]*string
		var ours bool
		into := []any{&texts[0], &texts[1], &texts[2], &texts[3], &texts[4], &ours}
		err = rows.Each(ctx, db, into, func() {
			found := map[hash]bool{}
			for i, text := range texts {
				if text != nil {
					erased.column([]byte(*text), journalColumns[i], found)
				}
			}
			switch {
			case len(found) == 0:
			case ours && whole:
				s.Rows++
			default:
				r.Shared++
				for h := range found {
					shared[h] = true
				}
			}
		}, "search the journal", queryJournal, r.Erasure, fmt.Sprintf("(%d,0)", page),
			fmt.Sprintf("(%d,0)", page+searchPages))
	}
	r.Searched, r.Rows = append(r.Searched, s), r.Rows+s.Rows
	return shared, err
}
