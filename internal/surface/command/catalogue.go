package command

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
)

type catalogueCheck struct {
	set      *config.Set
	wrapping config.WrappingKeys
	events   int64
	asJSON   bool
}

// newCatalogueCheck returns the command that checks an event catalogue before it is deployed.
func newCatalogueCheck(env *cli.Env) *cobra.Command {
	var o catalogueCheck
	command := &cobra.Command{
		Use:   "check [OLD] NEW",
		Short: "Compare an event catalogue with an older one, or with the events of the journal",
		Long: `Compare an event catalogue, a YAML file, with an older one, or without one with the events of the journal.

Between two catalogues each change is compatible: full (old and new programs read all events), backward
(old programs do not read new events: deploy readers first), forward (new programs do not read all old
events), none, or depends (on the events: check them). It needs no database.

Against the journal, events are brought to their current shape and compared with their schemas:
--events of them, spread over the journal; 0: all. It also lists types of events that the catalogue does
not name, and types without an event among those. Erased events fit. Events with sealed fields are opened
with the wrapping keys, and without them counted.

It ends with 7 if new programs may not read an old event.`,
		Example: `  tidemark catalogue check main/catalogue.yaml catalogue.yaml
  tidemark catalogue check catalogue.yaml --events 100000 --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return cli.Usagef("check which catalogue? Name its file, or an older one and the new one")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.events < 0 {
				return cli.Usagef("--events %d: 0 or more", o.events)
			}
			catalogues := make([]*catalogue.Catalogue, len(args))
			for i, file := range args {
				var err error
				if catalogues[i], err = yamlfile.Load(os.DirFS(filepath.Dir(file)), filepath.Base(file)); err != nil {
					return &cli.UsageError{Err: err}
				}
			}
			if len(args) == 2 {
				return o.compare(env, catalogues[0].Compare(catalogues[1]))
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				err := o.set.Finish()
				var sealing *catalogue.Catalogue
				if err == nil {
					sealing, err = o.wrapping.Seal(catalogues[0])
				}
				if err != nil {
					return &cli.UsageError{Err: err}
				}
				report, err := sealing.Check(ctx, pool, o.events)
				if err != nil {
					return err
				}
				return o.print(env, &report)
			})
		},
	}
	o.set = config.NewSet(command.Flags())
	config.WrappingKeySettings(o.set, &o.wrapping)
	command.Flags().Int64Var(&o.events, "events", 10_000, "about how many events of the journal; 0: all")
	command.Flags().BoolVar(&o.asJSON, "json", false, "write JSON")
	return command
}

func (o *catalogueCheck) compare(env *cli.Env, changes []catalogue.Change) error {
	breaking := 0
	var rows [][]table.Cell
	for _, c := range changes {
		compatible := table.Text(string(c.Compatibility))
		if c.Compatibility != catalogue.CompatibleFull && c.Compatibility != catalogue.CompatibleBackward {
			breaking++
			compatible = table.Toned(string(c.Compatibility), table.Alarm)
		}
		rows = append(rows, table.Row(c.Type, compatible, c.Detail))
	}
	var err error
	switch {
	case o.asJSON:
		err = env.PrintJSON(document.All(changes))
	case len(changes) == 0:
		env.Note("The catalogues say the same.")
	default:
		err = env.PrintTable([]string{"TYPE", "COMPATIBLE", "CHANGE"}, rows)
	}
	if err != nil || breaking == 0 {
		return err
	}
	return cli.Exitf(cli.ExitDifferences, "%s that new programs may not read old events after",
		table.Count(int64(breaking), "change"))
}

func (o *catalogueCheck) print(env *cli.Env, r *catalogue.Report) error {
	var err error
	if o.asJSON {
		err = env.PrintJSON(document.One(*r))
	} else {
		rows := slice.Of(r.Misfits, func(m catalogue.Misfit) []table.Cell {
			return table.Row(m.Type, m.Version, m.CampaignID, m.Seq, m.Detail)
		})
		if len(rows) > 0 {
			err = env.PrintTable([]string{"TYPE", "VERSION", "CAMPAIGN", "SEQ", "WHY"}, rows)
		}
		looked := fmt.Sprintf("%d events", r.Events)
		if r.Whole {
			looked = fmt.Sprintf("all %d events", r.Events)
		}
		env.Note("Looked at %s: %d do not fit the catalogue.", looked, int64(len(r.Misfits))+r.NotShown)
		if r.Erased > 0 {
			env.Note("Erased of these: %d.", r.Erased)
		}
		if r.Sealed > 0 {
			env.Note("Sealed, and not checked: %d. Give the wrapping keys.", r.Sealed)
		}
		for _, name := range slices.Sorted(maps.Keys(r.Unknown)) {
			env.Note("No type of the catalogue: %s, %s.", table.Quote(name), table.Count(r.Unknown[name], "event"))
		}
		if len(r.Unused) > 0 {
			env.Note("No event among them of: %s.", strings.Join(r.Unused, ", "))
		}
	}
	if err != nil || len(r.Misfits) == 0 {
		return err
	}
	return cli.Exitf(cli.ExitDifferences, "%s that the catalogue cannot read, or that its schemas refuse",
		table.Count(int64(len(r.Misfits))+r.NotShown, "event"))
}
