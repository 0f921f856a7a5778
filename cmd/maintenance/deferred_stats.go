package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/cli"
	"github.com/tidemark-go/tidemark/pkg/deferred"
)

// statsVersion changes when a field goes or changes its meaning.
const statsVersion = 1

type statsJSON struct {
	Version      int         `json:"version"`
	At           time.Time   `json:"at"`
	Failed       int64       `json:"failed"`
	Dead         int64       `json:"dead"`
	Rebuilding   int64       `json:"rebuilding"`
	More         bool        `json:"more"` // true: there are more than were looked at
	Projections  []tallyJSON `json:"projections"`
	EventTypes   []tallyJSON `json:"event_types"`
	Classes      []tallyJSON `json:"classes"`
	Fingerprints []tallyJSON `json:"fingerprints"`
	Oldest       *pairJSON   `json:"oldest"` // null: none has failed
	Growth       growthJSON  `json:"growth"`
}

type tallyJSON struct {
	Value         *string    `json:"value"` // null: unknown
	Pairs         int64      `json:"pairs"`
	FirstFailedAt *time.Time `json:"first_failed_at"`
	LastFailedAt  *time.Time `json:"last_failed_at"`
	Sample        *string    `json:"sample,omitempty"` // of fingerprints: the message of one of them
}

// growthJSON counts failed attempts.
type growthJSON struct {
	LastHour   int64 `json:"last_hour"`
	HourBefore int64 `json:"hour_before"`
	LastDay    int64 `json:"last_day"`
	DayBefore  int64 `json:"day_before"`
}

func newDeferredStats(env *cli.Env) *cobra.Command {
	var (
		filter pairFilter
		asJSON bool
	)
	command := &cobra.Command{
		Use:   "stats",
		Short: "Sum up failures by projection, event type, class and message, with the oldest and the growth",
		Long: `Sum up the pairs that failed or are dead, or those that the flags choose: by projection, event type, class, and by fingerprint, which is the same for messages
that differ in numbers and names alone. The growth counts failed attempts, of pairs that have since recovered as well.`,
		Example: `  maintenance deferred stats
  maintenance deferred stats --projection scores --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := filter.finish(false); err != nil {
				return err
			}
			return filter.withPool(cmd.Context(), env, func(ctx context.Context, pool *pgxpool.Pool) error {
				stats, err := deferred.Stats(ctx, pool, filter.Filter)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(statsDocument(stats))
				}
				return printStats(env, stats)
			})
		},
	}
	filter.bind(env, command, false)
	flags := command.Flags()
	flags.Lookup("limit").Usage = "look at so many pairs at most; 0: 100,000"
	flags.Lookup("limit").DefValue = "0"
	filter.Limit = 0
	flags.Lookup("status").Usage = "only pairs with this status: failed, dead, rebuilding; may be given several times (default failed and dead)"
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

func statsDocument(s *deferred.Statistics) statsJSON {
	document := statsJSON{
		Version: statsVersion, At: s.At.UTC(), Failed: s.Failed, Dead: s.Dead, Rebuilding: s.Rebuilding, More: s.More,
		Projections: tallyDocuments(s.Projections), EventTypes: tallyDocuments(s.EventTypes), Classes: tallyDocuments(s.Classes), Fingerprints: tallyDocuments(s.Fingerprints),
		Growth: growthJSON(s.Growth),
	}
	if s.Oldest != nil {
		oldest := pairDocument(*s.Oldest)
		document.Oldest = &oldest
	}
	return document
}

func tallyDocuments(tallies []deferred.Tally) []tallyJSON {
	documents := []tallyJSON{}
	for _, t := range tallies {
		documents = append(documents, tallyJSON{
			Value: present(t.Value), Pairs: t.Pairs, FirstFailedAt: utc(t.FirstFailedAt), LastFailedAt: utc(t.LastFailedAt), Sample: present(t.Sample),
		})
	}
	return documents
}

func printStats(env *cli.Env, s *deferred.Statistics) error {
	if s.Failed+s.Dead+s.Rebuilding == 0 {
		env.Note("No pair has failed, or none that this chooses.")
		return nil
	}
	page := &cli.Page{Env: env}
	totals := fmt.Sprintf("%d failed, %d dead", s.Failed, s.Dead)
	if s.Rebuilding > 0 {
		totals += fmt.Sprintf(", %d rebuilding", s.Rebuilding)
	}
	if s.More {
		totals = "more than looked at (--limit): " + totals
	}
	facts := []cli.Fact{{Name: "pairs", Value: totals}}
	if o := s.Oldest; o != nil {
		facts = append(facts, cli.Fact{Name: "oldest", Value: fmt.Sprintf("%s of campaign %s at event %d, for %s", o.Projection, o.CampaignID, o.NextSeq, cli.Age(s.At.Sub(*o.FirstFailedAt)))})
	}
	facts = append(facts, cli.Fact{Name: "failures", Value: fmt.Sprintf("%d in the last hour (%d in the one before), %d in the last day (%d in the one before)",
		s.Growth.LastHour, s.Growth.HourBefore, s.Growth.LastDay, s.Growth.DayBefore)})
	page.Facts(facts...)
	printTallies(page, "By projection", "PROJECTION", s.Projections)
	printTallies(page, "By event type", "TYPE", s.EventTypes)
	printTallies(page, "By class", "CLASS", s.Classes)
	printTallies(page, "By message", "FINGERPRINT", s.Fingerprints)
	return page.Err()
}

func printTallies(page *cli.Page, heading, column string, tallies []deferred.Tally) {
	if len(tallies) == 0 {
		return
	}
	columns := []string{"PAIRS", "FIRST", "LAST", column}
	sampled := column == "FINGERPRINT"
	if sampled {
		columns = append(columns, "FOR EXAMPLE")
	}
	var rows [][]cli.Cell
	for _, t := range tallies {
		value := t.Value
		if value == "" {
			value = "-"
		}
		row := []cli.Cell{cli.Number(t.Pairs, cli.Plain), cli.Text(stamp(t.FirstFailedAt)), cli.Text(stamp(t.LastFailedAt)), cli.Text(value)}
		if sampled {
			row = append(row, cli.Text(t.Sample))
		}
		rows = append(rows, row)
	}
	page.Heading(heading)
	page.Table(columns, rows)
}
