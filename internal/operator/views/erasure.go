package views

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/erasure"
)

type erasureList struct {
	Before int64 `page:"after" min:"1" help:"only erasures before the one with this id"`
	limited
}

func erasureViews() []*View {
	return []*View{
		list(View{
			Name: "listErasures", Command: "erase list", Path: "/erasures", Schema: "Erasure",
			Short: "List erasures with the rows that they changed, newest first",
			Long: "List erasures with the rows that they changed, newest first. CAMPAIGN is - for subjects, which the " +
				"database does not keep. STATE is running while a call holds the erasure, which expires 30 s after its last " +
				"step, and interrupted then: the same request continues it, or erase abandon ends it.",
			Examples: []string{"erase list --limit 10 --json"},
			Empty:    "Nothing was erased.",
		}, lists[*erasureList, erasure.Record]{
			Read: func(ctx context.Context, from Reader, in *erasureList) ([]erasure.Record, any, error) {
				found, err := erasure.List(ctx, from.Pool, in.Before, in.Limit)
				return found, nextOf(found, in.Limit, func(r erasure.Record) int64 { return r.ID }), err
			},
			Columns: "ID|CAMPAIGN|STATE|BEGAN|ENDED|BY|CHANGED|REASON",
			Row: func(r erasure.Record) []table.Cell {
				var changed []string
				for _, name := range slices.Sorted(maps.Keys(r.Changed)) {
					if n := r.Changed[name]; n > 0 {
						changed = append(changed, fmt.Sprintf("%s %d", name, n))
					}
				}
				return table.Row(r.ID, table.OrDash(r.CampaignID), r.State, r.BeganAt, r.EndedAt, r.By, strings.Join(changed, ", "),
					r.Reason)
			},
		}),
	}
}
