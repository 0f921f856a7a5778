package table

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-go/tidemark/internal/slice"
)

// Tone is the weight of a cell on a coloured terminal.
type Tone string

// The tones, as escape sequences.
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
	Right bool // align right
	Tone  Tone
	At    time.Time // set if Text is a time
}

// Text returns a cell of plain text.
func Text(s string) Cell { return Cell{Text: s} }

// Number returns a cell for a count. Zero is faint.
func Number(n int64, tone Tone) Cell {
	if n == 0 {
		tone = Faint
	}
	return Cell{Text: strconv.FormatInt(n, 10), Right: true, Tone: tone}
}

// Toned returns a cell of text with a tone.
func Toned(s string, tone Tone) Cell { return Cell{Text: s, Tone: tone} }

// NumberOrDash returns a cell for a number, or a dash for 0.
func NumberOrDash(n int64) Cell {
	if n == 0 {
		return NumberText("-")
	}
	return Number(n, Plain)
}

// NumberText returns a right-aligned cell. A dash is faint.
func NumberText(s string) Cell { return Cell{Text: s, Right: true, Tone: OrDash(s).Tone} }

// OrDash returns a cell for a text, or a faint dash for none.
func OrDash(s string) Cell {
	if s == "" || s == "-" {
		return Cell{Text: "-", Tone: Faint}
	}
	return Text(s)
}

// About returns a cell for a count, with a ~ before an estimate.
func About(n int64, estimated bool, tone Tone) Cell {
	cell := Number(n, tone)
	if estimated && n > 0 {
		cell.Text = "~" + cell.Text
	}
	return cell
}

// AgeOf returns a cell for the age of the oldest of n things, or a dash if there is none.
func AgeOf(n int64, oldest time.Duration) Cell {
	if n <= 0 {
		return NumberText("-")
	}
	return NumberText(Age(oldest))
}

// When returns a cell for a time, or a dash for the zero time.
func When(at time.Time) Cell { return IfKnown(&at) }

// IfKnown is [When] for a pointer. Nil is a dash.
func IfKnown(at *time.Time) Cell {
	cell := OrDash(Stamp(at))
	if at != nil {
		cell.At = *at
	}
	return cell
}

// Row converts values to cells. Numbers and times get their format, other values are printed as text.
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

// Count formats a number of things. The plural is thing with an s.
func Count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.FormatInt(n, 10) + " " + thing + "s"
}

// Stamp formats a time in UTC, or returns a dash for none.
func Stamp(at *time.Time) string {
	if at == nil || at.IsZero() {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}

const (
	columnGap = "  "
	maxCell   = 60 // characters of a cell on a terminal
)

// Table writes rows with a header. On a terminal it aligns columns and cuts long cells. Elsewhere it
// writes tab-separated lines. Control characters are escaped.
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
		texts := slice.Of(row, func(cell Cell) string { return Visible(cell.Text) })
		table.WriteString(strings.Join(texts, "\t") + "\n")
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

// Visible escapes characters that are not printable. Names and errors can contain any text.
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

// Quote quotes a word for the shell, for command lines that users copy.
func Quote(word string) string {
	if regexp.MustCompile(`^[\w@%+=:,./-]+$`).MatchString(word) {
		return word
	}
	if Visible(word) != word { // bash, zsh and ksh syntax
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

// Age formats a duration in its two largest units. Negative durations are 0.
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
