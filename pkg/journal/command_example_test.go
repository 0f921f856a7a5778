package journal_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// order is what a customer asks for.
type order struct {
	Article  string `json:"article"`
	Quantity int    `json:"quantity"`
}

const (
	Delivered event.Type[order] = "delivered"
	Ordered   event.Type[order] = "ordered"
)

// stock changes the number of articles that are left.
func stock() event.Folds[int] {
	return event.Folds[int]{
		event.On(Delivered, func(left *int, _ event.Event, o order) error {
			*left += o.Quantity
			return nil
		}),
		event.On(Ordered, func(left *int, _ event.Event, o order) error {
			*left -= o.Quantity
			return nil
		}),
	}
}

var errSold = errors.New("there are not so many left")

// placeOrder orders an article, if there are enough. The stock follows from the events of all campaigns that have
// the article's tag.
func placeOrder(ctx context.Context, pool *pgxpool.Pool, c journal.Command, o order) (journal.Outcome, error) {
	return journal.Journal{}.Do(ctx, pool, c, func(ctx context.Context, tx pgx.Tx) (journal.Decision, error) {
		article := []string{"article=" + o.Article}
		left, condition, err := journal.Decide(ctx, tx, event.Tagged(article, stock().Types()...), stock().Fold)
		if err != nil || left < o.Quantity {
			return journal.Decision{}, cmp.Or(err, errSold)
		}
		ordered := Ordered.New(o)
		ordered.Tags = article
		return journal.Decision{Events: []event.Event{ordered}, Condition: &condition}, nil
	})
}

// Two orders want the last article: one gets it, and gets it once. Each order is a campaign of its own.
func ExampleJournal_Do() {
	if err := pgtest.Example(func(ctx context.Context, pool *pgxpool.Pool) error {
		_, err := journal.Journal{}.Commit(ctx, pool, journal.Batch{CampaignID: "warehouse", Events: []event.Event{
			{Type: "delivered", Tags: []string{"article=tea"}, Payload: json.RawMessage(`{"article": "tea", "quantity": 1}`)},
		}})
		if err != nil {
			return err
		}
		tea, ann, bob := order{"tea", 1}, uuid.New(), uuid.New()
		for _, id := range []uuid.UUID{ann, bob, ann} {
			out, err := placeOrder(ctx, pool, journal.Command{CampaignID: "order-" + id.String(), ID: id}, tea)
			fmt.Println(len(out.Places), out.Repeated, err)
		}
		return nil
	}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1 false <nil>
	// 0 false there are not so many left
	// 1 true <nil>
}
