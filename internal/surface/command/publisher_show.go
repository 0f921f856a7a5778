package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

// publisherShown is how many parked events and acts a page shows.
const publisherShown = 10

func newPublisherShow(env *cli.Env) *cobra.Command {
	var (
		choice pairChoice
		asJSON bool
	)
	command := &cobra.Command{
		Use:     "show PUBLISHER",
		Short:   "Show all that is known of a publisher: its pairs, their last error, what is parked, what operators did",
		Example: `  tidemark publisher show archive`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				list, err := choice.find(ctx, pool, args[0])
				if err != nil {
					return err
				}
				parked, err := publications.ListParked(ctx, pool,
					publications.ParkedFilter{Topic: choice.topic, Publisher: args[0], Limit: publisherShown})
				if err != nil {
					return err
				}
				records, err := publications.Log(ctx, pool, publications.LogFilter{
					Topic: choice.topic, Publisher: args[0],
					Limit: publisherShown,
				})
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(document.One(struct {
						Publications []publications.Publication
						Parked       []publications.Parked
						Log          []publications.Record
					}{list, parked, records}))
				}
				return printPublisher(env, list, parked, records)
			})
		},
	}
	choice.bind(env, command)
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

func printPublisher(
	env *cli.Env, list []publications.Publication, parked []publications.Parked, records []publications.Record,
) error {
	page := env.Page()
	for _, p := range list {
		page.Heading(p.String())
		page.Facts(publicationFacts(p)...)
	}
	operator.Section(page, "Parked", "listParked", parked)
	operator.Section(page, "Log", "listLog", records)
	return page.Err()
}

func publicationFacts(p publications.Publication) []table.Fact {
	lag := "nothing"
	if p.Behind > 0 {
		lag = fmt.Sprintf("%s, the oldest from %s ago",
			strings.Replace(counted(p.Behind, "event"), fmt.Sprint(p.Behind),
				table.About(p.Behind, p.Estimated(), table.Plain).Text, 1), table.Age(p.Lag))
	}
	holder := p.Holder
	if holder == "" {
		holder = "none"
	}
	facts := []table.Fact{
		{Name: "status", Value: operator.PublisherState(p).Text, Tone: operator.PublisherState(p).Tone},
		{Name: "why", Value: operator.PublisherProblem(p)},
		{Name: "position", Value: fmt.Sprint(p.Position)},
		{Name: "behind", Value: lag},
		{
			Name:  "published",
			Value: fmt.Sprintf("%s, last at %s", counted(p.Published, "event"), table.Stamp(p.LastPublishedAt)),
		},
		{
			Name:  "parked",
			Value: fmt.Sprintf("%s, and %d on their way", operator.ParkedCount(p, table.Plain).Text, p.Retrying),
		},
		{Name: "held by", Value: holder},
	}
	if p.Errors > 0 {
		facts = append(facts,
			table.Fact{Name: "errors", Value: fmt.Sprintf("%d in a row since %s, last at %s, next attempt at %s", p.Errors,
				table.Stamp(p.FailingSince), table.Stamp(p.LastErrorAt), table.Stamp(p.NextAttemptAt))},
			table.Fact{Name: "last error", Value: p.LastError})
	}
	if p.Ghosts > 0 {
		facts = append(facts, table.Fact{
			Name: "ghosts", Tone: table.Warning,
			Value: fmt.Sprintf("%s sent that the journal has no more, found at %s: tidemark publisher ghosts %s",
				counted(p.Ghosts, "event"), table.Stamp(p.GhostsAt), p.Publisher),
		})
	}
	return facts
}
