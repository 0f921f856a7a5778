package catalogue_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// useSealed holds a snippet of docs/guides/sealing.md.
func useSealed(types *catalogue.Catalogue, text string, use func(*catalogue.Catalogue, *catalogue.Sealer) error) error {
	wrappers, err := catalogue.ParseWrappingKeys(text)
	if err != nil {
		return err
	}
	sealer, err := catalogue.NewSealer(wrappers...)
	if err != nil {
		return err
	}
	types = types.Sealed(sealer)
	return use(types, sealer)
}

func TestTheSealerOfTheDocs(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	if err := useSealed(sealedCatalogue(t, nil), wrappingKey, func(c *catalogue.Catalogue, s *catalogue.Sealer) error {
		return v.within(func(tx pgx.Tx) error {
			if _, err := (journal.Journal{Catalogue: c}).Append(t.Context(), tx, "shop", journal.Any, ordered("ann", 1)); err != nil {
				return err
			}
			e, err := journal.Last(t.Context(), s.Reading(tx), "shop")
			if !sameJSON(t, e.Payload, ordered("ann", 1).Payload) {
				t.Errorf("read %s", e.Payload)
			}
			return err
		})
	}); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "2025", "2025:c2hvcnQ=", "# 2025:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="} {
		if _, err := catalogue.ParseWrappingKeys(text); err == nil {
			t.Errorf("%q has a key", text)
		}
	}
	if _, err := catalogue.NewSealer(); err == nil {
		t.Error("a sealer without keys")
	}
}
