package verification

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

// print writes the differences, then the counts.
func (v *verify) print(env *cli.Env) error {
	d := &v.document
	page := env.Page()
	if len(d.Differences) > 0 {
		var rows [][]table.Cell
		for _, difference := range d.Differences {
			rows = append(rows, cells(difference)...)
		}
		page.Table([]string{"DIFFERENCE", "TABLE", "CAMPAIGN", "KEY", "COLUMN", "JOURNAL SAYS", "TABLE HAS"}, rows)
		page.Heading("Tables")
	}
	var rows [][]table.Cell
	for _, t := range d.Tables {
		rows = append(rows, []table.Cell{
			table.Text(t.Table), table.Number(t.Rows, table.Plain), table.Number(t.Missing, table.Alarm),
			table.Number(t.Extra, table.Alarm), table.Number(t.Different, table.Alarm),
		})
	}
	page.Table([]string{"TABLE", "ROWS", "MISSING", "EXTRA", "DIFFERENT"}, rows)
	if len(d.Resolutions) > 0 {
		rows = nil
		for _, r := range d.Resolutions {
			rows = append(rows, []table.Cell{
				table.Text(r.CampaignID), table.Number(r.Seq, table.Plain), table.Text(r.Actor),
				table.Text(r.At.UTC().Format(time.RFC3339)), table.Text(r.Reason),
			})
		}
		page.Heading("Left out: resolved by operators")
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
	env.Note("%s verified, %s applied: %s.", table.Count(d.Campaigns, "campaign"), table.Count(d.Events, "event"),
		v.verdict())
	return nil
}

func (v *verify) verdict() string {
	d := &v.document
	switch {
	case d.Differing+d.Strays == 0:
		return "nothing differs"
	case d.Repaired != nil:
		return fmt.Sprintf("%s filed; workers replay them from scratch", table.Count(*d.Repaired, "campaign"))
	default:
		return table.Count(d.Differing, "campaign") + " with differences"
	}
}

// cells returns the lines of a difference, one per differing column.
func cells(d replay.Difference) [][]table.Cell {
	line := func(column, want, got string) []table.Cell {
		return []table.Cell{
			{Text: string(d.Kind), Tone: table.Alarm},
			table.Text(d.Table), table.Text(d.CampaignID), table.Text(compact(d.Key)),
			table.Text(column), table.Text(want), table.Text(got),
		}
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
