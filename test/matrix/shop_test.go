package matrix_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing/fstest"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

const shopTypes = `types:
  ordered:
    version: 2
    subject: [customer, name]
    personal: [customer, name, email]
    upcast: {1: [{rename: {name: customer}}]}
  booked:
    subject: [customer]
    personal: [customer, email]
  reminded:
    subject: [customer]
    personal: [customer, email]
`

// types is the catalogue of the events.
func types() *catalogue.Catalogue {
	types, err := yamlfile.Load(fstest.MapFS{"c.yaml": {Data: []byte(shopTypes)}}, "c.yaml")
	if err != nil {
		panic(err)
	}
	return types
}

// wrappingKeys by name.
func wrappingKeys(names ...string) string {
	var lines []string
	for _, name := range names {
		lines = append(lines, name+":"+map[string]string{
			"a": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", "b": "YWJjZGVmZ2hpamFiY2RlZmdoaWphYmNkZWZnaGlqMDE=",
		}[name])
	}
	return strings.Join(lines, "\n")
}

func wrapped(names ...string) *catalogue.Sealer {
	wrappers, err := catalogue.ParseWrappingKeys(wrappingKeys(names...))
	if err != nil {
		panic(err)
	}
	sealer, err := catalogue.NewSealer(wrappers...)
	if err != nil {
		panic(err)
	}
	return sealer
}

// planted is an event about a person, as the test remembers it.
type planted struct {
	Campaign, Type, Customer string
	Amount                   int
	Sealed                   bool
}

// payload of the events.
type payload struct {
	Customer string `json:"customer,omitempty"`
	Name     string `json:"name,omitempty"` // in version 1
	Email    string `json:"email,omitempty"`
	Amount   int    `json:"amount,omitempty"`
}

// event returns the event, in its old version if the amount is odd. Unless it is sealed, all that can
// have a text has the person's.
func (p planted) event() event.Event {
	e := event.Event{
		Type: p.Type, ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%+v", p)), Version: 1,
	}
	data := payload{Customer: p.Customer, Email: p.Customer + "@example.com", Amount: p.Amount}
	switch {
	case p.Type == "ordered" && p.Amount%2 == 1:
		data.Customer, data.Name = "", p.Customer
	case p.Type == "ordered":
		e.Version = 2
	}
	if p.Customer == "" {
		data = payload{}
	} else if !p.Sealed {
		e.Actor, e.AggregateType, e.AggregateID = p.Customer, "customer", p.Customer
		e.Tags = []string{"customer=" + p.Customer}
		e.Metadata = fmt.Appendf(nil, `{"by": %q}`, p.Customer)
	}
	e.Payload, _ = json.Marshal(data) // texts and numbers cannot fail
	return e
}

// sums is the document of a campaign, and of a person.
type sums struct {
	Names  []string `json:"names"`
	Amount int      `json:"amount"`
}

var errHeld = errors.New("not now")

// projections are read models of each kind. While held, rebuilds and replays of campaigns of these
// features, and persons of the parked ones who are to be forgotten, fail.
func projections(held *atomic.Bool) []projection.Projection {
	again := projection.Policy{Attempts: 1000, Base: 200 * time.Millisecond, Max: 200 * time.Millisecond}
	fold := func(doc *sums, e event.Event) error {
		o, err := event.Decode[payload](e)
		if o.Customer != "" {
			doc.Names = append(doc.Names, o.Customer)
		}
		doc.Amount += o.Amount
		return err
	}
	inserts := func(name string, scope projection.Scope) projection.Projection {
		return projection.Handlers{
			Name: name, Version: 1, Scope: scope, OnFailure: again,
			Tables: fmt.Sprintf(`CREATE TABLE %s (campaign_id text, seq bigint, customer text, amount int,
				PRIMARY KEY (campaign_id, seq))`, name),
			On: []projection.Handler{
				projection.Handle("ordered", func(_ context.Context, g *projection.Group, e event.Event, o payload) error {
					g.Queue(fmt.Sprintf(`INSERT INTO %s VALUES ($1, $2, $3, $4)`, name), e.CampaignID, e.Seq, o.Customer, o.Amount)
					return nil
				}),
			},
		}
	}
	person := func(e event.Event) (string, error) {
		o, err := event.Decode[payload](e)
		return o.Customer, err
	}
	return []projection.Projection{
		projection.Document[sums]{
			Name: "shops", Version: 1, Types: []string{"ordered"}, OnFailure: again,
			Fold: func(doc *sums, e event.Event) error {
				if held.Load() && (of(e.CampaignID, rebuilding) || of(e.CampaignID, replaying)) {
					return errHeld
				}
				return fold(doc, e)
			},
		},
		projection.Document[sums]{
			Name: "customers", Version: 1, Types: []string{"ordered"}, Scope: projection.ScopeJournal, Partitions: 2,
			Key: person, OnFailure: again,
			Fold: func(doc *sums, e event.Event) error {
				if o, err := event.Decode[payload](e); err == nil && held.Load() && of(e.CampaignID, parked) && gone(o.Customer) {
					return fmt.Errorf("no, %s", o.Email)
				}
				return fold(doc, e)
			},
		},
		inserts("orders", projection.ScopeCampaign),
		inserts("log", projection.ScopeJournal),
		projection.Process[sums]{
			Name: "reminders", Version: 1, Types: []string{"booked"}, Key: person, Fold: fold, OnFailure: again, From: new(int64),
			React: []projection.Reaction[sums]{
				projection.React("booked", func(_ *sums, e event.Event, o payload) ([]projection.Do, error) {
					o.Amount = 0
					data, _ := json.Marshal(o)
					return []projection.Do{{
						Campaign: strings.TrimPrefix(e.CampaignID, "bookings-"), Timer: o.Customer, At: e.RecordedAt.Add(time.Hour),
						Events: []event.Event{{Type: "reminded", Payload: data}},
					}}, nil
				}),
			},
		},
	}
}

// of reports whether a campaign is one of a feature's.
func of(campaign string, f feature) bool { return strings.HasPrefix(campaign, string(f)+"-") }

// gone reports whether a person is to be forgotten.
func gone(person string) bool { return strings.HasPrefix(person, "gone-") }
