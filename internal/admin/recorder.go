package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
)

// Recorder begins the transactions of an act. The first one that commits also writes the log record and
// the idempotency key. It implements registry.Beginner and publications.DB, so functions that take a
// pool can use it.
type Recorder struct {
	Request
	Catalogue *catalogue.Catalogue // nil: none
	Archive   archive.Store        // nil: none

	pool    *pgxpool.Pool
	timeout time.Duration // per statement; below 0: the pool's limit
	act     Act
	asked   json.RawMessage
	sum     []byte

	detail   json.RawMessage // for the outcome, and for the log if it differs from asked
	recorded bool
	repeated *Outcome
}

var (
	errRepeated = errors.New("done before")         // under this key
	errNothing  = errors.New("nothing was changed") // rolls back, so that nothing is recorded
)

// note sets the detail; nil leaves it as it is.
func (r *Recorder) note(detail any) error {
	if detail == nil {
		return nil
	}
	var err error
	if r.detail, err = json.Marshal(detail); err != nil {
		return fmt.Errorf("%s: %w", r.act.Kind, err)
	}
	return nil
}

func (r *Recorder) answer(detail any, err error) (*Outcome, error) {
	if errors.Is(err, errRepeated) && r.repeated != nil {
		return r.repeated, nil
	}
	if err == nil {
		err = r.note(detail)
	}
	if err != nil {
		return nil, err
	}
	return &Outcome{Version: 1, Act: string(r.act.Kind), Detail: r.detail}, nil
}

// Query reads outside the act's transactions, and so does QueryRow.
func (r *Recorder) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return r.pool.Query(ctx, sql, args...)
}

// QueryRow reads one row outside the act's transactions.
func (r *Recorder) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return r.pool.QueryRow(ctx, sql, args...)
}

// Exec runs a statement in its own transaction. It counts as a transaction of the act only if the
// statement changes rows.
func (r *Recorder) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = pgx.BeginFunc(ctx, r, func(tx pgx.Tx) error {
		if tag, err = tx.Exec(ctx, sql, args...); err == nil && tag.RowsAffected() == 0 {
			err = errNothing
		}
		return err
	})
	if errors.Is(err, errNothing) {
		err = nil
	}
	return tag, err
}

// Begin begins a transaction. Until one has committed, each takes the key first, so a second request
// with the same key waits for the first.
func (r *Recorder) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := r.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if r.timeout > 0 {
		_, err = tx.Exec(ctx, querySetTimeout, strconv.FormatInt(r.timeout.Milliseconds(), 10))
	}
	if err == nil {
		_, err = tx.Exec(ctx, querySetPatience, lockPatience.Milliseconds())
	}
	if err == nil && !r.recorded {
		err = r.take(ctx, tx)
	}
	if err != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return nil, err
	}
	return &recordedTx{Tx: tx, recorder: r}, nil
}

// take takes the key, or returns the error of find.
func (r *Recorder) take(ctx context.Context, tx pgx.Tx) error {
	if r.Key == "" {
		return nil
	}
	tag, err := tx.Exec(ctx, queryTakeKey, r.Who.Owner(), r.Key, r.act.Kind, r.sum)
	if err != nil || tag.RowsAffected() == 1 {
		return err
	}
	return r.find(ctx, tx)
}

// look returns errRepeated or ErrKeyReused for a used key, before the act does anything.
func (r *Recorder) look(ctx context.Context) error {
	if r.Key == "" {
		return nil
	}
	if err := r.find(ctx, r.pool); !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return nil
}

type rower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// find returns errRepeated, ErrKeyReused, or pgx.ErrNoRows for an unused key.
func (r *Recorder) find(ctx context.Context, db rower) error {
	var same bool
	o := &Outcome{Version: 1, Act: string(r.act.Kind), Repeated: true}
	if err := db.QueryRow(ctx, queryKey, r.Who.Owner(), r.Key, r.sum).Scan(&same, &o.Detail); err != nil {
		return err
	}
	if !same {
		return fmt.Errorf("idempotency key %q: %w", r.Key, ErrKeyReused)
	}
	r.repeated = o
	return errRepeated
}

// record writes the log record and the key's outcome.
func (r *Recorder) record(ctx context.Context, tx pgx.Tx) error {
	if !r.act.Logs {
		detail := map[string]json.RawMessage{"request": r.asked}
		if !bytes.Equal(r.detail, r.asked) {
			detail["result"] = r.detail
		}
		key := publications.Key{Topic: r.about("topic"), Publisher: r.about("publisher")}
		campaign := r.about("campaign_id")
		if several, _ := r.act.Asked["campaigns"].([]string); len(several) == 1 {
			campaign = several[0]
		}
		seq, _ := r.act.Asked["seq"].(int64)
		if err := publications.WriteLog(ctx, tx, r.Published(), string(r.act.Kind), key, campaign, seq,
			detail); err != nil {
			return err
		}
	}
	if r.Key == "" {
		return nil
	}
	_, err := tx.Exec(ctx, queryKeepResult, r.Who.Owner(), r.Key, document(r.detail))
	return err
}

func (r *Recorder) about(what string) string {
	name, _ := r.act.Asked[what].(string)
	return name
}

type recordedTx struct {
	pgx.Tx
	recorder *Recorder
}

// Commit writes the act's records, if no earlier transaction has, and commits.
func (t *recordedTx) Commit(ctx context.Context) error {
	if !t.recorder.recorded {
		if err := t.recorder.record(ctx, t.Tx); err != nil {
			_ = t.Rollback(context.WithoutCancel(ctx))
			return err
		}
	}
	err := t.Tx.Commit(ctx)
	t.recorder.recorded = t.recorder.recorded || err == nil
	return err
}
