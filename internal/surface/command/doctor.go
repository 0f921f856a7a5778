package command

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

func newDoctor(env *cli.Env) *cobra.Command {
	var asJSON, all bool
	var timeout time.Duration
	var outbox config.Outbox
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Check the database, the schema and the settings",
		Long: `Check the database for use with Tidemark: version, schema, recovery, poolers, settings that lose
commits, long and forgotten transactions, vacuum and storage of the hot tables, wraparound, privileges, connections,
abandoned leases, gaps, dead campaigns. It changes nothing, and no query takes longer than --timeout. It also shows the
mode of a worker with the same switches. The exit code is 1 if anything does not work, otherwise 0.`,
		Example: `  tidemark doctor
  tidemark doctor --all
  tidemark doctor --json | jq '.item.findings[] | select(.status != "ok")'`,
		Args: cli.NoArgs,
	}
	flags := command.Flags()
	settings := config.NewSet(flags)
	config.OutboxSwitches(settings, &outbox)
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	flags.BoolVar(&all, "all", false, "list passed checks too")
	flags.DurationVar(&timeout, "timeout", 2*time.Second, "timeout of each query")
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		if timeout < time.Millisecond {
			return cli.Usagef("--timeout %s: at least 1ms", timeout)
		}
		if err := settings.Finish(); err != nil {
			return &cli.UsageError{Err: err}
		}
		mode, err := outbox.Mode()
		if err != nil {
			return &cli.UsageError{Err: err}
		}
		return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
			findings, err := doctor.Run(ctx, pool, doctor.Options{
				Mode: string(mode.Mode), ModeFrom: mode.From,
				Timeout: timeout,
			})
			if err != nil {
				return err
			}
			if err := printFindings(env, findings, all, asJSON); err != nil {
				return err
			}
			if doctor.Worst(findings) == doctor.Fail {
				return cli.Exitf(cli.ExitFailed, "something does not work: see the findings marked fail")
			}
			return nil
		})
	}
	return command
}

func printFindings(env *cli.Env, findings []doctor.Finding, all, asJSON bool) error {
	if asJSON {
		return env.PrintJSON(document.One(document.Found{Worst: doctor.Worst(findings), Findings: findings}))
	}
	tones := map[doctor.Status]table.Tone{doctor.OK: table.Faint, doctor.Warn: table.Warning, doctor.Fail: table.Alarm}
	var rows [][]table.Cell
	well := 0
	for _, f := range findings {
		if f.Status == doctor.OK && !all {
			well++
			continue
		}
		rows = append(rows, table.Row(table.Toned(string(f.Status), tones[f.Status]), f.Check, f.Detail))
	}
	if len(rows) > 0 {
		if err := env.PrintTable([]string{"STATUS", "CHECK", "FINDING"}, rows); err != nil {
			return err
		}
	}
	for _, f := range findings {
		if f.Remedy != "" && f.Status != doctor.OK {
			env.Note("%s: %s", f.Check, f.Remedy)
		}
	}
	if well > 0 {
		env.Note("%d checks found nothing wrong; --all lists them.", well)
	}
	return nil
}
