package projector_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// complaints collects warnings of a log and errors of the server.
type complaints struct {
	mu  sync.Mutex
	all []string
}

func (c *complaints) add(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, text)
}

func (c *complaints) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}
func (c *complaints) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c *complaints) WithGroup(string) slog.Handler      { return c }

func (c *complaints) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	c.add(text)
	return nil
}

// eachKind returns a projection of each kind and scope, with tables that each version names differently
// where the kind lets it.
func eachKind(t *testing.T, version int) []projection.Projection {
	t.Helper()
	key := func(e event.Event) (string, error) { return e.CampaignID, nil }
	fold := func(n *int, _ event.Event) error { *n++; return nil }
	var all []projection.Projection
	for _, scope := range []projection.Scope{projection.ScopeCampaign, projection.ScopeJournal} {
		name := "campaign"
		if scope == projection.ScopeJournal {
			name = "journal"
		}
		all = append(all, projection.Document[int]{
			Name: name + "_docs", Version: version, Types: []string{"moved"}, Scope: scope, Key: key, Fold: fold,
		})
		table := fmt.Sprintf("%s_lines_%d", name, version)
		spec := projection.Handlers{
			Name: name + "_lines", Version: version, Types: []string{"moved"}, Scope: scope,
			Tables: `CREATE TABLE ` + table + ` (campaign_id text COLLATE "C", position bigint,
				PRIMARY KEY (campaign_id, position))`,
		}
		if scope == projection.ScopeJournal {
			spec.Key, spec.KeyColumn = key, "campaign_id"
		}
		lines, of := &spec, event.Type[moved]("moved")
		lines.On = append(lines.On, projection.Handle(of, func(_ context.Context, g *projection.Group, e event.Event, _ moved) error {
			g.Queue(`INSERT INTO `+table+` VALUES ($1, $2)`, e.CampaignID, e.Position)
			return nil
		}))
		reads := &projection.Handlers{
			Name: name + "_reads", Version: version, Types: []string{"moved"}, Scope: scope,
			Key: spec.Key, KeyColumn: spec.KeyColumn,
			Tables: fmt.Sprintf(`CREATE TABLE %s_reads_%d (campaign_id text COLLATE "C" PRIMARY KEY, n bigint)`,
				name, version),
			On: []projection.Handler{
				projection.Handle(of, func(ctx context.Context, g *projection.Group, e event.Event, _ moved) error {
					tx, err := g.Tx(ctx)
					if err != nil {
						return err
					}
					_, err = tx.Exec(ctx, fmt.Sprintf(`INSERT INTO %s_reads_%d AS r VALUES ($1, 1) ON CONFLICT (campaign_id)
				DO UPDATE SET n = r.n + 1`, name, version), e.CampaignID)
					return err
				}),
			},
		}
		header := ""
		if scope == projection.ScopeJournal {
			header = "-- scope: journal\n-- key: campaign_id = event.campaign_id\n"
		}
		files, err := sqlfile.Load(fstest.MapFS{"f.sql": {Data: fmt.Appendf(nil, `-- projection: %s_file
-- version: %d
%sCREATE TABLE %[1]s_file_%[2]d (campaign_id text COLLATE "C", position bigint, PRIMARY KEY (campaign_id, position));
-- on: moved
INSERT INTO %[1]s_file_%[2]d VALUES (event.campaign_id, event.position);
`, name, version, header)}}, "f.sql")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, lines, reads, files)
	}
	return append(all, projection.Process[int]{
		Name: "process", Version: version, Types: []string{"moved"}, Key: key, Fold: fold,
		React: []projection.Reaction[int]{
			projection.React("moved", func(_ *int, _ event.Event, _ struct{}) ([]projection.Do, error) {
				return []projection.Do{{Campaign: "elsewhere", Events: []event.Event{{Type: "seen"}}}}, nil
			}),
		},
	})
}

// The first group on each connection prepares its statements. It must not fail because of that.
func TestNewConnectionsCauseNoErrors(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			// Databases of tests have the live tables in their search_path. Those of users do not.
			address := pgtest.With(pgtest.URL(t), "search_path", session.SearchPath)
			address = pgtest.With(address, "default_query_exec_mode", mode)
			if mode == "exec" || mode == "simple_protocol" { // the formats of modes that get results as text
				for setting, value := range map[string]string{
					"datestyle": "ISO", "intervalstyle": "postgres", "standard_conforming_strings": "on",
				} {
					address = pgtest.With(address, setting, value)
				}
			}
			writer := tally.Pool(t, address, "writer", 1)
			round := 0
			apply := func(what string, version int) {
				t.Helper()
				var heard complaints
				cfg, err := pgxpool.ParseConfig(pgtest.UTF8(address))
				if err != nil {
					t.Fatal(err)
				}
				cfg.MaxConns = 4
				usual := cfg.ConnConfig.OnPgError
				cfg.ConnConfig.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
					heard.add(err.Error())
					return usual(conn, err)
				}
				pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer pool.Close()
				p, err := projector.New(projector.Config{
					Pool: pool, Projections: eachKind(t, version), Logger: slog.New(&heard), Concurrency: 1,
				})
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					round++
					if err := pgx.BeginFunc(t.Context(), writer, func(tx pgx.Tx) error {
						var batches []journal.Batch
						for c := range 3 {
							batches = append(batches, journal.Batch{
								CampaignID: fmt.Sprint("c", c), Events: []event.Event{{Type: "moved"}, {Type: "moved"}},
							})
						}
						_, err := journal.Journal{}.AppendAll(t.Context(), tx, batches...)
						return err
					}); err != nil {
						t.Fatal(err)
					}
					if _, err := p.Drain(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				for _, complaint := range heard.all {
					t.Errorf("%s: %s", what, complaint)
				}
				for table, want := range map[string]int{
					"campaign_docs": 3, "journal_docs": 3, "process": 3,
					fmt.Sprint("campaign_lines_", version): 6 * round, fmt.Sprint("journal_lines_", version): 6 * round,
					fmt.Sprint("campaign_file_", version): 6 * round, fmt.Sprint("journal_file_", version): 6 * round,
					fmt.Sprint("campaign_reads_", version): 3, fmt.Sprint("journal_reads_", version): 3,
				} {
					if n := tally.Value[int](t, writer, `SELECT count(*) FROM tidemark_views.`+table); n != want {
						t.Errorf("%s: %s has %d rows, want %d", what, table, n, want)
					}
				}
			}
			apply("registration", 1)
			apply("new connections", 1)
			apply("a rebuild", 2)
			apply("new connections after a rebuild", 2)
		})
	}
}
