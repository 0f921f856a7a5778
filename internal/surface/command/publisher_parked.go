package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

const statusParked = "parked"

func newParked(env *cli.Env) *cobra.Command {
	noun := cli.Noun("parked", "See and decide what becomes of events that a sink has refused",
		newView(env, "listParked"), newParkedShow(env), newAct(env, "retryParked", "retryManyParked"),
		newAct(env, "resolveParked", "resolveManyParked"))
	noun.Long = `An event that a sink refuses by itself is tried again (retrying) and then given up
(parked). Its campaign waits behind it, unless the publisher leaves such events out; once it may go on it
is draining: on its way, with nothing against it.`
	return noun
}

func newParkedShow(env *cli.Env) *cobra.Command {
	var (
		filter publications.ParkedFilter
		asJSON bool
	)
	command := &cobra.Command{
		Use:     "show",
		Short:   "Show one event that was refused: by whom, why, the event with its payload, what operators did",
		Example: `  tidemark publisher parked show --campaign oak --seq 2`,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if filter.CampaignID == "" || filter.Seq < 1 {
				return cli.Usagef("which event? Name --campaign and --seq")
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				list, err := publications.ListParked(ctx, pool, filter)
				if err == nil && len(list) == 0 {
					err = cli.Hint(fmt.Errorf("event %d of campaign %q is not parked: %w", filter.Seq, filter.CampaignID,
						publications.ErrNotFound),
						"tidemark publisher parked list --campaign %s", table.Quote(filter.CampaignID))
				}
				if err != nil {
					return err
				}
				event, err := journal.Get(ctx, pool, filter.CampaignID, filter.Seq)
				if err != nil && !errors.Is(err, feed.ErrUnreadable) {
					return err
				}
				records, err := publications.Log(ctx, pool, publications.LogFilter{
					CampaignID: filter.CampaignID,
					Limit:      publisherShown,
				})
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(document.One(struct {
						Parked []publications.Parked
						Event  journal.Event
						Log    []publications.Record
					}{list, event, records}))
				}
				return printParked(env, list, event, records)
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&filter.CampaignID, "campaign", "", "the event's campaign")
	flags.Int64Var(&filter.Seq, "seq", 0, "the event's seq")
	flags.StringVar(&filter.Topic, "topic", "", "only as an event of this topic")
	flags.StringVar(&filter.Publisher, "publisher", "", "only as refused by this publisher's sink")
	flags.BoolVar(&asJSON, "json", false, "write JSON")
	cli.CompleteFlag(command, "campaign", env.Complete(parkedCampaigns))
	cli.CompleteFlag(command, "topic", env.Complete(topicNames))
	cli.CompleteFlag(command, "publisher", env.Complete(publisherNames))
	return command
}

func printParked(env *cli.Env, list []publications.Parked, e journal.Event, records []publications.Record) error {
	page := env.Page()
	for _, p := range list {
		page.Heading(publications.Key{Topic: p.Topic, Publisher: p.Publisher}.String())
		next, waits := p.NextAttemptAt.UTC().Format(time.RFC3339), "it is left out, and goes on"
		if p.Status == statusParked {
			next = "when an operator says so: retry or resolve"
		}
		if p.Holds {
			waits = "waits behind it"
		}
		page.Facts(
			table.Fact{Name: "status", Value: p.Status, Tone: operator.ParkedTone(p.Status)},
			table.Fact{Name: "its campaign", Value: waits},
			table.Fact{Name: "attempts", Value: fmt.Sprint(p.Attempts)},
			table.Fact{Name: "next attempt", Value: next},
			table.Fact{Name: "first, last", Value: table.Stamp(p.FirstFailedAt) + ", " + table.Stamp(p.LastFailedAt)},
			table.Fact{Name: "message", Value: p.Message},
		)
	}
	page.Heading(fmt.Sprintf("Event %d of campaign %s", e.Seq, e.CampaignID))
	page.Facts(
		table.Fact{Name: "type", Value: fmt.Sprintf("%s, version %d, %s", e.Type, e.Version, e.Intent)},
		table.Fact{Name: "id", Value: e.ID.String()},
		table.Fact{Name: "position", Value: fmt.Sprint(e.Position)},
		table.Fact{Name: "recorded", Value: e.RecordedAt.UTC().Format(time.RFC3339)},
		table.Fact{Name: "actor", Value: e.Actor},
	)
	if unreadable := e.Unreadable(); unreadable != nil {
		page.Text(unreadable.Error())
	} else {
		page.JSON(e.Payload)
	}
	operator.Section(page, "Log", "listLog", records)
	return page.Err()
}
