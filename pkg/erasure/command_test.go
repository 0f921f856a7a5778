package erasure_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// TestACommandIsKnownAfterAnErasure repeats commands whose events were erased. Nothing of what they asked is
// left, so their contents are no longer compared.
func TestACommandIsKnownAfterAnErasure(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]erasure.Request{
		"whole":           {Campaign: "shop"},
		"personal fields": {Subjects: []string{"c-17"}, Personal: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shopOf(t, payments)
			c := journal.Command{CampaignID: "shop", ID: uuid.New(), Content: []byte("Planted Ann")}
			j := journal.Journal{Catalogue: s.catalogue}
			pay := func(context.Context, pgx.Tx) (journal.Decision, error) {
				return journal.Decision{Events: []event.Event{
					{Type: "paid", Payload: json.RawMessage(`{"amount": 1, "customer": {"id": "c-17", "name": "Planted Ann"}}`)},
				}}, nil
			}
			out, err := j.Do(t.Context(), s.Pool, c, pay)
			if err != nil {
				t.Fatal(err)
			}
			s.erase(r)
			if left := s.value(`SELECT count(*) FROM tidemark.journal WHERE metadata ? '$command'`); left != "0" {
				t.Errorf("%s hashes of contents are left", left)
			}
			refuse := func(context.Context, pgx.Tx) (journal.Decision, error) {
				return journal.Decision{}, errors.New("it is decided again")
			}
			c.Content = []byte("another")
			if again, err := j.Do(t.Context(), s.Pool, c, refuse); err != nil || again.Token() != out.Token() || !again.Repeated {
				t.Errorf("%+v, %v", again, err)
			}
		})
	}
}
