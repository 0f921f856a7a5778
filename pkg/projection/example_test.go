package projection_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/given"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

type (
	Placed struct {
		Customer string
		Total    int
	}
	Line struct {
		Article string
		Amount  int
	}
	Order struct {
		Customer string
		Total    int
		Lines    map[string]int
	}
)

const (
	OrderPlaced    event.Type[Placed]   = "order_placed"
	LineAdded      event.Type[Line]     = "line_added"
	OrderPaid      event.Type[struct{}] = "order_paid"
	OrderCancelled event.Type[struct{}] = "order_cancelled"
	PaymentOverdue event.Type[struct{}] = "payment_overdue"
)

// A document for each campaign, here for each order.
func ExampleDocument() {
	orders := projection.Document[Order]{
		Name: "orders", Version: 1,
		On: event.Folds[Order]{
			event.On(OrderPlaced, func(o *Order, _ event.Event, p Placed) error {
				o.Customer, o.Total = p.Customer, p.Total
				return nil
			}),
			event.On(OrderCancelled, func(*Order, event.Event, struct{}) error {
				return event.Delete
			}),
		},
	}

	var j given.Journal
	j.Append("order-1", OrderPlaced.New(Placed{"Ann", 300}))
	j.Append("order-2", OrderPlaced.New(Placed{"Bo", 20}), OrderCancelled.New(struct{}{}))
	docs, err := given.Documents(orders, j.Events())
	fmt.Println(docs, err)
	// Output: map[{order-1 }:{Ann 300 map[]}] <nil>
}

// A document for each article, from the events of all orders.
func ExampleDocument_acrossCampaigns() {
	demand := projection.Document[int]{
		Name: "demand", Version: 1, Scope: projection.ScopeJournal, Partitions: 4,
		Key: func(e event.Event) (string, error) {
			line, err := LineAdded.Decode(e)
			return line.Article, err
		},
		On: event.Folds[int]{
			event.On(LineAdded, func(n *int, _ event.Event, line Line) error {
				*n += line.Amount
				return nil
			}),
		},
	}

	var j given.Journal
	j.Append("order-1", LineAdded.New(Line{"tea", 2}))
	j.Append("order-2", LineAdded.New(Line{"cups", 6}), LineAdded.New(Line{"tea", 1}))
	docs, err := given.Documents(demand, j.Events())
	fmt.Println(docs[given.Key{Key: "tea"}], docs[given.Key{Key: "cups"}], err)
	// Output: 3 6 <nil>
}

// An order changes the stock of each of its articles, by its own amount. Here a campaign is a shop.
func ExampleOnKey() {
	type Sold map[string]int // amounts by article
	const OrderPlaced event.Type[Sold] = "order_placed"

	stock := projection.Document[int]{
		Name: "stock", Version: 1,
		Keys: func(e event.Event) ([]string, error) {
			sold, err := OrderPlaced.Decode(e)
			return slices.Collect(maps.Keys(sold)), err
		},
		On: event.Folds[int]{
			event.OnKey(OrderPlaced, func(left *int, article string, _ event.Event, sold Sold) error {
				*left -= sold[article]
				return nil
			}),
		},
	}

	var j given.Journal
	j.Append("shop-1", OrderPlaced.New(Sold{"tea": 2, "cups": 6, "pots": 1}), OrderPlaced.New(Sold{"tea": 1}))
	docs, err := given.Documents(stock, j.Events())
	for _, article := range []string{"tea", "cups", "pots"} {
		fmt.Println(article, docs[given.Key{Campaign: "shop-1", Key: article}])
	}
	fmt.Println(err)
	// Output:
	// tea -3
	// cups -6
	// pots -1
	// <nil>
}

// A function for an event type gets the payload decoded.
func ExampleOn() {
	add := event.On(LineAdded, func(o *Order, _ event.Event, line Line) error {
		if o.Lines == nil {
			o.Lines = map[string]int{}
		}
		o.Lines[line.Article] += line.Amount
		return nil
	})
	orders := projection.Document[Order]{Name: "orders", Version: 1, On: event.Folds[Order]{add}}

	var j given.Journal
	j.Append("order-1", LineAdded.New(Line{"tea", 2}), LineAdded.New(Line{"tea", 1}))
	docs, err := given.Documents(orders, j.Events())
	fmt.Println(docs[given.Key{Campaign: "order-1"}].Lines, err)
	// Output: map[tea:3] <nil>
}

// Handlers write to tables of their own.
func ExampleHandlers() {
	lines := projection.Handlers{
		Name: "lines", Version: 1,
		Tables: `CREATE TABLE lines (campaign_id text, seq bigint, article text, amount int,
			PRIMARY KEY (campaign_id, seq))`,
		On: []projection.Handler{
			projection.Handle(LineAdded, func(_ context.Context, g *projection.Group, e event.Event, line Line) error {
				g.Queue("INSERT INTO lines VALUES ($1, $2, $3, $4)", e.CampaignID, e.Seq, line.Article, line.Amount)
				return nil
			}),
		},
	}

	var j given.Journal
	j.Append("order-1", LineAdded.New(Line{"tea", 2}))
	statements, err := given.Statements(lines, j.Events())
	fmt.Println(statements[0].SQL, statements[0].Args, err)
	// Output: INSERT INTO lines VALUES ($1, $2, $3, $4) [order-1 1 tea 2] <nil>
}

// A handler that has to know a result uses the transaction, which costs a round trip.
func ExampleHandle() {
	first := projection.Handle(OrderPlaced, func(ctx context.Context, g *projection.Group, _ event.Event, p Placed) error {
		tx, err := g.Tx(ctx)
		if err != nil {
			return err
		}
		var known bool
		err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM customers WHERE name = $1)", p.Customer).Scan(&known)
		if err == nil && !known {
			g.Queue("INSERT INTO customers (name) VALUES ($1)", p.Customer)
		}
		return err
	})
	customers := projection.Handlers{Name: "customers", Version: 1, On: []projection.Handler{first}}
	fmt.Println(customers.Spec().Types)
	// Output: [order_placed]
}

// A process sets a timer when an order is placed, and cancels it when the order is paid. A timer may fire all the
// same, just before it is cancelled, so what it appends is no decision yet: the process then looks at the state.
func ExampleProcess() {
	deadline := projection.Process[bool]{
		Name: "payment_deadline", Version: 1,
		Key: func(e event.Event) (string, error) { return e.CampaignID, nil },
		On: event.Folds[bool]{
			event.On(OrderPaid, func(paid *bool, _ event.Event, _ struct{}) error {
				*paid = true
				return nil
			}),
		},
		React: []projection.Reaction[bool]{
			projection.React(OrderPlaced, func(_ *bool, e event.Event, _ Placed) ([]projection.Do, error) {
				overdue := []event.Event{PaymentOverdue.New(struct{}{})}
				return []projection.Do{{Events: overdue, Timer: "payment", At: e.RecordedAt.Add(72 * time.Hour)}}, nil
			}),
			projection.React(OrderPaid, func(*bool, event.Event, struct{}) ([]projection.Do, error) {
				return []projection.Do{{Timer: "payment", Cancel: true}}, nil
			}),
			projection.React(PaymentOverdue, func(paid *bool, _ event.Event, _ struct{}) ([]projection.Do, error) {
				if *paid {
					return nil, nil
				}
				return []projection.Do{{Events: []event.Event{OrderCancelled.New(struct{}{})}}}, nil
			}),
		},
	}

	var j given.Journal
	j.Append("order-1", OrderPlaced.New(Placed{"Ann", 300}), OrderPaid.New(struct{}{}), PaymentOverdue.New(struct{}{}))
	j.Append("order-2", OrderPlaced.New(Placed{"Bo", 20}), PaymentOverdue.New(struct{}{}))
	todo, states, err := given.Reactions(deadline, j.Events())
	for _, do := range todo {
		if do.Cancel {
			fmt.Println("cancel the timer", do.Timer)
		}
		for _, e := range do.Events {
			fmt.Println(do.Campaign, e.Type, do.At.Format(time.DateOnly))
		}
	}
	fmt.Println(states["order-1"], err)
	// Output:
	// order-1 payment_overdue 2026-01-04
	// cancel the timer payment
	// order-2 payment_overdue 2026-01-04
	// order-2 order_cancelled 0001-01-01
	// true <nil>
}

// No attempt helps where the order does not exist.
func ExamplePermanent() {
	err := projection.Permanent(errors.New("no such order"))
	fmt.Println(projection.Classify(err), projection.Classify(errors.New("timeout of a service")))
	// Output: permanent transient
}

// Fields that are zero come from the next wider policy.
func ExamplePolicy() {
	patient := projection.Policy{Attempts: 20, Max: time.Hour}
	whole := patient.Or(projection.DefaultPolicy())
	fmt.Println(whole.Action, whole.Attempts, whole.Base, whole.Max, whole.Validate())
	// Output: retry 20 1s 1h0m0s <nil>
}
