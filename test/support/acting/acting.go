// Package acting does acts of operators by their names, as the command line, the API and the pages do.
package acting

import (
	"context"
	"strings"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator/acts"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
)

// Do does the act that has a name with parameters, each as name=value; one of them may be there several times.
func Do(
	ctx context.Context, db *admin.Acts, by admin.Request, name string, params ...string,
) (*admin.Outcome, error) {
	given := map[string][]string{}
	for _, p := range params {
		param, value, _ := strings.Cut(p, "=")
		given[param] = append(given[param], value)
	}
	act, ok := acts.Named(name)
	if !ok {
		panic("no act " + name)
	}
	in, err := act.Input(func(param string) ([]string, bool) { values, ok := given[param]; return values, ok })
	if err != nil {
		return nil, err
	}
	return act.Do(ctx, db, by, in)
}

// Sealed returns an event catalogue with a wrapping key.
func Sealed() *catalogue.Catalogue {
	wrappers, err := catalogue.ParseWrappingKeys("a:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	if err != nil {
		panic(err)
	}
	sealer, err := catalogue.NewSealer(wrappers...)
	if err != nil {
		panic(err)
	}
	return (*catalogue.Catalogue)(nil).Sealed(sealer)
}
