package command

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newPublisherList(env *cli.Env) *cobra.Command {
	var (
		key    publications.Key
		asJSON bool
	)
	command := &cobra.Command{
		Use:   "list",
		Short: "List pairs of topics and publishers: how far each is, what fails, who holds it",
		Long: `List pairs of topics and publishers: how far each is, what fails, who holds it. EVENTS are those
of the journal behind the pair's position, before the topic's filter; from 10,000 on it is the distance
in positions, and marked with ~. STATUS is FAILING while attempts fail in a row: ERRORS says how many,
WHY since when. AGE is that of the first of them. A pair for which there is nothing to publish writes its
position every few seconds only.`,
		Example: `  tidemark publisher list
  tidemark publisher list --json | jq '.items[] | select(.lag_seconds > 60 or .status != "ACTIVE")'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				list, err := publications.List(ctx, pool, key)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(operator.All(list))
				}
				if len(list) == 0 {
					env.Note("Nothing is published, or nothing that this chooses: a worker that is told what to publish where " +
						"registers its pairs.")
					return nil
				}
				return env.PrintTable(publicationColumns(), publicationRows(list))
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&key.Topic, "topic", "", "only pairs of this topic")
	flags.StringVar(&key.Publisher, "publisher", "", "only pairs of this publisher")
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	cli.CompleteFlag(command, "topic", env.Complete(topicNames))
	cli.CompleteFlag(command, "publisher", env.Complete(publisherNames))
	return command
}

func publicationColumns() []string {
	return []string{
		"STATUS", "TOPIC", "PUBLISHER", "POSITION", "EVENTS", "AGE", "ERRORS", "PARKED", "RETRYING", "HOLDER",
		"WHY",
	}
}

func publicationRows(list []publications.Publication) [][]cli.Cell {
	var rows [][]cli.Cell
	for _, p := range list {
		age := cli.Cell{Text: "-", Tone: cli.Faint, Right: true}
		if p.Behind > 0 {
			age = cli.Cell{Text: cli.Age(p.Lag), Right: true}
		}
		holder := cli.Text(p.Holder)
		if p.Holder == "" {
			holder = cli.Cell{Text: "-", Tone: cli.Faint}
		}
		rows = append(rows, []cli.Cell{
			{Text: publicationState(p), Tone: publicationTone(p)},
			cli.Text(p.Topic), cli.Text(p.Publisher), cli.Number(p.Position, cli.Plain), behind(p), age,
			cli.Number(int64(p.Errors), cli.Warning), parkedCell(p, cli.Alarm), cli.Number(p.Retrying, cli.Warning), holder,
			cli.Text(why(p)),
		})
	}
	return rows
}

// behind is a cell with how many events are behind the position.
func behind(p publications.Publication) cli.Cell {
	cell := cli.Number(p.Behind, cli.Plain)
	if p.Behind > publications.CountedBehind {
		cell.Text = "~" + cell.Text
	}
	return cell
}

// why says what is the matter with a pair, if anything is.
func why(p publications.Publication) string {
	switch {
	case p.Status == "PAUSED":
		text := p.Reason
		if p.Actor != "" {
			text = fmt.Sprintf("by %s", p.Actor)
			if p.PausedUntil != nil {
				text += " until " + cli.Stamp(p.PausedUntil)
			}
			if p.Reason != "" {
				text += ": " + p.Reason
			}
		}
		return text
	case p.Status == "FAILED" && p.Reason != "":
		return p.Reason
	case p.Failing() && p.FailingSince != nil:
		return fmt.Sprintf("since %s: %s", cli.Stamp(p.FailingSince), p.LastError)
	case p.Errors > 0:
		return p.LastError
	}
	return ""
}

// publicationState is the status, and FAILING for one that is to go on while its sink fails.
func publicationState(p publications.Publication) string {
	if p.Failing() {
		return "FAILING"
	}
	return p.Status
}

// parkedCell is a cell with how many events are parked.
func parkedCell(p publications.Publication, tone cli.Tone) cli.Cell {
	cell := cli.Number(p.Parked, tone)
	if p.ManyParked() {
		cell.Text += "+"
	}
	return cell
}

func publicationTone(p publications.Publication) cli.Tone {
	switch publicationState(p) {
	case "PAUSED", "FAILING":
		return cli.Warning
	case "FAILED":
		return cli.Alarm
	default:
		return cli.Plain
	}
}
