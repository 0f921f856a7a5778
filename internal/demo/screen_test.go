package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestLinesSayItAllInOneLineWithoutControlCharacters(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	screen{&out}.show(someSample(12))
	want := "12 s  appended 120 (10/s)  applied 110 (9/s)  lag 10 events, 250 ms | worker 1: holds 3 campaigns, " +
		"applied 60 | worker 2: killed, had applied 50\n"
	if got := strings.TrimLeft(out.String(), " "); got != want {
		t.Errorf("the line is\n%q, wanted\n%q", got, want)
	}
}

func someSample(seconds int) sample {
	return sample{
		at: time.Duration(seconds) * time.Second, appended: 120, applied: 110, appendedRate: 10, appliedRate: 9, lag: 10,
		age: 250 * time.Millisecond,
		workers: []workerSample{
			{number: 1, pid: 71, state: running, known: true, held: 3, applied: 60},
			{number: 2, pid: 72, state: killed, known: true, applied: 50},
		},
	}
}
