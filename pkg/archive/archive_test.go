package archive_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// closed archives what appendClosed appends.
var closed = archive.Request{ //nolint:gochecknoglobals // a constant
	Types: []string{"campaign_closed"}, ClosedFor: time.Microsecond, By: "anna", Reason: "a test",
}

// shop is a database with an archive.
type shop struct {
	*pgxpool.Pool
	t      *testing.T
	folder string
	store  *archive.Folder
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{Pool: pgtest.New(t), t: t, folder: t.TempDir()}
	var err error
	if s.store, err = archive.NewFolder(s.folder); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.store.Close() })
	return s
}

func (s *shop) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) value(sql string, args ...any) (text string) {
	s.t.Helper()
	if err := s.QueryRow(s.t.Context(), `SELECT coalesce((`+sql+`)::text, '')`, args...).Scan(&text); err != nil {
		s.t.Fatal(err)
	}
	return text
}

// closeCampaigns appends n events and the end to each campaign.
func (s *shop) closeCampaigns(events int, campaigns ...string) {
	s.t.Helper()
	for _, id := range campaigns {
		for i := range events {
			s.exec(`SELECT tidemark.append($1, jsonb_build_array(jsonb_build_object('type', 'ordered', 'payload',
				jsonb_build_object('n', $2::int))))`, id, i)
		}
		s.exec(`SELECT tidemark.append($1, '[{"type": "campaign_closed"}]')`, id)
	}
}

// journal returns all columns of all events as text.
func (s *shop) journal() string {
	s.t.Helper()
	return s.value(`SELECT string_agg(j::text, E'\n' ORDER BY campaign_id, seq) FROM tidemark.journal j`)
}

func (s *shop) archive(r archive.Request) archive.Report {
	s.t.Helper()
	done, err := archive.Run(s.t.Context(), s.Pool, s.store, r)
	if err != nil {
		s.t.Fatal(err)
	}
	return done
}

func (s *shop) restore(r archive.RestoreRequest) archive.Report {
	s.t.Helper()
	done, err := archive.Restore(s.t.Context(), s.Pool, s.store, r)
	if err != nil {
		s.t.Fatal(err)
	}
	return done
}

// files returns how many files the archive has.
func (s *shop) files() int {
	s.t.Helper()
	files, err := os.ReadDir(s.folder)
	if err != nil {
		s.t.Fatal(err)
	}
	return len(files)
}

func (s *shop) append(do func(ctx context.Context, tx pgx.Tx) error, opts pgx.TxOptions) error {
	return pgx.BeginTxFunc(s.t.Context(), s.Pool, opts, func(tx pgx.Tx) error { return do(s.t.Context(), tx) })
}

func TestArchivedEventsComeBackBitEqual(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`SET datestyle = 'SQL, DMY'`) // of one session: lines do not depend on it
	s.closeCampaigns(3, "oak", "ash", `quoted"\ ünïcode 🌳 {"campaign_id":`)
	s.exec(`INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent,
				aggregate_type, aggregate_id, actor, tags, payload, metadata, payload_bytes, occurred_at, recorded_at)
			SELECT 'odd', n, nextval('tidemark.journal_position'), gen_random_uuid(),
			CASE n WHEN 9 THEN 'campaign_closed' ELSE 'odd' END, n, (enum_range(NULL::tidemark.intent))[1 + n % 3],
			CASE n % 2 WHEN 0 THEN 'kind' END, CASE n % 2 WHEN 1 THEN '' END, CASE n WHEN 4 THEN E'a\tb\nc"\\' END,
			CASE n WHEN 3 THEN ARRAY['x', 'y=1', E'\n', ''] END,
			(ARRAY['{}', '{"n": 1e400, "m": 0.10, "k": -0, "big": 12345678901234567890.123456789000}',
				E'{"a": null, "b": [null, {}, []], "": "\\u00e9\\ud83c\\udf33\\n"}'])[1 + n % 3]::jsonb,
			CASE n % 3 WHEN 0 THEN '{"traceparent": "00", "x": null}'::jsonb WHEN 1 THEN '{}' END, n * 7,
			(ARRAY['0044-03-15 12:00:00.000001 BC', '-infinity', 'infinity', '2024-02-29 23:59:59.999999+05:30'])[1 + n % 4]::timestamptz,
			'2024-01-01 00:00:00.000001'::timestamptz + n * interval '1 microsecond'
		FROM generate_series(1, 9) AS n`)
	s.exec(`INSERT INTO tidemark.event_tags SELECT DISTINCT t, event_type, position FROM tidemark.journal, unnest(tags) t`)
	before, tags := s.journal(), s.value(`SELECT string_agg(g::text, ' ' ORDER BY g) FROM tidemark.event_tags g`)

	done := s.archive(closed)
	if done.Objects != 1 || done.Campaigns != 4 || done.Events != 21 || done.LeftOut != 0 {
		t.Errorf("archived %+v", done)
	}
	if n := s.value(`SELECT count(*) FROM tidemark.journal`); n != "5" { // four heads and an event with tags
		t.Errorf("%s rows are left in the journal, want 5", n)
	}
	if again := s.archive(closed); again.Campaigns != 0 || again.LeftOut != 0 {
		t.Errorf("a second run archived %+v", again)
	}
	if done := s.restore(archive.RestoreRequest{Campaigns: []string{"oak", "elm"}}); done.Campaigns != 1 || done.LeftOut != 1 {
		t.Errorf("restored %+v", done)
	}
	if done := s.restore(archive.RestoreRequest{All: true}); done.Campaigns != 3 || done.LeftOut != 0 {
		t.Errorf("restored %+v", done)
	}
	if after := s.journal(); after != before {
		t.Errorf("the journal was\n%s\nand is\n%s", before, after)
	}
	if after := s.value(`SELECT string_agg(g::text, ' ' ORDER BY g) FROM tidemark.event_tags g`); after != tags {
		t.Errorf("the tags were\n%s\nand are\n%s", tags, after)
	}
	if row := s.value(`SELECT (campaigns, events, removed, removed_hash)::text FROM tidemark.archives`); row != "(0,0,0,0)" {
		t.Errorf("the manifest says %s after all was restored", row)
	}
	if again := s.archive(closed); again.Campaigns != 4 {
		t.Errorf("after all was restored a run archived %+v", again)
	}
}

func TestAppendsToAnArchivedCampaignAreRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.closeCampaigns(2, "oak")
	j, ordered := journal.Journal{}, event.Event{Type: "ordered", Tags: nil}
	tagged := event.Event{Type: "ordered", Tags: []string{"customer=1"}}
	last, err := journal.Last(t.Context(), s.Pool, "oak")
	if err != nil {
		t.Fatal(err)
	}
	old, err := s.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := old.Exec(t.Context(), `SELECT count(*) FROM tidemark.journal`); err != nil {
		t.Fatal(err)
	}
	s.archive(closed)

	for name, do := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"one": func(ctx context.Context, tx pgx.Tx) error {
			_, err := j.Append(ctx, tx, "oak", journal.Any, ordered)
			return err
		},
		"one that expects a seq": func(ctx context.Context, tx pgx.Tx) error {
			_, err := j.Append(ctx, tx, "oak", journal.Exactly(1), ordered)
			return err
		},
		"several with tags": func(ctx context.Context, tx pgx.Tx) error {
			_, err := j.Append(ctx, tx, "oak", journal.Any, tagged, ordered)
			return err
		},
		"a repeated one": func(ctx context.Context, tx pgx.Tx) error {
			_, err := j.Append(ctx, tx, "oak", journal.Any, event.Event{ID: last.ID, Type: last.Type})
			return err
		},
		"several campaigns": func(ctx context.Context, tx pgx.Tx) error {
			_, err := j.AppendAll(ctx, tx, journal.Batch{CampaignID: "elm", Events: []event.Event{ordered}},
				journal.Batch{CampaignID: "oak", Events: []event.Event{ordered}})
			return err
		},
		"on a condition": func(ctx context.Context, tx pgx.Tx) error {
			_, err := j.AppendIf(ctx, tx, []event.Event{{CampaignID: "oak", Type: "ordered"}},
				journal.Condition{FailIfMatch: event.Tagged([]string{"customer=1"}, "ordered")})
			return err
		},
	} {
		for level, opts := range map[string]pgx.TxOptions{"": {}, " under SERIALIZABLE": {IsoLevel: pgx.Serializable}} {
			err := s.append(do, opts)
			for errors.Is(err, journal.ErrStaleSnapshot) { // of a condition: others have committed meanwhile
				err = s.append(do, opts)
			}
			if !isArchived(err) || !strings.Contains(err.Error(), `"oak"`) {
				t.Errorf("%s%s: %v", name, level, err)
			}
		}
	}
	if _, err := old.Exec(t.Context(), `SELECT tidemark.append('oak', '[{"type": "late"}]')`); err == nil ||
		!strings.Contains(err.Error(), "40001") {
		t.Errorf("an append with a snapshot from before the archive: %v", err)
	}

	s.exec(`SELECT tidemark.append_at('oak', clock_timestamp(), '[{"type": "due"}]')`)
	if fired := s.value(`SELECT fired || ' ' || refused FROM tidemark.fire_scheduled(10, NULL, '-infinity', 0, '{}', '1 s', false)`); fired != "0 1" {
		t.Errorf("due appends made and refused: %s", fired)
	}
	if text := s.value(`SELECT error FROM tidemark.scheduled`); !strings.Contains(text, "campaign oak is archived in events-") {
		t.Errorf("the due append says %q", text)
	}
	s.restore(archive.RestoreRequest{Campaigns: []string{"oak"}})
	s.exec(`UPDATE tidemark.scheduled SET attempt_at = clock_timestamp()`)
	if fired := s.value(`SELECT fired FROM tidemark.fire_scheduled(10, NULL, '-infinity', 0, '{}', '1 s', false)`); fired != "1" {
		t.Errorf("after the restore %s due appends were made", fired)
	}
	if head := s.value(`SELECT seq || event_type FROM tidemark.journal WHERE campaign_id = 'oak' ORDER BY seq DESC LIMIT 1`); head != "4due" {
		t.Errorf("the head is %s", head)
	}
}

func isArchived(err error) bool { return errors.Is(err, event.ErrArchived) }
