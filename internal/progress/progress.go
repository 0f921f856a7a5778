// Package progress reports the progress of a long run to a person or a log.
package progress

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const interval = 2 * time.Second

// Meter writes lines such as
//
//	1,200 of 48,000 commits (2 %), 31,007 events, 15,400/s, 12s left
//
// It writes only when progress is reported, at most every two seconds, and starts no goroutine. It is
// not safe for concurrent use.
type Meter struct {
	out   io.Writer
	unit  string
	total int64
	now   func() time.Time

	started, written time.Time
	done, events     int64
	last             string // last line written
}

// New returns a meter for a run of total units, named in the plural ("commits", "bytes"). With an
// unknown total of 0, it shows no percentage and no time left.
func New(out io.Writer, unit string, total int64) *Meter { return newMeter(out, unit, total, time.Now) }

func newMeter(out io.Writer, unit string, total int64, now func() time.Time) *Meter {
	started := now()
	return &Meter{out: out, unit: unit, total: total, now: now, started: started, written: started}
}

// Unknown is passed to [Meter.Set] by runs that do not count events. None are shown then.
const Unknown = -1

// Set reports the units done and the events made of them, or [Unknown], since the start of the run.
func (m *Meter) Set(done, events int64) {
	m.done, m.events = done, events
	if now := m.now(); now.Sub(m.written) >= interval {
		m.written = now
		m.write()
	}
}

// Note writes a message as a line.
func (m *Meter) Note(message string) { m.print(message) }

// Done writes the last line.
func (m *Meter) Done() {
	m.total = m.done // the final count is the total
	m.write()
}

func (m *Meter) write() {
	if line := m.line(); line != m.last {
		m.print(line)
		m.last = line
	}
}

// print ignores errors: lost output must not stop the run.
func (m *Meter) print(line string) { _, _ = io.WriteString(m.out, line+"\n") }

func (m *Meter) line() string {
	elapsed := m.now().Sub(m.started)
	var out strings.Builder
	if m.done < m.total {
		fmt.Fprintf(&out, "%s of %s %s (%d %%)", thousands(m.done), thousands(m.total), m.unit, 100*m.done/m.total)
	} else {
		fmt.Fprintf(&out, "%s %s", thousands(m.done), m.unit)
	}
	rate := m.done
	if m.events != Unknown {
		rate = m.events
		fmt.Fprintf(&out, ", %s events", thousands(m.events))
	}
	if seconds := elapsed.Seconds(); seconds > 0 {
		fmt.Fprintf(&out, ", %s/s", thousands(int64(float64(rate)/seconds)))
	}
	if m.done > 0 && m.done < m.total {
		left := time.Duration(float64(elapsed) / float64(m.done) * float64(m.total-m.done))
		fmt.Fprintf(&out, ", %s left", left.Round(time.Second))
	} else {
		fmt.Fprintf(&out, " in %s", elapsed.Round(10*time.Millisecond))
	}
	return out.String()
}

// thousands formats 1234567 as 1,234,567.
func thousands(n int64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
