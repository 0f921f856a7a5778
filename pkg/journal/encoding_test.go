package journal_test

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

func TestTimesInAFormatThatPgxCannotReadAreNamed(t *testing.T) {
	t.Parallel()
	pool := tally.Pool(t, pgtest.With(pgtest.With(pgtest.With(pgtest.URL(t), "intervalstyle", "postgres"), "datestyle",
		"SQL, DMY"), "default_query_exec_mode", "exec"), "test", 1)
	tally.Append(t, pool, "c", 1)
	var refused *event.EncodingError
	if _, err := journal.Get(t.Context(), pool, "c", 1); !errors.As(err, &refused) || refused.Format != "DateStyle SQL, DMY" ||
		!strings.Contains(err.Error(), "datestyle=ISO") {
		t.Errorf("got %v", err)
	}
}

func TestAConnectionOfAnotherEncodingIsRefused(t *testing.T) {
	t.Parallel()
	const campaign = "é"
	address := pgtest.URL(t)
	right := tally.Pool(t, pgtest.With(address, "client_encoding", "UTF8"), "right", 2)
	e := event.Event{ID: uuid.New(), CampaignID: campaign, Type: "noted", Payload: []byte(`{"name":"Zoë 日本"}`)}
	all := event.Types("noted")
	appends := map[string]func(context.Context, pgx.Tx) error{
		"Append": func(ctx context.Context, tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(ctx, tx, campaign, journal.Any, e)
			return err
		},
		"AppendAll": func(ctx context.Context, tx pgx.Tx) error {
			_, err := journal.Journal{}.AppendAll(ctx, tx, journal.Batch{CampaignID: campaign, Events: []event.Event{e}})
			return err
		},
		"AppendIf": func(ctx context.Context, tx pgx.Tx) error {
			_, err := journal.Journal{}.AppendIf(ctx, tx, []event.Event{e}, journal.Condition{FailIfMatch: all})
			return err
		},
		"AppendAt": func(ctx context.Context, tx pgx.Tx) error {
			_, err := journal.Journal{}.AppendAt(ctx, tx, campaign, time.Now().Add(time.Hour), e)
			return err
		},
		"Encode": func(ctx context.Context, tx pgx.Tx) error {
			_, err := journal.Journal{}.Encode(ctx, tx, campaign, []event.Event{e})
			return err
		},
	}
	inSQL := map[string]func(context.Context, *sql.Tx) error{
		"Append over database/sql": func(ctx context.Context, tx *sql.Tx) error {
			_, err := journal.Journal{}.Append(ctx, journal.SQL(tx), campaign, journal.Any, e)
			return err
		},
		"AppendIf over database/sql": func(ctx context.Context, tx *sql.Tx) error {
			_, err := journal.Journal{}.AppendIf(ctx, journal.SQL(tx), []event.Event{e}, journal.Condition{FailIfMatch: all})
			return err
		},
	}
	fold := func(*struct{}, event.Event) error { return nil }
	reads := map[string]func(context.Context, *pgxpool.Pool) error{
		"ReadCampaign": func(ctx context.Context, db *pgxpool.Pool) error {
			return walk(journal.ReadCampaign(ctx, db, campaign, 0))
		},
		"ReadAll": func(ctx context.Context, db *pgxpool.Pool) error {
			return walk(journal.ReadAll(ctx, db, 0))
		},
		"Read": func(ctx context.Context, db *pgxpool.Pool) error {
			_, err := journal.Read(ctx, db, all, 0, 10)
			return err
		},
		"Decide": func(ctx context.Context, db *pgxpool.Pool) error {
			_, _, err := journal.Decide(ctx, db, all, fold)
			return err
		},
		"Load": func(ctx context.Context, db *pgxpool.Pool) error {
			_, _, err := journal.Load(ctx, db, campaign, fold)
			return err
		},
		"Get": func(ctx context.Context, db *pgxpool.Pool) error {
			_, err := journal.Get(ctx, db, campaign, 1)
			return err
		},
		"Last": func(ctx context.Context, db *pgxpool.Pool) error {
			_, err := journal.Last(ctx, db, campaign)
			return err
		},
		"Find": func(ctx context.Context, db *pgxpool.Pool) error {
			_, err := journal.Find(ctx, db, campaign, e.ID)
			return err
		},
		"CommitIf": func(ctx context.Context, db *pgxpool.Pool) error {
			_, err := journal.Journal{}.CommitIf(ctx, db,
				func(context.Context, event.Querier) ([]event.Event, journal.Condition, error) {
					return []event.Event{e}, journal.Condition{FailIfMatch: all}, nil
				})
			return err
		},
	}
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			wrong := pgtest.With(pgtest.With(address, "client_encoding", "LATIN1"), "standard_conforming_strings", "on")
			pool := tally.Pool(t, pgtest.With(wrong, "default_query_exec_mode", mode), "wrong", 2)
			db := stdlib.OpenDBFromPool(pool)
			refused := func(name string, err error) {
				t.Helper()
				var encoding *event.EncodingError
				if !errors.As(err, &encoding) || encoding.Encoding != "LATIN1" ||
					!strings.Contains(err.Error(), "LATIN1") || !strings.Contains(err.Error(), "client_encoding=UTF8") {
					t.Errorf("%s: %v", name, err)
				}
			}
			for name, do := range appends {
				refused(name, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return do(t.Context(), tx) }))
			}
			for name, do := range reads {
				if mode == "simple_protocol" && name != "CommitIf" { // pgx itself refuses
					continue
				}
				refused(name, do(t.Context(), pool))
			}
			for name, do := range inSQL {
				if mode == "simple_protocol" { // pgx itself refuses
					continue
				}
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				refused(name, do(t.Context(), tx))
				if err := tx.Commit(); err != nil {
					t.Error(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if n := tally.Value[int](t, right, `SELECT (SELECT count(*) FROM tidemark.journal)
		+ (SELECT count(*) FROM tidemark.scheduled)`); n != 0 {
		t.Errorf("%d rows were written by connections that were refused", n)
	}
	for name, do := range appends {
		if err := pgx.BeginFunc(t.Context(), right, func(tx pgx.Tx) error { return do(t.Context(), tx) }); err != nil &&
			!errors.Is(err, journal.ErrConditionFailed) {
			t.Errorf("%s with UTF8: %v", name, err)
		}
	}
	for name, do := range reads {
		if err := do(t.Context(), right); err != nil && !errors.Is(err, journal.ErrConditionFailed) {
			t.Errorf("%s with UTF8: %v", name, err)
		}
	}
	if got, err := journal.Get(t.Context(), right, campaign, 1); err != nil || !strings.Contains(string(got.Payload), "Zoë 日本") {
		t.Errorf("stored %s, %v", got.Payload, err)
	}
}

func walk(events iter.Seq2[event.Event, error]) error {
	for _, err := range events {
		if err != nil {
			return err
		}
	}
	return nil
}
