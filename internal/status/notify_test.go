package status

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestTheSessionThatFillsTheNotifyQueueIsNamed opens the oldest transaction of its server's, unless another test has
// one. The usage is the test's: to fill a real queue takes 4 GB.
func TestTheSessionThatFillsTheNotifyQueueIsNamed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `CREATE OR REPLACE FUNCTION tidemark.notify_queue_usage()
			RETURNS double precision LANGUAGE sql AS 'SELECT 0.95::double precision'`); err != nil {
		t.Fatal(err)
	}
	err := pgx.BeginFunc(t.Context(), pool, func(pgx.Tx) error {
		s, err := (&Reader{Pool: pool}).Read(t.Context(), SectionPostgres)
		if err != nil {
			return err
		}
		if h := s.Postgres.NotifyHolder; h == nil || h.PID == 0 || h.Since.IsZero() || h.Remedy == "" {
			t.Errorf("the holder is %+v", h)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
