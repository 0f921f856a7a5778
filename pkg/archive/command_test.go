package archive_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// TestCommandsOfAnArchivedCampaignAreToldSo repeats a command, and sends another, while the campaign is in
// the archive and after it has come back.
func TestCommandsOfAnArchivedCampaignAreToldSo(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	order := func(context.Context, pgx.Tx) (journal.Decision, error) {
		return journal.Decision{Events: []event.Event{{Type: "ordered"}, {Type: "confirmed"}}}, nil
	}
	c := journal.Command{CampaignID: "oak", ID: uuid.New()}
	var j journal.Journal
	out, err := j.Do(t.Context(), s.Pool, c, order)
	if err != nil {
		t.Fatal(err)
	}
	s.closeCampaigns(0, "oak")
	s.archive(closed)
	other := journal.Command{CampaignID: "oak", ID: uuid.New()}
	for _, c := range []journal.Command{c, other} {
		if got, err := j.Do(t.Context(), s.Pool, c, order); !errors.Is(err, event.ErrArchived) || got.Places != nil {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := archive.Restore(t.Context(), s.Pool, s.store, archive.RestoreRequest{All: true}); err != nil {
		t.Fatal(err)
	}
	if again, err := j.Do(t.Context(), s.Pool, c, order); err != nil || !again.Repeated || again.Token() != out.Token() {
		t.Errorf("%+v, %v", again, err)
	}
	if got, err := j.Do(t.Context(), s.Pool, other, order); err != nil || got.Repeated {
		t.Errorf("%+v, %v", got, err)
	}
}
