package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// screen is where the demo shows itself.
type screen interface {
	say(format string, args ...any) // something that happened
	show(sample)                    // how it stands now
	rest()                          // leave what stands there, and go on below it
}

func newScreen(out io.Writer, terminal bool) screen {
	if terminal {
		return &board{out: out}
	}
	return lines{out}
}

// write does not look at errors: a view that is gone is no reason to end the demo.
func write(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

// lines appends one line after another: for logs and pipes.
type lines struct{ out io.Writer }

func (l lines) say(format string, args ...any) { write(l.out, format+"\n", args...) }

func (l lines) show(s sample) {
	var workers strings.Builder
	for _, w := range s.workers {
		fmt.Fprintf(&workers, " | worker %d: %s", w.number, w.describe())
	}
	l.say("%3.0f s  appended %d (%.0f/s)  applied %d (%.0f/s)  lag %d events, %d ms%s",
		s.at.Seconds(), s.appended, s.appendedRate, s.applied, s.appliedRate, s.lag, s.age.Milliseconds(), workers.String())
}

func (l lines) rest() {}

// board repaints a block of lines at the bottom of a terminal; what is said scrolls above it.
type board struct {
	out    io.Writer
	height int // lines of the block that stand there now
	block  string
}

const (
	lineUp     = "\x1b[%dA"
	clearBelow = "\x1b[J"
	bold       = "\x1b[1m"
	plain      = "\x1b[0m"
)

func (b *board) say(format string, args ...any) {
	b.erase()
	write(b.out, format+"\n", args...)
	b.paint()
}

func (b *board) show(s sample) {
	var block strings.Builder
	fmt.Fprintf(&block, "\n%stidemark%s  %s\n", bold, plain, s.at.Round(time.Second))
	fmt.Fprintf(&block, "  appended %10d  %s%8.0f/s%s\n", s.appended, bold, s.appendedRate, plain)
	fmt.Fprintf(&block, "  applied  %10d  %s%8.0f/s%s\n", s.applied, bold, s.appliedRate, plain)
	fmt.Fprintf(&block, "  lag      %10d events, %d ms\n", s.lag, s.age.Milliseconds())
	for _, w := range s.workers {
		fmt.Fprintf(&block, "  worker %d  pid %-8d %s\n", w.number, w.pid, w.describe())
	}
	b.erase()
	b.block = block.String()
	b.paint()
}

func (b *board) rest() { b.block, b.height = "", 0 }

func (b *board) erase() {
	if b.height > 0 {
		write(b.out, lineUp+"\r"+clearBelow, b.height)
		b.height = 0
	}
}

func (b *board) paint() {
	write(b.out, "%s", b.block)
	b.height = strings.Count(b.block, "\n")
}

func (w workerSample) describe() string {
	switch {
	case w.state != running:
		return fmt.Sprintf("%s, had applied %d", w.state, w.applied)
	case !w.known:
		return "starting"
	}
	return fmt.Sprintf("holds %d campaigns, applied %d", w.held, w.applied)
}
