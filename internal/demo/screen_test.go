package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestBoardRepaintsItsBlockAndLetsWhatIsSaidScroll(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	board := newScreen(&out, true)
	board.show(someSample(1))
	board.say("something happened")
	board.show(someSample(2))
	board.rest()
	board.say("after the block")

	want := []string{"tidemark  1s", "something happened", "tidemark  2s", "after the block"}
	shown := visible(out.String())
	if strings.Contains(shown, "tidemark  1s") {
		t.Errorf("the first block is still there:\n%s", shown)
	}
	from := 0
	for _, text := range want[1:] {
		at := strings.Index(shown[from:], text)
		if at < 0 {
			t.Fatalf("%q is not there, or too early:\n%s", text, shown)
		}
		from += at
	}
}

func TestLinesSayItAllInOneLineWithoutControlCharacters(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	newScreen(&out, false).show(someSample(12))
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

// visible is what a terminal shows in the end, which knows the control sequences that the board uses.
func visible(out string) string {
	for _, style := range []string{bold, plain} {
		out = strings.ReplaceAll(out, style, "")
	}
	lines := []string{""}
	for out != "" {
		var up int
		switch {
		case out[0] == '\n':
			lines, out = append(lines, ""), out[1:]
		case strings.HasPrefix(out, "\x1b["):
			up = int(out[2] - '0')
			out = strings.TrimPrefix(out[4:], "\r"+clearBelow)
			lines = append(lines[:len(lines)-1-up], "")
		default:
			lines[len(lines)-1] += out[:1]
			out = out[1:]
		}
	}
	return strings.Join(lines, "\n")
}
