package views

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemark-go/tidemark/internal/retention"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

type retained struct {
	After string `page:"after" help:"only items after this one"`
	limited
}

func retentionViews() []*View {
	return []*View{
		list(View{
			Name: "listPolicies", Command: "campaign policies", Path: "/retention", Schema: "Policy",
			Short: "List the policies by which workers archive closed campaigns, with their last runs",
			Long: "List the policies by which workers archive closed campaigns, with their last runs. LEFT is closed " +
				"campaigns that stay in the journal, because something still has to read them.",
			Examples: []string{"campaign policies --json"},
			Empty:    "No policies.",
		}, lists[*retained, retention.Record]{
			Read: func(ctx context.Context, from Reader, in *retained) ([]retention.Record, any, error) {
				found, err := retention.List(ctx, from.Pool, in.After, in.Limit)
				return found, nextOf(found, in.Limit, func(r retention.Record) string { return r.Policy }), err
			},
			Columns: "POLICY|CLOSED FOR|TYPES|BEGAN|ENDED|CAMPAIGNS|EVENTS|LEFT|WHY",
			Row: func(r retention.Record) []table.Cell {
				why := r.Error
				if why == "" && len(r.Left) > 0 {
					why = fmt.Sprintf("%s: %s", r.Left[0].CampaignID, r.Left[0].Reason)
				}
				return table.Row(r.Policy, table.Age(r.ClosedFor), strings.Join(r.Types, ", "), r.BeganAt, r.EndedAt, r.Campaigns,
					r.Events, table.Number(r.LeftOut, table.Warning), why)
			},
		}),
		list(View{
			Name: "listRestoreRequests", Command: "campaign requests", Path: "/retention/requests", Schema: "RestoreRequest",
			Short: "List the archived campaigns that appends have asked for",
			Long: "List the archived campaigns that appends have asked for, until workers have brought them back and for " +
				"as long as they are kept. ERROR is why one is not back yet.",
			Examples: []string{"campaign requests --json"},
			Empty:    "No requests.",
		}, lists[*retained, retention.Request]{
			Read: func(ctx context.Context, from Reader, in *retained) ([]retention.Request, any, error) {
				found, err := retention.Requests(ctx, from.Pool, in.After, in.Limit)
				return found, nextOf(found, in.Limit, func(r retention.Request) string { return r.CampaignID }), err
			},
			Columns: "CAMPAIGN|ASKED BY|ASKED|ATTEMPTS|NEXT|KEPT UNTIL|ERROR",
			Row: func(r retention.Request) []table.Cell {
				return table.Row(r.CampaignID, r.AskedBy, r.AskedAt, r.Attempts, r.NextAt, r.KeptUntil, r.Error)
			},
		}),
	}
}
