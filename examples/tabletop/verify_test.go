package tabletop_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/examples/tabletop"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestVerifyFindsNothingWrongWithWhatTheProjectionsWrote(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	generator := tabletop.NewGenerator(tabletop.GeneratorConfig{Seed: 3, Campaigns: 40})
	worker := newWorker(t, pool)

	former := play(t, pool, generator, 400)
	drain(t, worker)
	floor, err := feed.Floor(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	latter := play(t, pool, generator, 400)
	drain(t, worker)

	report := verify(t, pool, floor)
	if report.Events != former+latter || report.Since != latter {
		t.Errorf("verified %d events, %d of them new; appended were %d and %d", report.Events, report.Since, former, latter)
	}
	for _, table := range report.Tables {
		if table.Mismatches() > 0 {
			t.Errorf("table %s: %s", table.Table, table.Example)
		}
		if table.Rows == 0 {
			t.Errorf("table %s is empty: this test shows nothing about it", table.Table)
		}
	}
	if report.Duplicates != 0 {
		t.Errorf("%d events count twice", report.Duplicates)
	}
}

func TestVerifyFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage                                string
		table                                 string
		missing, extra, different, duplicates int64
	}{
		"a row that is missing": {
			damage: `DELETE FROM participants WHERE (campaign_id, participant_id) IN (SELECT campaign_id, participant_id
				FROM participants LIMIT 2)`,
			table: "participants", missing: 2,
		},
		"a row too many": {
			damage: `INSERT INTO invites (campaign_id, invite_id, recipient, status, created_at)
				VALUES ('elsewhere', 'invite-1', 'Ada', 'open', now())`,
			table: "invites", extra: 1,
		},
		"a column that differs": {
			damage: `UPDATE sessions SET scenes = scenes + 1 WHERE (campaign_id, session_id) IN (SELECT campaign_id, session_id
				FROM sessions LIMIT 1)`,
			table: "sessions", different: 1,
		},
		"a time that differs by a microsecond": {
			damage: `UPDATE active_sessions SET started_at = started_at + '1 us'
				WHERE campaign_id IN (SELECT campaign_id FROM active_sessions LIMIT 1)`,
			table: "active_sessions", different: 1,
		},
		"a hit point": {
			damage: `UPDATE characters SET doc = jsonb_set(doc, '{hit_points}', '1000')
				WHERE (campaign_id, key) IN (SELECT campaign_id, key FROM characters LIMIT 1)`,
			table: "characters", different: 1,
		},
		"a table of a person": {
			damage: `UPDATE players SET doc = jsonb_set(doc, '{tables,0,role}', '"guest"')
				WHERE key IN (SELECT key FROM players WHERE (doc->>'joined')::bigint > 1 LIMIT 1)`,
			table: "players", different: 1,
		},
		"a person who leads": {
			damage: `UPDATE leaderboard SET led = led + 1 WHERE player IN (SELECT player FROM leaderboard LIMIT 1)`,
			table:  "leaderboard", different: 1,
		},
		"events applied twice": {
			damage: `UPDATE campaigns SET doc = jsonb_set(doc, '{events}', to_jsonb((doc->>'events')::bigint + 5))
				WHERE campaign_id IN (SELECT campaign_id FROM campaigns LIMIT 1)`,
			table: "campaigns", different: 1, duplicates: 5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			play(t, pool, tabletop.NewGenerator(tabletop.GeneratorConfig{Seed: 5, Campaigns: 3}), 120)
			drain(t, newWorker(t, pool))
			if _, err := pool.Exec(t.Context(), c.damage); err != nil {
				t.Fatal(err)
			}

			report := verify(t, pool, 0)
			want := tabletop.TableReport{Table: c.table, Missing: c.missing, Extra: c.extra, Different: c.different}
			for _, got := range report.Tables {
				if got.Table != c.table {
					if got.Mismatches() != 0 {
						t.Errorf("table %s, which is as it should be: %s", got.Table, got.Example)
					}
					continue
				}
				if got.Example == "" {
					t.Error("no example is given")
				}
				got.Rows, got.Example = 0, ""
				if got != want {
					t.Errorf("found %+v, wanted %+v", got, want)
				}
			}
			if report.Duplicates != c.duplicates {
				t.Errorf("found %d duplicates, wanted %d", report.Duplicates, c.duplicates)
			}
		})
	}
}

func TestALeaderboardCountsTheTablesOfAllCampaigns(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	play(t, pool, tabletop.NewGenerator(tabletop.GeneratorConfig{Seed: 7, Campaigns: 20}), 500)
	drain(t, newWorker(t, pool))
	var player string
	var joined int
	if err := pool.QueryRow(t.Context(), `SELECT player, joined FROM tidemark_views.leaderboard
		ORDER BY joined DESC, player LIMIT 1`).Scan(&player, &joined); err != nil {
		t.Fatal(err)
	}
	page, found, err := tabletop.Players().Get(t.Context(), pool, player)
	if err != nil || !found || page.Joined != joined || len(page.Tables) != 5 {
		t.Errorf("%s leads with %d tables, and the page says %+v, %t, %v", player, joined, page, found, err)
	}
	if page.Tables[0].CampaignID == page.Tables[4].CampaignID {
		t.Errorf("the tables of %s are of one campaign: %+v", player, page.Tables)
	}
}

// play appends the generator's next decisions and returns their number of events.
func play(t *testing.T, pool *pgxpool.Pool, generator *tabletop.Generator, decisions int) (events int64) {
	t.Helper()
	catalogue, err := tabletop.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	writer := journal.Journal{Catalogue: catalogue}
	for range decisions {
		decision := generator.Next()
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := writer.Append(t.Context(), tx, decision.CampaignID, decision.Expect, decision.Events...)
			return err
		})
		if err != nil {
			t.Fatalf("append to campaign %s: %v", decision.CampaignID, err)
		}
		events += int64(len(decision.Events))
	}
	return events
}

func newWorker(t *testing.T, pool *pgxpool.Pool) *projector.Projector {
	t.Helper()
	projections, err := tabletop.Projections()
	if err != nil {
		t.Fatal(err)
	}
	worker, err := projector.New(projector.Config{Pool: pool, Projections: projections})
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	return worker
}

func drain(t *testing.T, worker *projector.Projector) {
	t.Helper()
	if _, err := worker.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func verify(t *testing.T, pool *pgxpool.Pool, since int64) tabletop.Report {
	t.Helper()
	report, err := tabletop.Verify(t.Context(), pool, since)
	if err != nil {
		t.Fatal(err)
	}
	return report
}
