package pages

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-go/tidemark/internal/operator/views"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/store/scheduled"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/lookback"
)

type shownTable struct {
	Columns []shownColumn
	Rows    []shownRow
	Acts    bool   // a row has acts
	Name    string // for screen readers
	Empty   string // text for a table without rows
}

type shownColumn struct {
	Name   string
	Number bool
}

type shownRow struct {
	Key   string // of the row's thing: live updates keep the row's element by it
	Cells []shownCell
	Acts  []*actForm // that the user may do
}

type shownCell struct {
	table.Cell
	Shown text
	Head  string // name of the column
	Path  string // URL of the page about the cell's thing; "": none
	Names bool   // the cell identifies the row
	Tone  string // style of the tag
	Tag   bool   // the cell is shown as a tag
}

// Table returns the view's table of things, whose type is the view's.
func (f frame) Table(view string, things any) (*shownTable, error) {
	v := views.Named(view)
	columns, rows := v.Table(things)
	if c := slices.Index(columns, "DETAIL"); c >= 0 && f.bare { // it holds an act's request, which may contain payloads
		for _, row := range rows {
			row[c] = table.Text("hidden")
		}
	}
	across, err := f.across()
	if err != nil {
		return nil, err
	}
	t := newTable(columns, rows, across)
	t.Name, t.Empty = v.Short, v.Empty
	all := reflect.ValueOf(things)
	for i := range t.Rows {
		for _, beside := range actsOn(all.Index(i).Interface()) {
			form, err := f.Form(beside.name, beside.pairs...)
			if err != nil {
				return nil, err
			}
			if form != nil { // the user may do it
				t.Rows[i].Acts = append(t.Rows[i].Acts, form)
				t.Acts = true
			}
		}
	}
	return t, nil
}

// rowAct is an act on a thing in a list, with the pairs for [frame.Form].
type rowAct struct {
	name  string
	pairs []any
}

func actsOn(thing any) []rowAct {
	switch t := thing.(type) {
	case pause.Pause:
		return []rowAct{resume(t.Target)}
	case lookback.Resolution:
		event := []any{"projection", t.Projection, "campaign", t.CampaignID, "seq", t.Seq}
		return []rowAct{{"unresolveFailed", event}}
	case publications.Parked:
		if t.Status == "draining" {
			break
		}
		event := []any{"topic", t.Topic, "publisher", t.Publisher, "campaign", t.CampaignID, "seq", t.Seq}
		return []rowAct{{"retryParked", event}, {"resolveParked", event}}
	case scheduled.Append:
		return []rowAct{{"reschedule", []any{"id", t.ID}}, {"cancelScheduled", []any{"id", t.ID}}}
	case status.Worker:
		if t.DrainedBy != "" {
			return []rowAct{{"undrainWorker", []any{"owner", t.Owner}}}
		}
		return []rowAct{{"drainWorker", []any{"owner", t.Owner}}}
	case erasure.Record:
		if t.State == "interrupted" {
			return []rowAct{{"abandonErasure", []any{"erasure", t.ID}}}
		}
	case views.GroupState:
		return []rowAct{{"repairGaps", []any{"group", t.Name}}}
	case views.ProjectionState:
		return actsOnProjection(t)
	case rebuild.Rebuild:
		name := []any{"projection", t.Projection}
		state := rowAct{"pauseRebuild", name}
		if t.Paused {
			state.name = "resumeRebuild"
		}
		swap := append(name[:2:2], ".value allow_failed", t.AllowFailed)
		return []rowAct{state, {"swapRebuild", swap}, {"abortRebuild", name}}
	}
	return nil
}

// actsOnProjection returns the acts on live tables and on tables that a rebuild has replaced.
func actsOnProjection(t views.ProjectionState) []rowAct {
	switch live, tables := registry.Split(t.Name); tables {
	case registry.NextTables:
		return nil
	case registry.PreviousTables:
		title := fmt.Sprintf("Roll back to version %d", t.Version)
		return []rowAct{{"rollbackProjection", []any{"projection", live, ".title", title}}}
	}
	name := []any{"projection", t.Name}
	state := rowAct{"pauseProjection", name}
	if t.Pause != nil {
		state.name = "resumeProjection"
	}
	return []rowAct{state, {"startRebuild", name}, {"verifyProjection", append(name[:2:2], ".value sample", 1000)}}
}

func resume(t pause.Target) rowAct {
	switch live, tables := registry.Split(t.Projection); {
	case tables == registry.NextTables:
		return rowAct{"resumeRebuild", []any{"projection", live}}
	case t.Projection != "":
		return rowAct{"resumeProjection", []any{"projection", t.Projection}}
	case t.CampaignID != "":
		return rowAct{"resumeCampaign", []any{"campaign", t.CampaignID, "group", t.Group}}
	}
	return rowAct{"resumeGroup", []any{"group", t.Group}}
}

// newTable returns a table of cells. It omits columns that are empty in all rows. across has the names of
// projections across campaigns.
func newTable(columns []string, rows [][]table.Cell, across map[string]bool) *shownTable {
	t := &shownTable{Rows: make([]shownRow, len(rows))}
	for c, name := range columns {
		filled := func(row []table.Cell) bool { return row[c].Text != "" && row[c].Text != "-" }
		if !slices.ContainsFunc(rows, filled) {
			continue
		}
		column := shownColumn{headOf(name), rows[0][c].Right}
		t.Columns = append(t.Columns, column)
		for r, row := range rows {
			t.Rows[r].Cells = append(t.Rows[r].Cells, newCell(columns, row, c, across))
		}
	}
	for r, row := range t.Rows {
		t.Rows[r].Key = keyOf(columns, rows[r])
		i := slices.IndexFunc(row.Cells, func(c shownCell) bool { return c.Path != "" })
		row.Cells[max(0, i)].Names = true
	}
	return t
}

// keyOf returns a short text that is the same for the same thing. Rows of one thing may share it.
func keyOf(columns []string, row []table.Cell) string {
	sum := fnv.New64a()
	for c, name := range columns {
		switch name {
		case "OWNER": // of a lease it changes
			if slices.Contains(columns, "CAMPAIGN") {
				continue
			}
			fallthrough
		case "ID", "#", "NAME", "GROUP", "PROJECTION", "PARTITION", "FINGERPRINT", "TOPIC", "PUBLISHER",
			"CAMPAIGN", "SEQ", "POLICY":
			_, _ = fmt.Fprintf(sum, "%s=%q;", name, row[c].Text)
		}
	}
	return strconv.FormatUint(sum.Sum64(), 36)
}

// headOf formats the name of a column, such as LAST USED, as a heading.
func headOf(name string) string { return name[:1] + strings.ToLower(name[1:]) }

func newCell(columns []string, row []table.Cell, at int, across map[string]bool) shownCell {
	cell := shownCell{Cell: row[at], Head: headOf(columns[at]), Path: pageOf(columns, row, at, across)}
	switch columns[at] {
	case "STATUS", "STATE", "ACT", "CLASS", "OUTCOME":
		cell.Tag, cell.Tone = cell.Text != "", cmp.Or(tone(cell.Text), toneOf(row[at].Tone))
		cell.Text = word(cell.Text)
	default:
		cell.Tone = toneOf(row[at].Tone)
		cell.Tag = cell.Tone != "" && len(cell.Text) < shortBytes
	}
	if cell.Right && columns[at] != "PID" {
		cell.Text = digitsApart(cell.Text)
	}
	cell.Shown = line(cell.Text)
	if columns[at] == "DETAIL" {
		cell.Shown = newText(cell.Text, detailBytes, false)
	}
	return cell
}

// digitsApart formats a cell's number with thousands separators: 12000, ~12000 or 12000+.
func digitsApart(text string) string {
	digits := strings.TrimSuffix(strings.TrimPrefix(text, "~"), "+")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return text
	}
	return strings.Replace(strings.Replace(text, digits, count(n), 1), "~", "≈ ", 1)
}

// Long reports whether the cell's text needs lines of its own.
func (c shownCell) Long() bool { return len(c.Text) > shortBytes }

// Wide reports whether the cell's text is too long for the narrowest column.
func (c shownCell) Wide() bool { return len(c.Text) >= wideBytes && !c.Tag && c.At.IsZero() }

// wideBytes is the shortest text whose column is kept wide.
const wideBytes = 8

// shortBytes is the maximum length of a tag. A longer one would be wider than the page.
const shortBytes = 40

const detailBytes = 2000

// toneOf returns the tag's style for a terminal's tone.
func toneOf(t table.Tone) string {
	return map[table.Tone]string{table.Warning: "warn", table.Alarm: "bad"}[t]
}

// pageOf returns the URL of the page about a cell's thing, or "" if there is none. It uses other cells
// of the row as parameters. A row of a projection across campaigns has a key and a position where others
// have a campaign and a seq: only a failed key has a page.
func pageOf(columns []string, row []table.Cell, at int, across map[string]bool) string {
	r := linkedRow{columns, row}
	key := across[r.value("PROJECTION")] || across[r.value("OF")]
	campaign, text := r.value("CAMPAIGN"), row[at].Text
	switch columns[at] {
	case "CAMPAIGN":
		return r.campaign(campaign, key)
	case "SEQ":
		if !key {
			return r.page("/event", "campaign", "seq")
		}
	case "FINGERPRINT", "ERROR":
		if cause := r.page("/failed", "projection", "fingerprint"); cause != "" {
			return cause + "&of=all"
		}
	case "PROJECTION":
		if campaign == "" && text != "(all)" {
			return r.page("/failed", "projection")
		}
	case "PUBLISHER":
		if campaign == "" {
			return r.page("/publishers/pair", "topic", "publisher")
		}
	case "PARKED":
		if text != "0" {
			return r.page("/parked", "topic", "publisher")
		}
	case "ID":
		if r.value("KIND") != "" {
			return fmt.Sprint(operationPath, text)
		}
	}
	return ""
}

type linkedRow struct {
	columns []string
	cells   []table.Cell
}

// value returns the text of a column, or "".
func (r linkedRow) value(column string) string {
	if i := slices.Index(r.columns, column); i >= 0 && r.cells[i].Text != "-" {
		return r.cells[i].Text
	}
	return ""
}

// page returns the URL of a page whose parameters are the columns of these names, or "" if one has no value.
func (r linkedRow) page(path string, names ...string) string {
	var pairs []any
	for _, name := range names {
		text := r.value(strings.ToUpper(name))
		if text == "" {
			return ""
		}
		pairs = append(pairs, name, text)
	}
	address, _ := link(path, pairs...)
	return address
}

// campaign returns the URL of the page about a campaign, or about its failure. A key has only the latter.
func (r linkedRow) campaign(campaign string, key bool) string {
	if campaign == "" {
		return ""
	}
	failed := ""
	if slices.Contains(r.columns, "STATUS") {
		failed = r.page("/failed/campaign", "projection", "campaign")
	}
	if key {
		return failed
	}
	address, _ := link("/campaign", "id", campaign)
	return cmp.Or(failed, address)
}
