package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// similarCampaigns is how many ids are named where there is no such campaign.
const similarCampaigns = 5

func newCampaignShow(env *cli.Env) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:     "show CAMPAIGN",
		Short:   "Show how it stands with one campaign: head, checkpoints, leases, what is behind, pauses, the last failures",
		Example: `  tidemark campaign show oak`,
		Args:    oneName("campaign"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				head, err := journal.Last(ctx, pool, args[0])
				if errors.Is(err, journal.ErrNotFound) {
					return noSuchCampaign(ctx, pool, args[0])
				}
				if err != nil {
					return err
				}
				campaign, err := operator.ReadCampaign(ctx, pool, head)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(operator.One(campaign))
				}
				return printCampaign(env, campaign)
			})
		},
	}
	command.ValidArgsFunction = env.CompleteOne(campaignIDs)
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

// noSuchCampaign says that no event has ever been appended to it, and which ids begin most like it.
func noSuchCampaign(ctx context.Context, pool *pgxpool.Pool, campaignID string) error {
	err := fmt.Errorf("no campaign %q: it has no event; ids are told apart to the letter", campaignID)
	for prefix := []rune(campaignID); ; prefix = prefix[:len(prefix)/2] {
		near, failure := feed.Campaigns(ctx, pool, string(prefix), similarCampaigns)
		switch {
		case failure != nil:
			return errors.Join(err, failure)
		case len(near) > 0:
			return cli.Hint(fmt.Errorf("%w; there are %s", err, strings.Join(near, ", ")), "tidemark campaign show %s",
				cli.Quote(near[0]))
		case len(prefix) == 0:
			return fmt.Errorf("%w; the journal has no event at all", err)
		}
	}
}

func printCampaign(env *cli.Env, d *operator.Campaign) error {
	page := &cli.Page{Env: env}
	page.Facts(
		cli.Fact{Name: "campaign", Value: d.CampaignID},
		cli.Fact{Name: "head", Value: fmt.Sprintf("event %d, %s, recorded %s, position %d", d.Head.Seq, d.Head.Type,
			cli.Stamp(&d.Head.RecordedAt), d.Head.Position)},
	)
	if len(d.Groups) > 0 {
		var rows [][]cli.Cell
		for _, s := range d.Groups {
			rows = append(rows, []cli.Cell{
				cli.Text(s.Group), cli.Number(s.Checkpoint, cli.Plain),
				cli.Number(s.Behind, cli.Warning), leaseCell(s.Place),
			})
		}
		page.Heading("Consumer groups")
		page.Table([]string{"GROUP", "CHECKPOINT", "BEHIND", "LEASE"}, rows)
	}
	operator.Section(page, "Projections that are behind", "listFailed", d.Deferred)
	operator.Section(page, "Paused", "listPauses", d.Pauses)
	operator.Section(page, "Left out", "listResolutions", d.Resolutions)
	operator.Section(page, "Log", "listFailedLog", d.History)
	return page.Err()
}

func leaseCell(l lease.Place) cli.Cell {
	switch {
	case l.Generation == 0:
		return cli.Cell{Text: "never claimed", Tone: cli.Faint}
	case !l.Held && l.ExpiresAt == nil:
		return cli.Cell{Text: fmt.Sprintf("free, generation %d", l.Generation), Tone: cli.Faint}
	}
	owner := l.Owner
	if l.Host != "" {
		owner += fmt.Sprintf(" (%s, pid %d)", l.Host, l.PID)
	}
	switch {
	case !l.Held:
		return cli.Cell{
			Text: fmt.Sprintf("expired %s, was %s, generation %d", cli.Stamp(l.ExpiresAt), owner, l.Generation),
			Tone: cli.Warning,
		}
	case l.ExpiresAt == nil:
		return cli.Text(fmt.Sprintf("%s, generation %d", owner, l.Generation))
	default:
		return cli.Text(fmt.Sprintf("%s, generation %d, until %s", owner, l.Generation, cli.Stamp(l.ExpiresAt)))
	}
}
