package projection_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/given"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// sold is amounts by article.
type sold map[string]int

const ordered event.Type[sold] = "ordered"

// stock has a document for each article, which knows its amount and its key.
func stock(keys func(sold) []string) projection.Document[string] {
	return projection.Document[string]{
		Name: "stock", Version: 1,
		Keys: func(e event.Event) ([]string, error) {
			articles, err := ordered.Decode(e)
			return keys(articles), err
		},
		On: event.Folds[string]{
			event.OnKey(ordered, func(doc *string, article string, _ event.Event, s sold) error {
				if s[article] < 0 {
					return event.Delete
				}
				*doc = strings.TrimSpace(fmt.Sprint(*doc, " ", article, s[article]))
				return nil
			}),
		},
	}
}

func articles(s sold) []string { return slices.Collect(maps.Keys(s)) }

func TestAnEventIsFoldedOnceForEachOfItsKeys(t *testing.T) {
	t.Parallel()
	var j given.Journal
	j.Append("a", ordered.New(sold{"tea": 2, "cups": 6}), ordered.New(sold{}), ordered.New(sold{"tea": 1, "pots": 3}))
	j.Append("b", ordered.New(sold{"tea": 5}), ordered.New(sold{"tea": -1, "cups": 4}))
	d := stock(articles)
	docs, err := given.Documents(d, j.Events())
	if want := (map[given.Key]string{
		{Campaign: "a", Key: "tea"}: "tea2 tea1", {Campaign: "a", Key: "cups"}: "cups6", {Campaign: "a", Key: "pots"}: "pots3",
		{Campaign: "b", Key: "cups"}: "cups4",
	}); err != nil || !maps.Equal(docs, want) {
		t.Errorf("within a campaign: %v, %v", docs, err)
	}
	d.Scope = projection.ScopeJournal
	docs, err = given.Documents(d, j.Events())
	if want := (map[given.Key]string{{Key: "cups"}: "cups6 cups4", {Key: "pots"}: "pots3"}); err != nil || !maps.Equal(docs, want) {
		t.Errorf("across campaigns: %v, %v", docs, err)
	}
}

func TestADocumentOfOneKeyLearnsItToo(t *testing.T) {
	t.Parallel()
	fold := event.OnKey(placed, func(doc *string, key string, _ event.Event, _ order) error {
		*doc = key
		return nil
	})
	d := projection.Document[string]{Name: "p", Version: 1, On: event.Folds[string]{fold}}
	var j given.Journal
	j.Append("a", placed.New(order{}))
	docs, err := given.Documents(d, j.Events())
	if docs[given.Key{Campaign: "a"}] != projection.AllKeys || err != nil {
		t.Errorf("without a key: %q, %v", docs, err)
	}
	d.Key = func(e event.Event) (string, error) { return "of " + e.CampaignID, nil }
	docs, err = given.Documents(d, j.Events())
	if docs[given.Key{Campaign: "a", Key: "of a"}] != "of a" || err != nil {
		t.Errorf("with a key: %q, %v", docs, err)
	}
}

// keysOf returns so many keys.
func keysOf(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprint("k", i))
	}
	return keys
}

func TestKeysThatCannotBeUsedAreAPermanentFailureOfTheEvent(t *testing.T) {
	t.Parallel()
	var j given.Journal
	j.Append("a", ordered.New(sold{}))
	long := strings.Repeat("é", 512)
	for want, keys := range map[string][]string{
		"the event has 65 keys, the limit is 64: have it change fewer documents": keysOf(65),
		"key 2 of 3 is empty: leave it out":                                      {"tea", "", "cups"},
		`the key "tea" is there twice: return each key once`:                     {"tea", "cups", "tea"},
		"… (1025 bytes) is longer than 1024 bytes: use a shorter one":            {"tea", long + "!"},
		`the key "-" stands for all keys: use another one`:                       {"-"},
		`the key "a\x00" holds a NUL character`:                                  {"a\x00"},
		`the key "\xff" is not valid UTF-8`:                                      {"\xff"},
	} {
		_, err := given.Documents(stock(func(sold) []string { return keys }), j.Events())
		if err == nil || !strings.Contains(err.Error(), "the Keys of projection stock: ") ||
			!strings.Contains(err.Error(), want) || projection.Classify(err) != projection.ClassPermanent {
			t.Errorf("%v: want %s", err, want)
		}
	}
	for _, keys := range [][]string{nil, {}, {long}, keysOf(64)} {
		if docs, err := given.Documents(stock(func(sold) []string { return keys }), j.Events()); err != nil || len(docs) != len(keys) {
			t.Errorf("%d keys: %v", len(keys), err)
		}
	}
	own := errors.New("no article")
	d := stock(articles)
	d.Keys = func(event.Event) ([]string, error) { return []string{"tea"}, own }
	if docs, err := given.Documents(d, j.Events()); !errors.Is(err, own) || len(docs) > 0 {
		t.Errorf("an error of Keys: %v, %v", docs, err)
	}
}
