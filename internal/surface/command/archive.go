package command

import (
	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// archiveCommand opens the archive.
func archiveCommand(env *cli.Env) extra {
	var set *config.Set
	where := config.Archive{Kinds: env.Archives}
	return extra{
		flags: func(flags *pflag.FlagSet) {
			set = config.NewSet(flags)
			config.ArchiveSetting(set, &where)
		},
		acts: func(acts *admin.Acts) (*admin.Acts, error) {
			err := set.Finish()
			if err == nil {
				store, openErr := where.Open()
				acts, err = acts.Storing(store), openErr
			}
			if err != nil {
				return nil, &cli.UsageError{Err: err}
			}
			return acts, nil
		},
	}
}
