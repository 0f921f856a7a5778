package erasure_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/erasure"
)

// TestFindingTheEventsOfASubjectIsNotCompiled has Postgres tell the plan and the settings of each statement.
func TestFindingTheEventsOfASubjectIsNotCompiled(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.order("shop", "ann", 10)
	cfg := s.Config()
	for name, value := range map[string]string{
		"session_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "0",
		"auto_explain.log_level": "notice", "auto_explain.log_settings": "on", "jit": "on",
	} {
		cfg.ConnConfig.RuntimeParams[name] = value
	}
	var mu sync.Mutex
	var plans []string
	cfg.ConnConfig.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		mu.Lock()
		defer mu.Unlock()
		plans = append(plans, notice.Message)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := erasure.Request{Subjects: []string{planted("ann")}, Catalogue: s.catalogue, By: "anna", Reason: "a request"}
	found, err := erasure.Count(t.Context(), pool, r)
	if err == nil {
		_, err = erasure.Erase(t.Context(), pool, r)
	}
	pool.Close()
	if err != nil || found.Events != 1 {
		t.Fatalf("%d events are found, %v", found.Events, err)
	}
	for _, name := range []string{"tidemark.erased_of(", "tidemark.event_tags e", "tidemark.field_values("} {
		n := 0
		for _, plan := range plans {
			if !strings.Contains(plan, name) {
				continue
			}
			if n++; !strings.Contains(plan, "jit = 'off'") {
				t.Errorf("Postgres may compile %s", plan)
			}
		}
		if n < 2 {
			t.Errorf("%d plans have %s, want those of Count and Erase", n, name)
		}
	}
}
