// Package table writes tables, facts and text to a terminal or for scripts. Tables are aligned on a
// terminal and tab-separated elsewhere. Control characters are escaped.
package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Page writes several parts. It keeps the first write error and then writes nothing more.
type Page struct {
	Out, Notes io.Writer // Notes gets remarks about the page
	Terminal   bool      // Out is a terminal: tables are aligned
	Color      bool      // Out may have colours

	begun bool
	err   error
}

// Fact is a line with a name and a value.
type Fact struct {
	Name, Value string
	Tone        Tone
}

// Err returns the first write error.
func (p *Page) Err() error { return p.err }

// Heading starts a part of the page, after a blank line unless it is the first.
func (p *Page) Heading(title string) {
	if p.begun {
		p.print("\n")
	}
	p.print(p.toned(title, Strong) + "\n")
}

// Facts writes aligned names and values, one per line. It leaves out facts without a value.
func (p *Page) Facts(facts ...Fact) {
	width := 0
	for _, f := range facts {
		if f.Value != "" {
			width = max(width, utf8.RuneCountInString(f.Name))
		}
	}
	for _, f := range facts {
		if f.Value != "" {
			p.print(fmt.Sprintf("%-*s%s%s\n", width, f.Name, columnGap, p.toned(Visible(f.Value), f.Tone)))
		}
	}
}

// Text writes lines. It expands tabs and escapes other control characters.
func (p *Page) Text(text string) {
	for line := range strings.Lines(text) {
		p.print(Visible(strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")) + "\n")
	}
}

// JSON writes an indented document.
func (p *Page) JSON(value json.RawMessage) {
	var b bytes.Buffer
	if err := json.Indent(&b, value, "", "  "); err != nil {
		b.Reset()
		b.Write(value)
	}
	p.Text(b.String())
}

// Note writes a line to Notes.
func (p *Page) Note(format string, args ...any) {
	_, _ = fmt.Fprintf(p.Notes, format+"\n", args...)
}

func (p *Page) toned(text string, tone Tone) string {
	if !p.Color || tone == Plain {
		return text
	}
	return string(tone) + text + toneEnd
}

func (p *Page) print(text string) {
	if p.err == nil {
		p.begun = true
		_, p.err = io.WriteString(p.Out, text)
	}
}
