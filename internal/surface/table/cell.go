package table

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Tone is the weight of a cell on a coloured terminal.
type Tone string

// The tones, as terminals know them.
const (
	Plain   Tone = ""
	Strong  Tone = "\x1b[1m"
	Faint   Tone = "\x1b[2m"
	Warning Tone = "\x1b[33m"
	Alarm   Tone = "\x1b[31m"

	toneEnd = "\x1b[0m"
)

// Cell is a value in a table.
type Cell struct {
	Text  string
	Right bool // aligned to the right
	Tone  Tone
	At    time.Time // the time that Text is, if it is one
}

// Text makes a cell of words.
func Text(s string) Cell { return Cell{Text: s} }

// Number makes a cell of a count, which is toned only if it is not zero.
func Number(n int64, tone Tone) Cell {
	if n == 0 {
		tone = Faint
	}
	return Cell{Text: strconv.FormatInt(n, 10), Right: true, Tone: tone}
}

// Toned makes a cell of words with a tone.
func Toned(s string, tone Tone) Cell { return Cell{Text: s, Tone: tone} }

// NumberOrDash makes a cell of a number, or a dash for none.
func NumberOrDash(n int64) Cell {
	if n == 0 {
		return NumberText("-")
	}
	return Number(n, Plain)
}

// NumberText makes a cell of what stands in a column of numbers; a dash is faint.
func NumberText(s string) Cell { return Cell{Text: s, Right: true, Tone: OrDash(s).Tone} }

// OrDash makes a cell of words, or a dash for none.
func OrDash(s string) Cell {
	if s == "" || s == "-" {
		return Cell{Text: "-", Tone: Faint}
	}
	return Text(s)
}

// About makes a cell of a count, with a ~ before it if it is an estimate.
func About(n int64, estimated bool, tone Tone) Cell {
	cell := Number(n, tone)
	if estimated && n > 0 {
		cell.Text = "~" + cell.Text
	}
	return cell
}

// When makes a cell of a time, or a dash for none.
func When(at time.Time) Cell { return IfKnown(&at) }

// IfKnown makes a cell of a time, or a dash for none, which nil is too.
func IfKnown(at *time.Time) Cell {
	cell := OrDash(Stamp(at))
	if at != nil {
		cell.At = *at
	}
	return cell
}

// Row makes cells of values: numbers, times and cells as what they are, all else of its words.
func Row(values ...any) []Cell {
	cells := make([]Cell, len(values))
	for i, value := range values {
		switch v := value.(type) {
		case Cell:
			cells[i] = v
		case int:
			cells[i] = Number(int64(v), Plain)
		case int64:
			cells[i] = Number(v, Plain)
		case time.Time:
			cells[i] = When(v)
		case *time.Time:
			cells[i] = IfKnown(v)
		default:
			cells[i] = Text(fmt.Sprint(v))
		}
	}
	return cells
}

// Count writes a number of things whose plural ends in s.
func Count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.FormatInt(n, 10) + " " + thing + "s"
}

// Stamp writes a time, or a dash for none.
func Stamp(at *time.Time) string {
	if at == nil || at.IsZero() {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}

const (
	columnGap = "  "
	maxCell   = 60 // characters of a cell on a terminal; elsewhere nothing is cut
)

// Table writes rows under the names of their columns: aligned on a terminal, as tab-separated lines elsewhere.
// Characters that would move the cursor are written as escapes.
func (p *Page) Table(columns []string, rows [][]Cell) {
	header := make([]Cell, len(columns))
	for i, name := range columns {
		header[i] = Cell{Text: name, Tone: Strong, Right: len(rows) > 0 && rows[0][i].Right}
	}
	rows = append([][]Cell{header}, rows...)
	if p.Terminal {
		p.print(p.aligned(rows))
	} else {
		p.print(tabbed(rows))
	}
}

func tabbed(rows [][]Cell) string {
	var table strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				table.WriteString("\t")
			}
			table.WriteString(Visible(cell.Text))
		}
		table.WriteString("\n")
	}
	return table.String()
}

func (p *Page) aligned(rows [][]Cell) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i].Text = shortened(Visible(row[i].Text))
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].Text))
		}
	}
	var table strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			text, padding := cell.Text, strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell.Text))
			if text = p.toned(text, cell.Tone); cell.Right {
				line.WriteString(padding + text + columnGap)
			} else {
				line.WriteString(text + padding + columnGap)
			}
		}
		table.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return table.String()
}

// Visible answers s with everything that is no printable character as an escape: names and errors come from elsewhere.
func Visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// Quote writes a word as a shell reads it, for command lines that users may copy.
func Quote(word string) string {
	if regexp.MustCompile(`^[\w@%+=:,./-]+$`).MatchString(word) {
		return word
	}
	if Visible(word) != word { // as bash, zsh and ksh read it
		return "$'" + strings.ReplaceAll(Visible(strings.ReplaceAll(word, `\`, `\\`)), "'", `\'`) + "'"
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func shortened(s string) string {
	if utf8.RuneCountInString(s) <= maxCell {
		return s
	}
	return string([]rune(s)[:maxCell-1]) + "…"
}

// Age writes how long ago something was, in the two largest units.
func Age(d time.Duration) string {
	d = max(d, 0)
	days, hours, minutes := d/(24*time.Hour), d/time.Hour%24, d/time.Minute%60
	switch {
	case days > 0:
		return fmt.Sprintf("%dd %dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh %dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm %ds", minutes, d/time.Second%60)
	default:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
}
