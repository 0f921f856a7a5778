package journal_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

var errSoldOut = errors.New("sold out")

// seats is a command that books one of two seats of a show, and counts how often it is decided.
type seats struct {
	journal.Command
	decided atomic.Int32
}

func booking(show, content string) *seats {
	return &seats{Command: journal.Command{CampaignID: show, ID: uuid.New(), Content: []byte(content)}}
}

// byTag decides on all bookings of the show, with a condition.
func (s *seats) byTag(ctx context.Context, tx pgx.Tx) (journal.Decision, error) {
	s.decided.Add(1)
	tag := "show=" + s.CampaignID
	n, condition, err := journal.Decide(ctx, tx, event.Tagged([]string{tag}, "booked"), count)
	if err != nil || n >= 2 {
		return journal.Decision{}, cmp.Or(err, errSoldOut)
	}
	return journal.Decision{
		Events: []event.Event{
			{Type: "booked", Tags: []string{tag}},
			{CampaignID: "bills", Type: "billed"},
			{Type: "confirmed"},
		},
		Condition: &condition,
	}, nil
}

// bySeq decides on the campaign alone.
func (s *seats) bySeq(ctx context.Context, tx pgx.Tx) (journal.Decision, error) {
	s.decided.Add(1)
	n, seq, err := journal.Load(ctx, tx, s.CampaignID, func(n *int, e event.Event) error {
		if e.Type == "booked" {
			*n++
		}
		return nil
	})
	if err != nil || n >= 2 {
		return journal.Decision{}, cmp.Or(err, errSoldOut)
	}
	return journal.Decision{
		Events: []event.Event{{Type: "booked"}, {CampaignID: "bills", Type: "billed"}, {Type: "confirmed"}},
		Expect: journal.Exactly(seq),
	}, nil
}

type decider = func(ctx context.Context, tx pgx.Tx) (journal.Decision, error)

// eachWay runs a test with a condition and with an expected seq.
func eachWay(t *testing.T, test func(t *testing.T, pool *pgxpool.Pool, way func(*seats) decider)) {
	t.Helper()
	for name, way := range map[string]func(*seats) decider{
		"condition": func(s *seats) decider { return s.byTag }, "seq": func(s *seats) decider { return s.bySeq },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, pgtest.New(t), way)
		})
	}
}

func mustDo(t *testing.T, pool *pgxpool.Pool, c journal.Command, decide decider) journal.Outcome {
	t.Helper()
	out, err := journal.Journal{}.Do(t.Context(), pool, c, decide)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func eventsIn(t *testing.T, pool *pgxpool.Pool, campaign string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM tidemark.journal WHERE campaign_id = $1`,
		campaign).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestARepeatedCommandAnswersTheFirstPlaces(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, pool *pgxpool.Pool, way func(*seats) decider) {
		t.Helper()
		first, second, third := booking("hamlet", "row 1"), booking("hamlet", "row 2"), booking("hamlet", "row 3")
		out := mustDo(t, pool, first.Command, way(first))
		if len(out.Places) != 2 || out.Repeated || out.Places[0].ID != first.ID || out.Places[1].Seq != 2 ||
			out.Token() != out.Places[1].Token() {
			t.Fatalf("%+v", out)
		}
		mustDo(t, pool, second.Command, way(second))
		if _, err := (journal.Journal{}).Do(t.Context(), pool, third.Command, way(third)); !errors.Is(err, errSoldOut) {
			t.Errorf("the third: %v", err)
		}
		again := mustDo(t, pool, first.Command, way(first)) // would be sold out
		if !again.Repeated || again.Token() != out.Token() || len(again.Places) != 2 || first.decided.Load() != 1 {
			t.Errorf("%+v, decided %d times", again, first.decided.Load())
		}
		if n, bills := eventsIn(t, pool, "hamlet"), eventsIn(t, pool, "bills"); n != 4 || bills != 2 {
			t.Errorf("%d events, %d bills", n, bills)
		}
	})
}

func TestCallsOfOneCommandAtOnceTakeEffectOnce(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, pool *pgxpool.Pool, way func(*seats) decider) {
		t.Helper()
		last := booking("hamlet", "row 2")
		mustDo(t, pool, last.Command, way(last)) // so a call that saw another's booking would be refused
		c := booking("hamlet", "row 1")
		outs, calls := make([]journal.Outcome, 6), sync.WaitGroup{}
		for i := range outs {
			calls.Go(func() {
				var err error
				if outs[i], err = (journal.Journal{}).Do(t.Context(), pool, c.Command, way(c)); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		fresh := 0
		for _, out := range outs {
			if !out.Repeated {
				fresh++
			}
			if out.Token() != outs[0].Token() || out.Token() == "" {
				t.Errorf("%+v, %+v", out, outs[0])
			}
		}
		if n := eventsIn(t, pool, "hamlet"); n != 4 || fresh != 1 {
			t.Errorf("%d events, %d calls appended", n, fresh)
		}
	})
}

// TestACallThatDecidesOtherwiseAnswersTheFirst has another call of the command come before its decision.
func TestACallThatDecidesOtherwiseAnswersTheFirst(t *testing.T) {
	t.Parallel()
	for name, otherwise := range map[string]func() (journal.Decision, error){
		"other events": func() (journal.Decision, error) { return journal.Decision{Events: noted(1)}, nil },
		"refused":      func() (journal.Decision, error) { return journal.Decision{}, errSoldOut },
		"no events":    func() (journal.Decision, error) { return journal.Decision{}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			c, calls := booking("hamlet", "row 1"), 0
			var first journal.Outcome
			out := mustDo(t, pool, c.Command, func(context.Context, pgx.Tx) (journal.Decision, error) {
				if calls++; calls == 1 {
					first = mustDo(t, pool, c.Command, c.bySeq)
				}
				return otherwise()
			})
			if !out.Repeated || out.Token() != first.Token() || calls != 1 {
				t.Errorf("%+v, %+v, %d calls", out, first, calls)
			}
		})
	}
}

// TestWhatADecisionWritesIsThereOnce has another append come before the first decision's: only what the
// second has written commits.
func TestWhatADecisionWritesIsThereOnce(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, pool *pgxpool.Pool, way func(*seats) decider) {
		t.Helper()
		exec(t, pool, `CREATE TABLE tickets (n int)`)
		c := booking("hamlet", "row 1")
		mustDo(t, pool, c.Command, func(ctx context.Context, tx pgx.Tx) (journal.Decision, error) {
			d, err := way(c)(ctx, tx)
			if c.decided.Load() == 1 {
				mustAppend(t, pool, "hamlet", event.Event{Type: "booked", Tags: []string{"show=hamlet"}})
			}
			_, writeErr := tx.Exec(ctx, `INSERT INTO tickets VALUES (1)`)
			return d, errors.Join(err, writeErr)
		})
		var tickets int
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM tickets`).Scan(&tickets); err != nil || tickets != 1 ||
			c.decided.Load() != 2 {
			t.Errorf("%d tickets after %d decisions, %v", tickets, c.decided.Load(), err)
		}
	})
}

func TestARefusedCommandIsDecidedAnew(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	c := booking("hamlet", "row 1")
	refuse := func(context.Context, pgx.Tx) (journal.Decision, error) { return journal.Decision{}, errSoldOut }
	nothing := func(context.Context, pgx.Tx) (journal.Decision, error) { return journal.Decision{}, nil }
	if out, err := (journal.Journal{}).Do(t.Context(), pool, c.Command, refuse); !errors.Is(err, errSoldOut) || out.Token() != "" {
		t.Errorf("%+v, %v", out, err)
	}
	if out := mustDo(t, pool, c.Command, nothing); out.Repeated || out.Places != nil {
		t.Errorf("%+v", out)
	}
	if out := mustDo(t, pool, c.Command, c.bySeq); out.Repeated {
		t.Errorf("%+v", out)
	}
}

func TestACommandWithOtherContentIsRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	c := booking("hamlet", "row 1")
	out := mustDo(t, pool, c.Command, c.bySeq)
	other := c.Command
	other.Content = []byte("row 2")
	if _, err := (journal.Journal{}).Do(t.Context(), pool, other, c.bySeq); !errors.Is(err, journal.ErrCommandReused) ||
		!strings.Contains(err.Error(), `"hamlet"`) || !strings.Contains(err.Error(), c.ID.String()) {
		t.Errorf("got %v", err)
	}
	other.Content = nil
	if again := mustDo(t, pool, other, c.bySeq); again.Token() != out.Token() {
		t.Errorf("without content: %+v", again)
	}
	e, err := journal.Get(t.Context(), pool, "hamlet", 1)
	var metadata map[string]string
	if err := errors.Join(err, json.Unmarshal(e.Metadata, &metadata)); err != nil || len(metadata["$command"]) != 4 {
		t.Errorf("%s, %v", e.Metadata, err)
	}
}

func TestCommandsThatSayTooLittleOrTooMuchAreRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	good := booking("hamlet", "").Command
	condition := always()
	for name, c := range map[string]struct {
		command  journal.Command
		decision journal.Decision
		says     string
	}{
		"no id":       {journal.Command{CampaignID: "hamlet"}, journal.Decision{}, "give it a campaign, and an id of its own"},
		"no campaign": {journal.Command{ID: good.ID}, journal.Decision{}, "give it a campaign, and an id of its own"},
		"an id": {
			good, journal.Decision{Events: []event.Event{{ID: good.ID, Type: "booked"}}}, "events[0] has an id: leave it to the command",
		},
		"another campaign first": {
			good,
			journal.Decision{Events: []event.Event{{CampaignID: "bills", Type: "billed"}}},
			`its first event is of campaign "bills"`,
		},
		"both": {
			good,
			journal.Decision{Events: noted(1), Expect: journal.None, Condition: &condition},
			"the decision has a condition and expects a seq",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := journal.Journal{}.Do(t.Context(), pool, c.command, func(context.Context, pgx.Tx) (journal.Decision, error) {
				return c.decision, nil
			})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestALongCommandAnswersAllItsPlaces has more events than one look for them reads, and others after them.
func TestALongCommandAnswersAllItsPlaces(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	c := booking("hamlet", "")
	many := func(context.Context, pgx.Tx) (journal.Decision, error) {
		return journal.Decision{Events: noted(130)}, nil
	}
	out := mustDo(t, pool, c.Command, many)
	mustAppend(t, pool, "hamlet", noted(3)...)
	again := mustDo(t, pool, c.Command, many)
	for i := range out.Places {
		out.Places[i].Duplicate = true
	}
	if !again.Repeated || !reflect.DeepEqual(again.Places, out.Places) {
		t.Errorf("%d places, %d again", len(out.Places), len(again.Places))
	}
}

// lossy loses the reply to the first COMMIT.
type lossy struct {
	net.Conn
	lose *atomic.Bool
	lost bool
}

func (l *lossy) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("commit\x00")) && l.lose.CompareAndSwap(true, false) {
		l.lost = true
	}
	return l.Conn.Write(p)
}

func (l *lossy) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if l.lost {
		return 0, errors.Join(io.ErrUnexpectedEOF, l.Close())
	}
	return n, err
}

func TestACommandWhoseReplyIsLostTakesEffectOnce(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, pool *pgxpool.Pool, way func(*seats) decider) {
		t.Helper()
		cfg := pool.Config()
		var lose atomic.Bool
		dial := cfg.ConnConfig.DialFunc
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return &lossy{Conn: conn, lose: &lose}, err
		}
		through, err := pgxpool.NewWithConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer through.Close()
		c := booking("hamlet", "row 1")
		lose.Store(true)
		out := mustDo(t, through, c.Command, way(c))
		if !out.Repeated || c.decided.Load() != 1 || eventsIn(t, pool, "hamlet") != 2 || lose.Load() {
			t.Errorf("%+v, decided %d times, %d events", out, c.decided.Load(), eventsIn(t, pool, "hamlet"))
		}
	})
}
