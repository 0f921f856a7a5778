package erasure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// ErrHeld is wrapped by [HeldError].
var ErrHeld = errors.New("another call carries out this erasure")

// HeldError is returned by [Erase] while another call carries out the same request, and by a call whose
// erasure another one has taken over.
type HeldError struct {
	Erasure int64     // its number
	Holder  string    // operator who carries it out
	Until   time.Time // from when the same request can take it over, by the database's clock; zero: it was taken over
}

func (e *HeldError) Error() string {
	if e.Until.IsZero() {
		return fmt.Sprintf("erasure %d was taken over by another call, or has ended: tidemark erase list shows it", e.Erasure)
	}
	return fmt.Sprintf("erasure %d of the same request is carried out by %q: wait until it has ended, or until %s, and "+
		"erase again", e.Erasure, e.Holder, e.Until.UTC().Format(time.RFC3339))
}

// Unwrap returns [ErrHeld].
func (e *HeldError) Unwrap() error { return ErrHeld }

// held returns the [HeldError] that the database has raised, or err.
func held(err error, erasure int64) error {
	server, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || server.Code != "TM017" {
		return err
	}
	var told struct {
		Erasure int64     `json:"erasure"`
		Holder  string    `json:"holder"`
		Until   time.Time `json:"until"`
	}
	if json.Unmarshal([]byte(server.Detail), &told) != nil {
		told.Erasure = erasure
	}
	return &HeldError{told.Erasure, told.Holder, told.Until}
}

// record is what the database answers to the holder of an erasure.
type record struct {
	ID, Generation   int64
	Key              []byte
	BeganAt          time.Time
	Continued        bool
	Fields, Personal paths
	Changed          map[string]int64
}

// paths are paths of fields by event type.
type paths map[string][]string

// encoded returns JSON, and NULL for nil.
func (p paths) encoded() any {
	if p == nil {
		return nil
	}
	text, _ := json.Marshal(p) // strings cannot fail
	return string(text)
}

// record puts the erasure on record, once. From then on nothing is archived. Without anew it only takes over
// one that was interrupted.
func (e *run) record(ctx context.Context, anew bool) error {
	if e.done.Erasure > 0 {
		return nil
	}
	var found []record
	err := pgx.BeginFunc(ctx, e.db, func(tx pgx.Tx) (err error) {
		found, err = rows.All(ctx, tx, pgx.RowToStructByPos[record], "", queryBegin, e.Campaign, e.Subjects,
			e.fields.encoded(), e.personal.encoded(), e.By, e.Reason, anew)
		return err
	})
	if err != nil || len(found) == 0 {
		return held(err, 0)
	}
	e.take(&found[0])
	return nil
}

// take takes what is on record.
func (e *run) take(r *record) {
	e.generation, e.fields, e.personal = r.Generation, r.Fields, r.Personal
	e.done.Erasure, e.done.BeganAt, e.done.Key = r.ID, r.BeganAt, r.Key
	e.done.Changed, e.done.Events, e.done.Keys = r.Changed, r.Changed["journal"], r.Changed["keys"]
	e.continued = r.Continued
}

// hold keeps the erasure for as long as the next step may take.
func (e *run) hold(ctx context.Context) error {
	if e.done.Erasure == 0 {
		return nil
	}
	return pgx.BeginFunc(ctx, e.db, func(tx pgx.Tx) error {
		return rows.Do(ctx, tx, "", queryHold, e.done.Erasure, e.generation)
	})
}

// release lets the same request go on at once.
func (e *run) release(ctx context.Context) {
	if e.done.Erasure == 0 {
		return
	}
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_ = pgx.BeginFunc(ctx, e.db, func(tx pgx.Tx) error { // else it expires
		return rows.Do(ctx, tx, "", queryRelease, e.done.Erasure, e.generation)
	})
}
