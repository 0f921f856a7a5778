package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func newDeferredShow(env *cli.Env) *cobra.Command {
	var (
		key    deferred.Key
		asJSON bool
	)
	command := &cobra.Command{
		Use:     "show PROJECTION CAMPAIGN",
		Short:   "Show a failed campaign: the failure, the event with its payload, the stack, the log",
		Example: `  tidemark failed show scores oak`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				detail, err := deferred.Show(ctx, pool, key)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(operator.One(detail))
				}
				return printDetail(env, detail)
			})
		},
	}
	bindKey(env, command, &key)
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

func printDetail(env *cli.Env, d *deferred.Detail) error {
	page := &cli.Page{Env: env}
	page.Facts(pairFacts(d.Pair)...)
	if d.Event != nil {
		page.Heading(fmt.Sprintf("Event %d", d.Event.Seq))
		page.Facts(
			cli.Fact{Name: "type", Value: fmt.Sprintf("%s, version %d, %s", d.Event.Type, d.Event.Version, d.Event.Intent)},
			cli.Fact{Name: "id", Value: d.Event.ID.String()},
			cli.Fact{Name: "recorded", Value: d.Event.RecordedAt.UTC().Format(time.RFC3339)},
			cli.Fact{Name: "actor", Value: d.Event.Actor},
		)
		page.Text(indented(d.Event.Payload))
	}
	if d.Stack != "" {
		page.Heading("Stack")
		page.Text(d.Stack)
	}
	if len(d.Resolutions) > 0 {
		page.Heading("Left out")
		page.Table(resolutionColumns(), resolutionRows(d.Resolutions))
	}
	if len(d.History) > 0 {
		page.Heading("Log")
		page.Table(recordColumns(), recordRows(d.History))
	}
	return page.Err()
}

func pairFacts(p deferred.Pair) []cli.Fact {
	next := "when an operator says so: requeue, retry or resolve"
	if !p.NextAttemptAt.IsZero() {
		next = p.NextAttemptAt.UTC().Format(time.RFC3339)
	}
	facts := []cli.Fact{
		{Name: "projection", Value: p.Projection},
		{Name: "campaign", Value: p.CampaignID},
		{Name: "group", Value: p.Group},
		{Name: "status", Value: string(p.Status), Tone: pairTone(p.Status)},
		{Name: "stands before", Value: fmt.Sprintf("event %d", p.NextSeq)},
		{Name: "next attempt", Value: next},
	}
	if p.Reset {
		facts = append(facts, cli.Fact{Name: "reset", Value: "its rows are deleted before the next event is applied"})
	}
	if p.Class == "" {
		return facts
	}
	return append(facts,
		cli.Fact{Name: "attempts", Value: fmt.Sprint(p.Attempts)},
		cli.Fact{Name: "failure", Value: p.Class + ", " + p.Code + ", fingerprint " + p.Fingerprint},
		cli.Fact{Name: "first, last", Value: stamp(p.FirstFailedAt) + ", " + stamp(p.LastFailedAt)},
		cli.Fact{Name: "worker", Value: p.Worker},
		cli.Fact{Name: "message", Value: p.Message},
	)
}

func stamp(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}

func indented(payload json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, payload, "", "  "); err != nil {
		return string(payload)
	}
	return b.String()
}
