package ledger

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// A refused event waits for its next attempt. A parked event waits for an operator.
func TestOnlyWhatIsDueIsTriedAgain(t *testing.T) {
	t.Parallel()
	pool, _ := prepare(t, `INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, status,
		next_attempt_at) VALUES
		('all', 'out', 'due', 1, true, 1, 'retrying', now() - interval '1 second'),
			('all', 'out', 'on its way', 1, true, 2, 'draining', now()),
			('all', 'out', 'later', 1, true, 3, 'retrying', now() + interval '1 hour'),
		('all', 'out', 'parked', 1, true, 4, 'parked', now() - interval '1 hour'),
			('all', 'other', 'not ours', 1, true, 5, 'retrying', now())`)
	rows, err := pool.Query(t.Context(), queryDue, []string{"all"}, []string{"out"}, 10)
	if err != nil {
		t.Fatal(err)
	}
	var key publications.Key
	var campaign, status string
	var seq, position int64
	var holds bool
	var attempts int
	var due []string
	if _, err := pgx.ForEachRow(rows, []any{
		&key.Topic, &key.Publisher, &campaign, &seq, &holds, &position, &status,
		&attempts,
	}, func() error {
		due = append(due, campaign)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(due, ", "); got != "due, on its way" {
		t.Errorf("these are due: %s", got)
	}
}
