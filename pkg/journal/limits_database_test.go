package journal_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestALimitRaisedInGoIsStillTheDatabases(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	j, err := journal.New(journal.Config{Limits: journal.Limits{PayloadBytes: 4 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(map[string]string{"text": strings.Repeat("x", 2<<20)})
	if err != nil {
		t.Fatal(err)
	}
	large := journal.Event{Type: "written", Payload: payload}
	for name, appendLarge := range map[string]func(pgx.Tx) error{
		"Append": func(tx pgx.Tx) error { _, err := j.Append(t.Context(), tx, "c", journal.Any, large); return err },
		"AppendAll": func(tx pgx.Tx) error {
			_, err := j.AppendAll(t.Context(), tx, journal.Batch{CampaignID: "c", Events: []journal.Event{large}})
			return err
		},
	} {
		if err := pgx.BeginFunc(t.Context(), pool, appendLarge); !invalid(err) {
			t.Errorf("%s of 2 MiB, allowed in Go alone: %v, want an InvalidEventError", name, err)
		}
	}
}
