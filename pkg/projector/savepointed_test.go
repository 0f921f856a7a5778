package projector_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// The ways in which an event can fail, as amounts of moves.
const (
	byError     = -1 // the handler returns an error
	byPanic     = -2
	byDecoding  = -3 // the payload cannot be decoded
	byServer    = -4 // a constraint is violated
	byStatement = -5 // a statement cannot be prepared
	byArgument  = -6 // an argument cannot be encoded
)

const insertListed = `INSERT INTO listed (campaign_id, seq, by) VALUES ($1, $2, $3)`

// list queues the row of an event and fails as the amount says. It first queues a statement that
// always succeeds, whose row shows if it was not rolled back.
func list(g *projection.Group, e event.Event, m moved) error {
	g.Queue(`INSERT INTO tried (campaign_id, seq) VALUES ($1, $2)`, e.CampaignID, e.Seq)
	switch m.By {
	case byError:
		return errPassing
	case byPanic:
		panic("no way")
	case byDecoding:
		return &event.DecodeError{}
	case byArgument:
		g.Queue(insertListed, e.CampaignID, struct{}{}, m.By)
	case byStatement:
		g.Queue(`INSERT INTO nowhere VALUES ($1)`, e.CampaignID)
	default:
		g.Queue(insertListed, e.CampaignID, e.Seq, m.By)
	}
	return nil
}

// listing is a projection that lists the events it applies. do is its handler.
func listing(
	action projection.Action, do func(context.Context, *projection.Group, event.Event, moved) error,
) projection.Projection {
	return projection.Handlers{
		Name: "listing", Version: 1, OnFailure: slow(action),
		Tables: `CREATE TABLE listed (campaign_id text, seq bigint, n bigint GENERATED ALWAYS AS IDENTITY,
			by int CHECK (by > 0), PRIMARY KEY (campaign_id, seq));
			CREATE TABLE tried (campaign_id text, seq bigint, PRIMARY KEY (campaign_id, seq))`,
		On: []projection.Handler{
			projection.Handle("moved", do),
		},
	}
}

// TestManyCulpritsOfOneGroup poisons many campaigns of one group in every way, some of them more
// than once. With each kind of projection, a campaign stops at its first culprit, or continues
// without its culprits. Nothing else is missing or applied twice.
func TestManyCulpritsOfOneGroup(t *testing.T) {
	t.Parallel()
	plain := func(_ context.Context, g *projection.Group, e event.Event, m moved) error { return list(g, e, m) }
	kinds := map[string]struct {
		do   func(context.Context, *projection.Group, event.Event, moved) error
		mode pgx.QueryExecMode
	}{
		"that queue":                            {do: plain},
		"that queue, where nothing is streamed": {do: plain, mode: pgx.QueryExecModeCacheDescribe},
		"that queue, without descriptions":      {do: plain, mode: pgx.QueryExecModeExec},
		"that use the transaction": {do: func(ctx context.Context, g *projection.Group, e event.Event, m moved) error {
			err := list(g, e, m)
			if err == nil && e.Seq%2 == 0 {
				_, err = g.Tx(ctx)
			}
			return err
		}},
		"that use the transaction and hide its error": {do: func(ctx context.Context, g *projection.Group, e event.Event,
			m moved,
		) error {
			if _, err := g.Tx(ctx); err != nil {
				return fmt.Errorf("begin: %v", err) //nolint:errorlint // it hides it
			}
			return list(g, e, m)
		}},
		"that look at results": {do: func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
			g.Queue(`SELECT $1::bigint`, e.Seq).QueryRow(func(row pgx.Row) error { return row.Scan(new(int64)) })
			return list(g, e, m)
		}},
		"with many different statements": {do: func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
			g.Queue(fmt.Sprintf(`SELECT %d`, e.Seq+int64(len(e.CampaignID))*3))
			g.Queue(`SELECT '` + e.CampaignID + `'`)
			return list(g, e, m)
		}},
		"that name other events": {do: func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
			err := list(g, e, m)
			g.At(g.Events[0])
			g.Queue(`SELECT 1`)
			return err
		}},
	}
	for kind, how := range kinds {
		for _, action := range []projection.Action{projection.ActionRetry, projection.ActionSkip} {
			t.Run("handlers "+kind+", action "+string(action), func(t *testing.T) {
				t.Parallel()
				pool := pgtest.New(t)
				const campaigns, length = 40, 6
				random := rand.New(rand.NewPCG(1, uint64(len(kind))))
				batches := make([]journal.Batch, campaigns)
				var applied, behind, skipped []string
				for i := range batches {
					id := fmt.Sprintf("c%02d", i)
					batches[i] = journal.Batch{CampaignID: id}
					stopped := false
					var seqs []string
					for seq := 1; seq <= length; seq++ {
						by := 1
						if random.IntN(12) == 0 {
							by = -1 - random.IntN(6)
						}
						batches[i].Events = append(batches[i].Events, moves(by)...)
						switch {
						case stopped:
						case by > 0:
							seqs = append(seqs, fmt.Sprint(seq))
						case action == projection.ActionSkip:
							skipped = append(skipped, fmt.Sprint(id, " ", seq))
						default:
							behind = append(behind, fmt.Sprint(id, " ", seq))
							stopped = true
						}
					}
					if len(seqs) > 0 {
						applied = append(applied, id+" "+strings.Join(seqs, " "))
					}
				}
				if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					_, err := journal.Journal{}.AppendAll(t.Context(), tx, batches...)
					return err
				}); err != nil {
					t.Fatal(err)
				}
				drain(t, workerOf(t, inMode(t, pool, how.mode), func(c *projector.Config) { c.Concurrency = 1 }, ledger(),
					listing(action, how.do), counters()))
				for _, table := range []string{"listed", "tried"} {
					order := map[string]string{"listed": "n", "tried": "seq"}[table]
					expectText(t, pool, table, strings.Join(applied, ", "), `SELECT string_agg(c, ', ' ORDER BY c) FROM (
						SELECT campaign_id || ' ' || string_agg(seq::text, ' '
							ORDER BY `+order+`) AS c FROM `+table+` GROUP BY campaign_id) c`)
				}
				expectText(t, pool, "behind", strings.Join(behind, ", "), `SELECT string_agg(campaign_id || ' ' || next_seq, ', '
					ORDER BY 1) FROM tidemark.failed WHERE projection = 'listing'`)
				expectText(t, pool, "skipped", strings.Join(skipped, ", "), `SELECT string_agg(campaign_id || ' ' || seq, ', '
					ORDER BY campaign_id, seq) FROM tidemark.failure_log WHERE act = 'skipped'`)
				expectText(t, pool, "others", fmt.Sprint(campaigns*length, " ", campaigns), `SELECT (SELECT count(*)
					FROM ledger) || ' ' || (SELECT count(*) FROM counters WHERE (doc->>'count')::int = `+fmt.Sprint(length)+`)`)
				expectText(t, pool, "failures", fmt.Sprint(len(behind)+len(skipped)), `SELECT count(*)::text
					FROM tidemark.failure_log`)
				expectText(t, pool, "hot queue", "0", `SELECT count(*)::text FROM tidemark.outbox`)
			})
		}
	}
}

// TestTheInfrastructureFailsAmongCulprits lets the infrastructure fail during the search for
// culprits. Nothing of the group is kept, and no event is blamed. The handler's error in the first
// campaign ends the group before anything is sent, so the statements of the second campaign are
// first sent during the search.
func TestTheInfrastructureFailsAmongCulprits(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"by losing the connection":  `SELECT pg_terminate_backend(pg_backend_pid())`,
		"between parts and the end": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			failed := false
			h := listing("", func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
				if e.CampaignID == "b" && !failed && statement != "" {
					failed = true
					g.Queue(statement)
				}
				return list(g, e, m)
			})
			p := workerOf(t, pool, func(c *projector.Config) {
				c.Concurrency, c.LeaseTTL = 1, 5*time.Second
				c.OnStep = func(s kind.Step) {
					if s == kind.StepDeferring && !failed {
						failed = true
						exec(t, pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
							AND state = 'idle in transaction'`)
					}
				}
			}, ledger(), h)
			appendMoves(t, pool, "a", 1, byError, 1)
			appendMoves(t, pool, "b", 1, 1)
			appendMoves(t, pool, "c", 1, byServer, 1)
			if _, err := p.Drain(t.Context()); !failure.IsInfrastructure(err) {
				t.Fatalf("Drain = %v, want a failure of the infrastructure", err)
			}
			expectPairs(t, pool, "")
			expectLog(t, pool, "")
			expectText(t, pool, "nothing of the group is kept", "0", `SELECT ((SELECT count(*) FROM listed) + (SELECT count(*)
				FROM ledger))::text`)
			drainAll(t, pool, p)
			expectPairs(t, pool, "a listing 2 failed 1 transient error, c listing 2 dead 1 permanent 23514 never")
			expectText(t, pool, "applied", "a 1, b 1, b 2, c 1", `SELECT string_agg(campaign_id || ' ' || seq, ', ' ORDER BY 1)
				FROM listed`)
			expectText(t, pool, "others", "8", `SELECT count(*)::text FROM ledger`)
		})
	}
}

// TestAProjectionWaitsAmongCulprits lets a statement of the second campaign meet the infrastructure once, on a
// connection that lives on. The projection waits there, and the rest of the group is kept. A serialization
// failure is tried again at once.
func TestAProjectionWaitsAmongCulprits(t *testing.T) {
	t.Parallel()
	for statement, code := range map[string]string{
		`SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(60)`:                                       "57014",
		`DO $$ BEGIN RAISE 'full' USING ERRCODE = '53100'; END $$`:                                       "53100",
		`DO $$ BEGIN IF nextval('tries') = 1 THEN RAISE 'again' USING ERRCODE = '40001'; END IF; END $$`: "",
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			exec(t, pool, `CREATE SEQUENCE tries`)
			met := false
			p := workerOf(t, pool, nil, ledger(), listing("",
				func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
					if e.CampaignID == "b" && !met {
						met = true
						g.Queue(statement)
					}
					return list(g, e, m)
				}))
			appendMoves(t, pool, "a", 1, byError, 1)
			appendMoves(t, pool, "b", 1, 1)
			appendMoves(t, pool, "c", 1, byServer, 1)
			drain(t, p)
			others := "a listing 2 failed 1 transient error, c listing 2 dead 1 permanent 23514 never"
			if code != "" {
				expectPairs(t, pool, strings.Replace(others, ", ", ", b listing 1 failed 0 infrastructure "+code+", ", 1))
				retry(t, pool, p)
				others = strings.Replace(others, "failed 1", "failed 2", 1)
			}
			expectPairs(t, pool, others)
			expectText(t, pool, "applied", "a 1, b 1, b 2, c 1", `SELECT string_agg(campaign_id || ' ' || seq, ', '
				ORDER BY campaign_id, seq) FROM listed`)
			expectText(t, pool, "others", "8", `SELECT count(*)::text FROM ledger`)
		})
	}
}

// TestOneOfManyProjectionsFails has more projections in a group than there are parts for those that
// did not fail.
func TestOneOfManyProjectionsFails(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	projections := []projection.Projection{listing("",
		func(_ context.Context, g *projection.Group, e event.Event, m moved) error { return list(g, e, m) })}
	for i := range 12 {
		projections = append(projections, ordered(fmt.Sprint("log_", i)))
	}
	p := workerOf(t, pool, nil, projections...)
	appendMoves(t, pool, "a", 1, byError, 1)
	drain(t, p)
	expectPairs(t, pool, "a listing 2 failed 1 transient error")
	retry(t, pool, p)
	appendMoves(t, pool, "b", 1, byServer)
	drain(t, p)
	expectPairs(t, pool, "a listing 2 failed 2 transient error, b listing 2 dead 1 permanent 23514 never")
	expectText(t, pool, "applied by the last of the others", "5", `SELECT count(*)::text FROM log_11`)
}

func TestADeadlineAmongCulprits(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(context.Context, *projection.Group) error{
		"of a handler": func(ctx context.Context, _ *projection.Group) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"of a statement": func(_ context.Context, g *projection.Group) error {
			g.Queue(`SELECT pg_sleep(60)`)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given(t, func(t *testing.T, timeout time.Duration) error {
				t.Helper()
				pool := pgtest.New(t)
				h := &projection.Handlers{
					Name: "listing", Version: 1, OnFailure: projection.Policy{Timeout: timeout, Base: time.Hour, Max: time.Hour},
					Tables: `CREATE TABLE listed (campaign_id text, seq bigint, by int CHECK (by > 0),
						PRIMARY KEY (campaign_id, seq)); CREATE TABLE tried (campaign_id text, seq bigint)`,
					On: []projection.Handler{
						projection.Handle("moved", func(ctx context.Context, g *projection.Group, e event.Event, m moved) error {
							if m.By == endless {
								return do(ctx, g)
							}
							return list(g, e, m)
						}),
					},
				}
				appendMoves(t, pool, "a", 1, byError, 1)
				appendMoves(t, pool, "b", 1, endless, 1)
				appendMoves(t, pool, "c", 1, byServer, 1)
				appendMoves(t, pool, "d", 1, 1, 1)
				if _, err := workerOf(t, pool, nil, h, ledger()).Drain(t.Context()); err != nil {
					return err
				}
				const want = "a 2 error, b 2 deadline, c 2 23514; a 1, b 1, c 1, d 1, d 2, d 3; 12"
				got := query[string](t, pool, `SELECT concat_ws('; ', (SELECT string_agg(concat_ws(' ', campaign_id, next_seq,
					error_code), ', ' ORDER BY campaign_id) FROM tidemark.failed),
					(SELECT string_agg(campaign_id || ' ' || seq, ', ' ORDER BY campaign_id, seq) FROM listed),
						(SELECT count(*) FROM ledger))`)
				if got != want {
					return fmt.Errorf("behind, applied, and by the other projection: %s\nwant: %s", got, want)
				}
				return nil
			})
		})
	}
}

// TestAnEarlierFailureOfTheServerComesBeforeALaterOneOfTheHandler lets the worker notice the later
// of two failures of a campaign first.
func TestAnEarlierFailureOfTheServerComesBeforeALaterOneOfTheHandler(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p := workerOf(t, pool, nil, listing("", func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
		return list(g, e, m)
	}))
	appendMoves(t, pool, "a", 1, byServer, 1, byError, 1)
	appendMoves(t, pool, "b", 1, 1)
	drain(t, p)
	expectPairs(t, pool, "a listing 2 dead 1 permanent 23514 never")
	expectLog(t, pool, "dead 2 1")
	expectText(t, pool, "applied", "a 1, b 1, b 2", `SELECT string_agg(campaign_id || ' ' || seq, ', ' ORDER BY 1)
		FROM listed`)
}

// TestAnArgumentThatCannotBeEncodedIsItsEventsFault sends few statements, so they are not streamed.
// pgx closes the connection because of the argument, which looks like an infrastructure failure. It
// does so in every mode, those for poolers included.
func TestAnArgumentThatCannotBeEncodedIsItsEventsFault(t *testing.T) {
	t.Parallel()
	for _, mode := range execModes() {
		for name, look := range map[string]bool{"queued": false, "with a result": true} {
			t.Run(name+", "+mode.String(), func(t *testing.T) {
				t.Parallel()
				pool := pgtest.New(t)
				p := workerOf(t, inMode(t, pool, mode), nil, ledger(),
					listing("", func(_ context.Context, g *projection.Group, e event.Event, m moved) error {
						if look {
							g.Queue(`SELECT $1::bigint`, e.Seq).QueryRow(func(row pgx.Row) error { return row.Scan(new(int64)) })
						}
						return list(g, e, m)
					}))
				appendMoves(t, pool, "a", 1, byArgument, 1)
				appendMoves(t, pool, "b", 1, 1)
				drain(t, p)
				expectText(t, pool, "behind", "a listing 2 failed", `SELECT string_agg(format('%s %s %s %s', campaign_id,
					projection, next_seq, status), ', ') FROM tidemark.failed`)
				expectText(t, pool, "applied", "a 1, b 1, b 2", `SELECT string_agg(campaign_id || ' ' || seq, ', ' ORDER BY 1)
					FROM listed`)
				expectText(t, pool, "others", "5", `SELECT count(*)::text FROM ledger`)
				for attempt := 2; attempt <= 8; attempt++ {
					// The backend of the closed connection can hold its locks a moment longer, and
					// claims skip locked rows.
					within(t, fmt.Sprint("attempt ", attempt), func() bool {
						retry(t, pool, p)
						return query[int](t, pool, `SELECT attempt_count FROM tidemark.failed`) >= attempt
					})
				}
				expectText(t, pool, "after its attempts", "a listing 2 dead 8", `SELECT string_agg(format('%s %s %s %s %s',
					campaign_id, projection, next_seq, status, attempt_count), ', ') FROM tidemark.failed`)
			})
		}
	}
}
