// Package table writes what was read for a person, or a script: cells, tables, facts and pages of them. On a terminal
// tables are aligned, elsewhere their lines are tab-separated. Nothing that is written moves the cursor.
package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Page writes several things below each other for a person. The first error is kept and ends it.
type Page struct {
	Out, Notes io.Writer // Notes takes what is about the page, and not of it
	Terminal   bool      // Out is one: tables are aligned
	Color      bool      // Out may be coloured

	begun bool
	err   error
}

// Fact is a line of a page: a name and its value.
type Fact struct {
	Name, Value string
	Tone        Tone
}

// Err answers what went wrong, if anything did.
func (p *Page) Err() error { return p.err }

// Heading begins a part of the page.
func (p *Page) Heading(title string) {
	if p.begun {
		p.print("\n")
	}
	p.print(p.toned(title, Strong) + "\n")
}

// Facts writes names and values, one a line, those without a value left out.
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

// Text writes lines as they are, but for characters that would move the cursor.
func (p *Page) Text(text string) {
	for line := range strings.Lines(text) {
		p.print(Visible(strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")) + "\n")
	}
}

// JSON writes a value, indented.
func (p *Page) JSON(value json.RawMessage) {
	var b bytes.Buffer
	if err := json.Indent(&b, value, "", "  "); err != nil {
		b.Reset()
		b.Write(value)
	}
	p.Text(b.String())
}

// Note writes a line about the page.
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
