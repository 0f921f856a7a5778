package archive_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/erasure"
)

// TestCampaignsThatAreStillReadAreLeftWithTheReason has one state for each reason.
func TestCampaignsThatAreStillReadAreLeftWithTheReason(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]struct{ sql, reason string }{
		"outbox": {
			`INSERT INTO tidemark.consumer_groups (name, state) VALUES ('g', 'ready');
			INSERT INTO tidemark.leases VALUES ('g', 'oak', 'w', 1, '-infinity', 3);
			INSERT INTO tidemark.outbox VALUES ('g', 'oak', 3, now(), 1)`, "group g has work for it",
		},
		"no lease": {
			`INSERT INTO tidemark.consumer_groups (name, state) VALUES ('g', 'filing')`, "group g stands at event 0 of 3",
		},
		"behind": {
			`INSERT INTO tidemark.consumer_groups (name, state) VALUES ('g', 'inline');
			INSERT INTO tidemark.leases VALUES ('g', 'oak', 'w', 1, '-infinity', 2)`, "group g stands at event 2 of 3",
		},
		"failed": {
			`INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status)
			VALUES ('oak', 'p', 'g', 3, 'dead')`, "projection p is behind in it (dead)",
		},
		"key across campaigns": {
			`INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state, scope)
				VALUES ('p', 'g', 1, 's', '{}', 'active', 'journal');
			INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status)
				VALUES ('ann', 'p', 'g', (SELECT max(position) FROM tidemark.journal WHERE campaign_id = 'oak'), 'failed')`,
			"key ann of p waits at position",
		},
		"parked": {
			`INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, status)
			VALUES ('t', 'p', 'oak', 1, true, 1, 'parked')`, "an event of it is parked",
		},
		"scheduled": {
			`SELECT tidemark.append_at('oak', now() + interval '1 day', '[{"type": "due"}]')`, "it has a scheduled append",
		},
		"publisher": {
			`INSERT INTO tidemark.readers (topic, publisher, position, status) VALUES ('all', 'kafka', 1, 'PAUSED')`,
			"kafka of all is at position 1, before its last event at",
		},
		"partition of a projection": {
			`INSERT INTO tidemark.readers (topic, publisher, position, kind) VALUES ('totals', '#0', 0, 'projection')`,
			"#0 of totals is at position 0",
		},
		"rebuild": {
			`INSERT INTO tidemark.rebuilds (projection, max_share, allow_failed, keep, verify_sample, verify_ignore, actor, reason)
			VALUES ('p', 1, 0, '1 day', 0, '{}', 'a', 'b')`, "a rebuild of p is under way",
		},
		"projection that joins": {
			`INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
			VALUES ('p', 'g', 1, 's', '{}', 'joining')`, "projection p is not in step yet",
		},
		"erasure": {
			`INSERT INTO tidemark.erasures (request, actor, reason) VALUES (sha256(''), 'a', 'b')`, "erasure 1 has not ended",
		},
		"unreadable": {
			`INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent,
				aggregate_type, aggregate_id, actor, tags, payload, metadata, payload_bytes, occurred_at, recorded_at)
			SELECT 'oak', 4, nextval('tidemark.journal_position'), gen_random_uuid(), 'campaign_closed', 1,
				'audit_only', NULL, NULL, NULL, NULL, (SELECT jsonb_object_agg(n, '1e131071'::jsonb) FROM generate_series(1, 8200) n),
				NULL, 100, now(), now()`, "Postgres cannot print an event of it",
		},
		"more bytes than one may have": {
			`INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent,
				aggregate_type, aggregate_id, actor, tags, payload, metadata, payload_bytes, occurred_at, recorded_at)
			SELECT 'oak', n, nextval('tidemark.journal_position'), gen_random_uuid(), 'campaign_closed', 1,
				'audit_only', NULL, NULL, NULL, NULL, '{}', NULL, 1000, now(), now() FROM generate_series(4, 70000) n`,
			"it has 70000 events with",
		},
		"more events than one may have": {
			`INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent,
				aggregate_type, aggregate_id, actor, tags, payload, metadata, payload_bytes, occurred_at, recorded_at)
			SELECT 'oak', n, nextval('tidemark.journal_position'), gen_random_uuid(), 'campaign_closed', 1,
				'audit_only', NULL, NULL, NULL, NULL, '{}', NULL, 2, now(), now() FROM generate_series(4, 100001) n`,
			"it has 100001 events with",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.closeCampaigns(2, "oak")
			for _, sql := range strings.Split(state.sql, ";\n") {
				s.exec(sql)
			}
			before := s.value(`SELECT count(*) FROM tidemark.journal`)
			done := s.archive(closed)
			if done.Campaigns != 0 || done.LeftOut != 1 || done.Left[0].CampaignID != "oak" ||
				!strings.HasPrefix(done.Left[0].Reason, state.reason) {
				t.Errorf("archived %+v, want it left because %s", done, state.reason)
			}
			if after := s.value(`SELECT count(*) FROM tidemark.journal WHERE event_version > 0`); after != before {
				t.Errorf("%s events are left of %s", after, before)
			}
			if n := s.value(`SELECT count(*) FROM tidemark.archives`); n != "0" {
				t.Errorf("the manifest has %s objects", n)
			}
		})
	}
}

// grown is a store in which a campaign grows between the copy and the transaction.
type grown struct {
	archive.Store
	grow func()
}

func (g grown) Get(ctx context.Context, name string, size int64) ([]byte, error) {
	g.grow()
	return g.Store.Get(ctx, name, size)
}

func TestACampaignThatMovesMeanwhileStays(t *testing.T) {
	t.Parallel()
	for name, moved := range map[string]struct {
		sql    string
		left   int64
		reason string
	}{
		"appended": {`SELECT tidemark.append('oak', '[{"type": "late"}]')`, 1, "it has changed since it was copied"},
		"erased": {`INSERT INTO tidemark.erasures (request, actor, reason) VALUES (sha256(''), 'a', 'b');
			SELECT tidemark.erase(1, 1, 'oak', NULL, 500);
			UPDATE tidemark.erasures SET ended_at = now()`, 2, "an event that was copied with it was erased meanwhile"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.closeCampaigns(2, "oak", "ash")
			done, err := archive.Run(t.Context(), s.Pool, grown{s.store, func() { s.exec(moved.sql) }}, closed)
			if err != nil {
				t.Fatal(err)
			}
			if done.Campaigns != 2-moved.left || done.Events != 3*done.Campaigns || done.LeftOut != moved.left ||
				done.Left[moved.left-1] != (archive.Left{CampaignID: "oak", Reason: moved.reason}) {
				t.Errorf("archived %+v", done)
			}
			if again := s.restore(archive.RestoreRequest{All: true}); again.Campaigns != done.Campaigns || again.LeftOut != 0 {
				t.Errorf("restored %+v", done)
			}
		})
	}
}

func TestACampaignWithAnOpenAppendStays(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.closeCampaigns(2, "oak")
	if err := s.append(func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT tidemark.append('oak', '[{"type": "late"}]')`); err != nil {
			return err
		}
		if done := s.archive(closed); done.LeftOut != 1 || done.Left[0].Reason != "an append to it is open" {
			t.Errorf("archived %+v", done)
		}
		return nil
	}, pgx.TxOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestAFullDiskLeavesTheJournalAsItWas limits the size of files that an operator's process may write.
func TestAFullDiskLeavesTheJournalAsItWas(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Fatal("it needs RLIMIT_FSIZE, as Linux has it")
	}
	s := newShop(t)
	s.closeCampaigns(200, "oak")
	before := s.journal()
	operator := exec.Command(os.Args[0])
	operator.Env = append(os.Environ(), childEnv+"=full "+s.Config().ConnString()+" "+s.folder)
	if out, err := operator.CombinedOutput(); err == nil || !strings.Contains(string(out), syscall.EFBIG.Error()) ||
		!strings.Contains(string(out), "write events-") {
		t.Errorf("archive on a full disk: %v, %s", err, out)
	}
	if after := s.journal(); after != before {
		t.Error("the journal has changed")
	}
	if files, err := os.ReadDir(s.folder); err != nil || len(files) != 0 {
		t.Errorf("the folder has %v, %v", files, err)
	}
	if done := s.archive(closed); done.Campaigns != 1 {
		t.Errorf("with room archived %+v", done)
	}
}

func TestNamesNeverLeadOutOfTheFolder(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	folder := filepath.Join(outside, "archive")
	if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600),
		os.Symlink(filepath.Join(outside, "secret"), filepath.Join(folder, "link"))); err != nil {
		t.Fatal(err)
	}
	store, err := archive.NewFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	for _, name := range []string{"", ".", "..", "../secret", "/etc/passwd", "a/b", `a\b`, ".hidden", "c:d", "a\x00b"} {
		if err := store.Put(t.Context(), name, []byte("x")); err == nil {
			t.Errorf("%q was written", name)
		}
		if _, err := store.Get(t.Context(), name, 1); err == nil {
			t.Errorf("%q was read", name)
		}
	}
	if _, err := store.Get(t.Context(), "link", 1); err == nil {
		t.Error("a link out of the folder was followed")
	}
	for _, url := range []string{"", "/srv", "s3://bucket", "file://host/srv", "file:srv", "file:///no/such/folder", "file:///srv?x=1"} {
		if _, err := archive.Open(url, nil); err == nil {
			t.Errorf("%q was opened", url)
		}
	}
	opened, err := archive.Open("file://"+folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = opened.(*archive.Folder).Close()
}

func TestAURLOfAnotherKindNeedsAProgramThatHasIt(t *testing.T) {
	t.Parallel()
	const text = "mine://shelf/3"
	kinds := archive.Kinds{"mine": func(u *url.URL) (archive.Store, error) {
		return nil, errors.New("opened " + u.String())
	}}
	if _, err := archive.Open(text, kinds); err == nil || err.Error() != "opened "+text {
		t.Errorf("its kind returned %v", err)
	}
	for text, want := range map[string]string{
		text:                         "use file:/// and the absolute path",
		"s3://key:secret@bucket/old": `archive "s3://key:xxxxx@bucket/old": this program has no client of S3: use worker and tidemark of adapters/s3`,
		"s3://key:secr%et@bucket":    "this is no URL",
	} {
		if _, err := archive.Open(text, nil); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secr") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func TestRequestsThatSayNotOneThingAreRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, r := range []archive.Request{
		{},
		{Campaigns: []string{"a"}, Types: []string{"b"}, ClosedFor: time.Hour},
		{Types: []string{"a"}},
		{Types: []string{""}, ClosedFor: time.Hour},
		{Campaigns: []string{""}},
		{Campaigns: []string{"a"}, Rate: -1},
	} {
		r.By, r.Reason = "anna", "a test"
		if _, err := archive.Run(t.Context(), s.Pool, s.store, r); !errors.Is(err, archive.ErrInvalid) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for _, r := range []archive.RestoreRequest{
		{}, {All: true, Campaigns: []string{"a"}}, {Objects: []string{"none"}},
	} {
		if _, err := archive.Restore(t.Context(), s.Pool, s.store, r); !errors.Is(err, archive.ErrInvalid) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

func TestAnErasureOfArchivedEventsIsRefusedByName(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`SELECT tidemark.append('oak', '[{"type": "ordered", "tags": ["who=ann"], "payload": {"name": "ann"}}, {"type": "campaign_closed"}]')`)
	s.archive(closed)
	catalogue, err := yamlfile.Load(fstest.MapFS{"c.yaml": {Data: []byte("types:\n  ordered:\n    subject: [name]\n")}}, "c.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]erasure.Request{
		"campaign": {Campaign: "oak"}, "tag": {Subjects: []string{"who=ann"}}, "field": {Subjects: []string{"ann"}, Catalogue: catalogue},
	} {
		r.By, r.Reason = "anna", "a test"
		if _, err := erasure.Erase(t.Context(), s.Pool, r); err == nil || !strings.Contains(err.Error(), "archived in events-") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStubsCannotBeMadeByAppends(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for event, refusal := range map[string]string{
		`{"type": "a", "version": 0}`:                                                 "versions start at 1",
		`{"type": "a", "version": -1, "tags": ["x"]}`:                                 "versions start at 1",
		`{"type": "a", "version": 0, "metadata": {"$archived": {"object": "x"}}}`:     "versions start at 1",
		`{"type": "a", "metadata": {"$archived": {"object": "../x", "sha256": "y"}}}`: "$archived, which is reserved",
	} {
		if _, err := s.Exec(t.Context(), `SELECT tidemark.append('oak', jsonb_build_array($1::jsonb))`, event); err == nil ||
			!strings.Contains(err.Error(), refusal) {
			t.Errorf("%s: %v", event, err)
		}
	}
}
