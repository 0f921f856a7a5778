package inbox_test

import (
	"context"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/inbox"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	sink "github.com/tidemark-go/tidemark/pkg/sink/webhook"
	"github.com/tidemark-go/tidemark/pkg/webhook"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestAnAppendOfAWebhookHandlerNamesItsCause sends events through the webhook sink to a handler
// that appends an event of its own.
func TestAnAppendOfAWebhookHandlerNamesItsCause(t *testing.T) {
	t.Parallel()
	first := event.Event{CampaignID: "order 7%", ID: uuid.MustParse("0190b1f4-0000-7000-8000-000000000001")}
	for _, c := range []struct{ name, metadata, correlation string }{
		{"the first event of a chain", `{}`, first.Identity()},
		{"an event that follows from another", `{"correlation_id": "` + first.Identity() + `"}`, first.Identity()},
		{"a correlation of the sender's own", `{"correlation_id": "50 % of request 9"}`, "50 % of request 9"},
		{"a correlation that is too long", `{"correlation_id": "` + strings.Repeat("x", 301) + `"}`, first.Identity()},
	} {
		for _, format := range []publisher.Format{
			publisher.FormatEnvelope, publisher.FormatRaw, publisher.FormatCloudEvents,
		} {
			t.Run(c.name+", "+string(format), func(t *testing.T) {
				t.Parallel()
				pool, secret := pgtest.New(t), webhook.NewSecret()
				h, err := inbox.Webhook(inbox.WebhookConfig{DB: pool, Consumer: "invoices", Secrets: []webhook.Secret{secret}},
					func(ctx context.Context, tx pgx.Tx, _ inbox.Delivery) error {
						_, err := journal.Journal{}.Append(ctx, tx, "invoice-7", journal.Any, event.Event{Type: "invoice_sent"})
						return err
					})
				if err != nil {
					t.Fatal(err)
				}
				server := httptest.NewServer(h)
				defer server.Close()
				s, err := sink.New(sink.Config{
					URL: server.URL, Secrets: []webhook.Secret{secret}, Encoder: publisher.Encoder{Format: format},
					AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
				})
				if err != nil {
					t.Fatal(err)
				}
				sent := first
				sent.Type, sent.Seq, sent.Payload, sent.Metadata = "order_placed", 1, []byte(`{}`), []byte(c.metadata)
				if err := s.Publish(t.Context(), []publisher.Event{{Event: sent}}); err != nil {
					t.Fatal(err)
				}
				got, err := journal.Get(t.Context(), pool, "invoice-7", 1)
				if err != nil {
					t.Fatal(err)
				}
				if got.CausationID() != first.Identity() || got.CorrelationID() != c.correlation {
					t.Errorf("cause %q, correlation %q: want %q, %q", got.CausationID(), got.CorrelationID(), first.Identity(),
						c.correlation)
				}
			})
		}
	}
}
