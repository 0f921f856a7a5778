package payload_test

import (
	"encoding/json"
	"testing"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
)

func TestShow(t *testing.T) {
	t.Parallel()
	const document = `{"card":{"number":"4111","n":12345678901234567890},"email":"a@b","items":[{"price":1,"email":"x"},{"price":2}],"deep":[[{"email":{"a":1}}]]}`
	for paths, want := range map[string]string{
		"":                    document,
		"$.card.number":       `{"card":{"n":12345678901234567890,"number":"…"},"deep":[[{"email":{"a":1}}]],"email":"a@b","items":[{"email":"x","price":1},{"price":2}]}`,
		"$..email":            `{"card":{"n":12345678901234567890,"number":"4111"},"deep":[[{"email":"…"}]],"email":"…","items":[{"email":"…","price":1},{"price":2}]}`,
		"$.items[*].price":    `{"card":{"n":12345678901234567890,"number":"4111"},"deep":[[{"email":{"a":1}}]],"email":"a@b","items":[{"email":"x","price":"…"},{"price":"…"}]}`,
		"$.items[1], $.card":  `{"card":"…","deep":[[{"email":{"a":1}}]],"email":"a@b","items":[{"email":"x","price":1},"…"]}`,
		"$.*":                 `{"card":"…","deep":"…","email":"…","items":"…"}`,
		"$.nothing.at[3].all": `{"card":{"n":12345678901234567890,"number":"4111"},"deep":[[{"email":{"a":1}}]],"email":"a@b","items":[{"email":"x","price":1},{"price":2}]}`,
	} {
		redact, err := payload.ParsePaths(paths)
		if err != nil {
			t.Fatal(err)
		}
		rule := payload.Rule{Least: auth.Operator, Redact: redact}
		if got := string(rule.Show(auth.Identity{Role: auth.Operator}, json.RawMessage(document))); got != want {
			t.Errorf("with %q an operator sees\n%s, want\n%s", paths, got, want)
		}
		if got := rule.Show(auth.Identity{Role: auth.Viewer}, json.RawMessage(document)); got != nil {
			t.Errorf("a viewer sees %s", got)
		}
	}
	for _, path := range []string{"card", "$", "$.", "$.a[", "$.a[x]", "$.a[-1]", "$...", "$a"} {
		if _, err := payload.ParsePath(path); err == nil {
			t.Errorf("path %q is taken", path)
		}
	}
}
