package sqltest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// node is the part of a plan that the tests read.
type node struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Hit      int     `json:"Shared Hit Blocks"`
	Read     int     `json:"Shared Read Blocks"`
	Plans    []node  `json:"Plans"`
}

// all returns the node and its descendants.
func (n node) all() []node {
	nodes := []node{n}
	for _, child := range n.Plans {
		nodes = append(nodes, child.all()...)
	}
	return nodes
}

// cost is the cost of a call, including all statements in the functions that it called.
type cost struct {
	Blocks int     // pages of tables and indexes
	Rows   float64 // rows that table scans returned
	plans  []node
}

// faults returns what a hot statement must not do: scan a whole table, or use a hash join.
func (c cost) faults() (faults []string) {
	for _, plan := range c.plans {
		for _, n := range plan.all() {
			switch {
			case n.Type == "Hash Join":
				faults = append(faults, n.Type)
			case n.Type == "Seq Scan" && slices.Contains([]string{
				"journal", "event_tags", "outbox", "leases", "failed",
				"readers", "parked", "scheduled",
			}, n.Relation):
				faults = append(faults, fmt.Sprintf("%s on %s of %.0f rows", n.Type, n.Relation, n.Rows*n.Loops))
			}
		}
	}
	return faults
}

// session is a connection that logs the plan of every statement, also within functions.
type session struct {
	*pgx.Conn
	told []string
}

func open(t *testing.T, url string) *session {
	t.Helper()
	cfg, err := pgx.ParseConfig(pgtest.UTF8(url))
	if err != nil {
		t.Fatal(err)
	}
	s := &session{}
	cfg.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) { s.told = append(s.told, notice.Message) }
	if s.Conn, err = pgx.ConnectConfig(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	for _, statement := range []string{
		"LOAD 'auto_explain'",
		"SET auto_explain.log_level = notice",
		"SET auto_explain.log_format = json",
		"SET auto_explain.log_analyze = on",
		"SET auto_explain.log_buffers = on",
		"SET auto_explain.log_timing = off",
		"SET auto_explain.log_nested_statements = on",
		"SET jit = on",
	} {
		if _, err := s.Exec(t.Context(), statement); err != nil {
			t.Fatalf("the plans need a superuser and the extension auto_explain: %v", err)
		}
	}
	return s
}

// settled returns the cost of a call with the session's caches filled, and rolls it back. It is the cheaper of
// two: definitions that other tests change on the same server can make a session drop its caches at any time.
func (s *session) settled(t *testing.T, call func(tx pgx.Tx) error) cost {
	t.Helper()
	first, second := s.explain(t, call), s.explain(t, call)
	if first.Blocks < second.Blocks {
		return first
	}
	return second
}

// explain returns the cost of a call and rolls it back.
func (s *session) explain(t *testing.T, call func(tx pgx.Tx) error) cost {
	t.Helper()
	tx, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SET LOCAL auto_explain.log_min_duration = 0"); err != nil {
		t.Fatal(err)
	}
	s.told = nil
	if err := call(tx); err != nil {
		t.Fatal(err)
	}
	// The last plan is logged when the next statement arrives.
	if _, err := tx.Exec(t.Context(), "SET LOCAL auto_explain.log_min_duration = -1"); err != nil {
		t.Fatal(err)
	}
	told := s.told
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	var c cost
	for _, message := range told {
		_, plan, ok := strings.Cut(message, "plan:\n")
		if !ok {
			continue
		}
		var explained struct {
			Plan node
			JIT  json.RawMessage
		}
		if err := json.Unmarshal([]byte(plan), &explained); err != nil {
			t.Fatalf("%v in %s", err, plan)
		}
		if len(explained.JIT) > 0 {
			t.Errorf("a statement was compiled, which takes longer than the statement itself: %s", plan)
		}
		c.plans = append(c.plans, explained.Plan)
		c.Blocks = max(c.Blocks, explained.Plan.Hit+explained.Plan.Read) // of the statement that ran the others
		for _, n := range explained.Plan.all() {
			if n.Relation != "" && strings.Contains(n.Type, "Scan") {
				c.Rows += n.Rows * n.Loops
			}
		}
	}
	if len(c.plans) == 0 {
		t.Fatal("no plan was told")
	}
	return c
}
