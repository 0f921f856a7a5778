package archive_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/archive"
)

// TestRunsUnderKillsLoseNothing kills archiving and restoring operators again and again, while others
// append to open campaigns and try a closed one, which may be left out then.
func TestRunsUnderKillsLoseNothing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent,
				aggregate_type, aggregate_id, actor, tags, payload, metadata, payload_bytes, occurred_at, recorded_at)
			SELECT 'c' || c, n, nextval('tidemark.journal_position'), gen_random_uuid(),
			CASE n WHEN 40 THEN 'campaign_closed' ELSE 'ordered' END, 1, 'projection_and_replay', NULL, NULL, 'eve',
			CASE WHEN n % 10 = 0 THEN ARRAY['n=' || n] END, jsonb_build_object('c', c, 'n', n / 7.0), NULL, 20, now(), now()
		FROM generate_series(1, 400) AS c, generate_series(1, 40) AS n`)
	closedOnes := `SELECT md5(string_agg(j::text, E'\n' ORDER BY campaign_id, seq)) || count(*) FROM tidemark.journal j WHERE campaign_id LIKE 'c%'`
	before, url := s.value(closedOnes), s.Config().ConnString()
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	appended, refused := 0, 0
	load.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := s.Exec(t.Context(), `SELECT tidemark.append($1, '[{"type": "ordered"}]')`, fmt.Sprint("open", i%50)); err != nil {
				t.Error(err)
			}
			appended++
			// One that goes through must be rolled back, or the campaign would never be closed again.
			if _, err := s.Exec(t.Context(), `DO $$ BEGIN PERFORM tidemark.append('c7', '[{"type": "late"}]'); RAISE 'back' USING ERRCODE = 'P0002'; END $$`); err != nil {
				refused++
			}
		}
	})
	kills := 0
	for range 2 {
		for _, does := range []string{"archive", "restore"} {
			for done := false; !done; {
				operator := start(t, does, url, s.folder)
				ended := make(chan error, 1)
				go func() { ended <- operator.Wait() }()
				select {
				case err := <-ended:
					if done = err == nil; !done {
						t.Fatal(does, err)
					}
				case <-time.After(time.Duration(30+rand.IntN(60+150*kills)) * time.Millisecond):
					_ = operator.Process.Kill()
					done = <-ended == nil // it was quicker
					kills++
				}
				s.within("the killed operator's transaction has ended", func() bool {
					return s.value(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%tidemark.' || $1 || '(%'
						AND pid <> pg_backend_pid() AND state <> 'idle'`, does) == "0"
				})
				s.consistent()
			}
		}
	}
	stop()
	load.Wait()
	if done := s.restore(archive.RestoreRequest{All: true}); done.LeftOut > 0 {
		t.Errorf("left %+v", done)
	}
	if after := s.value(closedOnes); after != before {
		t.Errorf("after %d kills the closed campaigns are %s, were %s", kills, after, before)
	}
	if n := s.value(`SELECT count(*) FROM tidemark.journal WHERE campaign_id LIKE 'open%'`); n != fmt.Sprint(appended) {
		t.Errorf("%s events of open campaigns, want %d", n, appended)
	}
	t.Logf("%d kills, %d appends, %d tries", kills, appended, refused)
}

// consistent checks that each campaign is either in the journal or a stub that an object of the manifest has.
func (s *shop) consistent() {
	s.t.Helper()
	if half := s.value(`SELECT string_agg(campaign_id, ' ') FROM (
			SELECT campaign_id FROM tidemark.journal WHERE campaign_id LIKE 'c%' GROUP BY campaign_id
			HAVING NOT (count(*) = 40 AND min(event_version) = 1 OR count(*) = 4 AND max(event_version) = 0
				AND min(metadata #>> '{$archived,object}') IN (SELECT object FROM tidemark.archives WHERE campaigns > 0))
		) h`); half != "" {
		s.t.Fatalf("half archived: %.500s", half)
	}
	if wrong := s.value(`SELECT sum(campaigns) || ' ' || sum(events) || ' ' || sum(removed) FROM tidemark.archives`); wrong != "" {
		if is := s.value(`SELECT count(*) || ' ' || 40 * count(*) || ' ' || 36 * count(*) FROM tidemark.journal WHERE event_version = 0
			AND seq = 40 AND campaign_id LIKE 'c%'`); is != wrong {
			s.t.Fatalf("the manifest says %s, the journal %s", wrong, is)
		}
	}
}
