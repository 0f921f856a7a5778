package journal_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/pkg/event"
)

func TestAnIdentityIsReadBackAndBelongsToOneEvent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		campaign := rapid.OneOf(rapid.StringN(1, 40, 200), rapid.StringMatching(`[ab/.%2F:~ -]{1,6}`))
		one := event.Event{ID: uuid.New(), CampaignID: campaign.Draw(t, "one")}
		other := event.Event{ID: one.ID, CampaignID: campaign.Draw(t, "other")}
		text := one.Identity()
		if got, id, err := event.ParseIdentity(text); err != nil || got != one.CampaignID || id != one.ID {
			t.Fatalf("%q is read back as %q, %s, %v", text, got, id, err)
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '.' }) {
			t.Fatalf("%q is no webhook-id", text)
		}
		same := one.CampaignID == other.CampaignID
		if (text == other.Identity()) != same || (one.IdentityUUID() == other.IdentityUUID()) != same {
			t.Fatalf("%q and %q have the identities %q and %q, %s and %s", one.CampaignID, other.CampaignID, text,
				other.Identity(), one.IdentityUUID(), other.IdentityUUID())
		}
	})
}

func TestWhatIsNoIdentityIsRefused(t *testing.T) {
	t.Parallel()
	id := uuid.NewString()
	if campaign, got, err := event.ParseIdentity(id); err != nil || campaign != "" || got.String() != id {
		t.Errorf("a UUID alone: %q, %s, %v", campaign, got, err)
	}
	for _, text := range []string{
		"", "/", "oak", id + "/", id + "/a/b", id + "/a b", id + "/a.b", id + "/%", id + "/%41", id + "/" +
			url.PathEscape("ä")[:3] + "%a4",
		strings.ToUpper("0190b5a1-aaaa-7aaa-8aaa-aaaaaaaaaaaa") + "/a", "urn:uuid:" + id, "{" + id + "}/a",
		uuid.Nil.String() + "/a", id + id,
	} {
		if campaign, got, err := event.ParseIdentity(text); err == nil {
			t.Errorf("%q is %q, %s", text, campaign, got)
		}
	}
}
