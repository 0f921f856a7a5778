package demo

import (
	"fmt"
	"io"
	"strings"
)

// screen is where the demo shows itself, line after line: on terminals, in logs and in pipes alike.
type screen struct{ out io.Writer }

// say tells of something that happened. It does not look at errors: a view that is gone is no
// reason to end the demo.
func (s screen) say(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format+"\n", args...) }

// show tells how it stands.
func (s screen) show(now sample) {
	var workers strings.Builder
	for _, w := range now.workers {
		fmt.Fprintf(&workers, " | worker %d: %s", w.number, w.describe())
	}
	s.say("%3.0f s  appended %d (%.0f/s)  applied %d (%.0f/s)  lag %d events, %d ms%s", now.at.Seconds(),
		now.appended, now.appendedRate, now.applied, now.appliedRate, now.lag, now.age.Milliseconds(), workers.String())
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
