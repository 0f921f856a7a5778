package command

import (
	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
)

// keysCommand reads the wrapping keys.
func keysCommand() extra {
	var keys config.WrappingKeys
	var set *config.Set
	return extra{
		flags: func(flags *pflag.FlagSet) {
			set = config.NewSet(flags)
			config.WrappingKeySettings(set, &keys)
		},
		acts: func(acts *admin.Acts) (*admin.Acts, error) {
			if err := set.Finish(); err != nil {
				return nil, &cli.UsageError{Err: err}
			}
			sealer, err := keys.Sealer()
			switch {
			case err != nil:
				return nil, &cli.UsageError{Err: err}
			case sealer == nil:
				return nil, cli.Usagef("with which keys? Name their file with --wrapping-keys or TIDEMARK_WRAPPING_KEYS")
			}
			return acts.Reading((*catalogue.Catalogue)(nil).Sealed(sealer)), nil
		},
	}
}
