package verification

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/lookback"
)

// print writes the differences, then the counts.
func (v *verify) print(env *cli.Env) error {
	d := &v.document
	page := env.Page()
	if len(d.Differences) > 0 {
		rows := slices.Concat(slice.Of(d.Differences, cells)...)
		page.Table([]string{"DIFFERENCE", "TABLE", "CAMPAIGN", "KEY", "COLUMN", "JOURNAL SAYS", "TABLE HAS"}, rows)
		page.Heading("Tables")
	}
	alarm := func(n int64) table.Cell { return table.Number(n, table.Alarm) }
	rows := slice.Of(d.Tables, func(t lookback.VerifiedTable) []table.Cell {
		return table.Row(t.Table, t.Rows, alarm(t.Missing), alarm(t.Extra), alarm(t.Different))
	})
	page.Table([]string{"TABLE", "ROWS", "MISSING", "EXTRA", "DIFFERENT"}, rows)
	if len(d.Resolutions) > 0 {
		page.Heading("Left out: resolved by operators")
		rows := slice.Of(d.Resolutions, func(r lookback.Resolution) []table.Cell {
			return table.Row(r.CampaignID, r.Seq, r.Actor, r.At, r.Reason)
		})
		page.Table([]string{"CAMPAIGN", "SEQ", "BY", "AT", "WHY"}, rows)
	}
	if err := page.Err(); err != nil {
		return err
	}
	if d.NotShown > 0 {
		env.Note("%s not shown: --limit shows more.", table.Count(d.NotShown, "more difference"))
	}
	if more := d.Resolved - int64(len(d.Resolutions)); more > 0 {
		env.Note("%s left out are not shown: --limit shows more.", table.Count(more, "more event"))
	}
	for _, table := range d.Unchecked {
		env.Note("Table %s has no column campaign_id of type text: its rows were not looked at.", table)
	}
	if d.Skipped > 0 {
		env.Note("%s skipped: the projection is being rebuilt there.", table.Count(d.Skipped, "campaign"))
	}
	if d.Strays > 0 {
		env.Note("%s of campaigns that the journal does not have: no replay reaches them, delete them by hand.",
			table.Count(d.Strays, "row"))
	}
	what := table.Count(d.Campaigns, "campaign")
	switch {
	case v.across && v.campaign != "":
		what = "key " + table.Quote(v.campaign)
	case v.across:
		what = "all keys"
	}
	env.Note("%s verified, %s applied: %s.", what, table.Count(d.Events, "event"), v.verdict())
	return nil
}

func (v *verify) verdict() string {
	d, unit := &v.document, "campaign"
	if v.across {
		unit = "key"
	}
	switch {
	case d.Differing+d.Strays == 0:
		return "nothing differs"
	case d.Repaired != nil:
		return fmt.Sprintf("%s filed; workers replay them from scratch", table.Count(*d.Repaired, unit))
	default:
		return table.Count(d.Differing, unit) + " with differences"
	}
}

// cells returns the lines of a difference, one per differing column.
func cells(d lookback.Difference) [][]table.Cell {
	line := func(column, want, got string) []table.Cell {
		kind := table.Toned(string(d.Kind), table.Alarm)
		return table.Row(kind, d.Table, d.CampaignID, compact(d.Key), column, want, got)
	}
	if d.Err != nil {
		return [][]table.Cell{line("", redact.Error(d.Err), "")}
	}
	var lines [][]table.Cell
	eachColumn(d.Columns, d.Want, d.Got, func(column string, want, got json.RawMessage) {
		lines = append(lines, line(column, compact(want), compact(got)))
	})
	return lines
}

// eachColumn visits the columns in which two rows differ, or "" if one row is missing.
func eachColumn(columns []string, a, b json.RawMessage, visit func(column string, a, b json.RawMessage)) {
	if len(columns) == 0 {
		visit("", a, b)
	}
	var left, right map[string]json.RawMessage
	_, _ = json.Unmarshal(a, &left), json.Unmarshal(b, &right) // JSON objects from Postgres
	for _, column := range columns {
		visit(column, left[column], right[column])
	}
}

func compact(value json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return ""
	}
	return b.String()
}
