package docstest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	walksPage = "docs/contributing/walks.md"

	// mostWalkFiles is how many files a walk may have.
	mostWalkFiles = 12
)

// TestWalks checks the walks of docs/contributing/walks.md: each function exists, and reaches that of the
// next step as the step says. The page explains the words.
func TestWalks(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(root, walksPage))
	if err != nil {
		t.Fatal(err)
	}
	walks := walksOf(t, string(content))
	if len(walks) != 6 {
		t.Errorf("%s has %d walks", walksPage, len(walks))
	}
	for _, w := range walks {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			files := map[string]bool{}
			for i := range w.steps {
				files[w.steps[i].file] = true
			}
			if len(files) > mostWalkFiles {
				t.Errorf("it has %d files, %d are enough", len(files), mostWalkFiles)
			}
			for i := range w.steps {
				if _, err := sourceOf(w.steps[i].file, w.steps[i].function); err != nil {
					t.Errorf("step %d: %v", i+1, err)
				}
			}
			if t.Failed() {
				return
			}
			for i := range len(w.steps) - 1 {
				if err := w.reaches(i); err != nil {
					t.Errorf("step %d: %v", i+1, err)
				}
			}
		})
	}
}

// TestWalksNoticeWhatIsWrong checks that a walk with a mistake is refused.
func TestWalksNoticeWhatIsWrong(t *testing.T) {
	t.Parallel()
	journal := walkStep{file: "pkg/journal/append.go", function: "Journal.Append"}
	function := walkStep{file: "migrations/functions/append.sql", function: "tidemark.append"}
	wake := walkStep{file: "migrations/functions/waits.sql", function: "tidemark.wake"}
	hear := walkStep{file: "internal/projector/claim/listener.go", function: "Listener.hear"}
	dispatch := walkStep{file: "internal/projector/claim/claimer.go", function: "Claimer.Dispatch"}
	worker := walkStep{file: "internal/projector/claim/crew.go", function: "Crew.Worker"}
	failed := walkStep{file: "internal/operator/acts/failed.go", function: "failedActs"}
	act := walkStep{file: "internal/operator/acts/act.go", function: "Act.Do"}
	schedule := walkStep{file: "migrations/functions/reactions.sql", function: "tidemark.react"}
	by := func(s walkStep, how string) walkStep {
		s.next = how
		return s
	}
	for _, c := range []struct {
		from, to walkStep
		want     string // "": it is right
	}{
		{by(journal, "statement `queryAppend`"), function, ""},
		{by(journal, "statement `queryAppendAll`"), function, "does not use queryAppendAll"},
		{by(journal, "statement `queryAppend`"), wake, "queryAppend has no tidemark.wake"},
		{by(journal, "call"), dispatch, "does not call Dispatch"},
		{by(journal, "call through `placesOf`"), dispatch, "placesOf does not call Dispatch"},
		{by(journal, "call through `handOut`"), dispatch, "neither file defines handOut"},
		{by(function, "call"), wake, ""},
		{by(wake, "call"), function, "does not call tidemark.append"},
		{by(wake, "NOTIFY `tidemark_work`, heard as `lease.Channel`"), hear, ""},
		{by(wake, "NOTIFY `tidemark_other`, heard as `lease.Channel`"), hear, "does not notify on tidemark_other"},
		{by(wake, "NOTIFY `tidemark_work`, heard as `scheduled.Channel`"), hear, "is not tidemark_work"},
		{by(hear, "channel `Wake` through `Claimer.sleep`"), dispatch, ""},
		{by(hear, "channel `Wake`"), dispatch, "does not receive from Wake"},
		{by(dispatch, "channel `work`"), worker, "does not send to work"},
		{by(act, "field `Do`"), failed, ""},
		{by(act, "field `Alone`"), failed, "does not set Alone"},
		{by(journal, "field `Do`"), failed, "no step up to it uses Do"},
		{by(function, "row of `outbox`"), schedule, "tidemark.react does not have tidemark.outbox"},
		{by(function, "after the return to step 7, call"), wake, "there is no step 7 before it"},
		{by(function, "some magic"), wake, "unknown way"},
	} {
		err := (&walk{steps: []walkStep{c.from, c.to}}).reaches(0)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s by %s: %v", c.from.function, c.from.next, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s by %s: got %v, want %q", c.from.function, c.from.next, err, c.want)
		}
	}
}

type walk struct {
	name  string
	steps []walkStep
}

type walkStep struct {
	file, function string
	next           string // how it reaches the next step
}

// walksOf reads the walks of a page: numbered lists under headings.
func walksOf(t *testing.T, text string) (walks []*walk) {
	t.Helper()
	step := regexp.MustCompile("^(\\d+)\\. `([^`]+)`: `([^`]+)`")
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(line, "## "); ok {
			walks = append(walks, &walk{name: name})
			continue
		}
		if len(walks) == 0 {
			continue
		}
		w := walks[len(walks)-1]
		if m := step.FindStringSubmatch(line); m != nil {
			if m[1] != strconv.Itoa(len(w.steps)+1) {
				t.Errorf("%s: step %s comes after step %d", w.name, m[1], len(w.steps))
			}
			w.steps = append(w.steps, walkStep{file: m[2], function: m[3]})
			continue
		}
		if regexp.MustCompile(`^\d+\.`).MatchString(line) {
			t.Errorf("%s: not a step: %s", w.name, line)
		}
		if how, ok := strings.CutPrefix(line, "   → "); ok && len(w.steps) > 0 {
			w.steps[len(w.steps)-1].next = how
		}
	}
	return slices.DeleteFunc(walks, func(w *walk) bool { return len(w.steps) == 0 })
}

var (
	fromEarlier = regexp.MustCompile(`^(?:after the return to|as queued in|as written in|as returned in) step (\d+), (.*)$`)
	readLater   = regexp.MustCompile(`^(row of .*), read in step (\d+)$`)
	quotedNames = regexp.MustCompile("`([^`]+)`")
)

// reaches returns why step i, counted from 0, does not reach the next one as it says.
func (w *walk) reaches(i int) error {
	from, next, how := w.steps[i], w.steps[i+1], w.steps[i].next
	if m := fromEarlier.FindStringSubmatch(how); m != nil {
		k, _ := strconv.Atoi(m[1])
		if k < 1 || k > i {
			return fmt.Errorf("there is no step %d before it", k)
		}
		from, how = w.steps[k-1], m[2]
	}
	if m := readLater.FindStringSubmatch(how); m != nil {
		k, _ := strconv.Atoi(m[2])
		if k < i+2 || k > len(w.steps) {
			return fmt.Errorf("there is no step %d after it", k)
		}
		how, next = m[1], w.steps[k-1]
	}
	way, through, _ := strings.Cut(how, " through ")
	word, _, _ := strings.Cut(way, " ")
	var names, between []string
	for _, m := range quotedNames.FindAllStringSubmatch(way, -1) {
		names = append(names, m[1])
	}
	for _, m := range quotedNames.FindAllStringSubmatch(through, -1) {
		between = append(between, m[1])
	}
	start, err := sourceOf(from.file, from.function)
	if err != nil {
		return err
	}
	end, err := sourceOf(next.file, next.function)
	if err != nil {
		return err
	}
	wanted := map[string]int{"call": 0, "NOTIFY": 2, "statement": 1, "channel": 1, "row": 1, "field": 1, "value": 1}
	switch {
	case len(between) > 0 && word != "call" && word != "statement" && word != "channel":
		return fmt.Errorf("nothing is checked through %s", between[0])
	case word == "NOTIFY" && len(names) == 3: // who notifies is no step
		if start, err = functionOfDatabase(names[1]); err != nil {
			return err
		}
		return heard(start, end, names[0], names[2])
	case wanted[word] != len(names) || word != "call" && wanted[word] == 0:
		return fmt.Errorf("unknown way to the next step: %q", how)
	}
	switch word {
	case "call":
		return calls(from.file, next.file, start, between, end)
	case "statement":
		if start, err = leadsTo(from.file, start, between); err != nil {
			return err
		}
		return runs(start, names[0], end)
	case "channel":
		return passes(from.file, next.file, start, between, end, names[0])
	case "NOTIFY":
		return heard(start, end, names[0], names[1])
	case "row":
		return shares(start, end, "tidemark."+names[0])
	case "value":
		for _, s := range []*source{start, end} {
			if !s.mentions(names[0]) {
				return fmt.Errorf("%s has no %s", s.name, names[0])
			}
		}
		return nil
	}
	used := slices.ContainsFunc(w.steps[:i+1], func(s walkStep) bool {
		source, err := sourceOf(s.file, s.function)
		return err == nil && source.selects(names[0])
	})
	switch {
	case !used:
		return fmt.Errorf("no step up to it uses %s", names[0])
	case !end.sets(names[0]):
		return fmt.Errorf("%s does not set %s to a function", end.name, names[0])
	}
	return nil
}

// calls checks that each function calls the next one. Those between are in one of the two files.
func calls(from, to string, start *source, between []string, end *source) error {
	at := start
	for _, name := range between {
		next, err := sourceOf(from, name)
		if err != nil {
			next, err = sourceOf(to, name)
		}
		if err != nil {
			return fmt.Errorf("neither file defines %s", name)
		}
		if !at.calls(next) {
			return fmt.Errorf("%s does not call %s", at.name, next.called())
		}
		at = next
	}
	if !at.calls(end) {
		return fmt.Errorf("%s does not call %s", at.name, end.called())
	}
	return nil
}

// leadsTo follows calls inside a file to the last of the functions.
func leadsTo(file string, start *source, names []string) (*source, error) {
	for _, name := range names {
		next, err := sourceOf(file, name)
		if err != nil {
			return nil, err
		}
		if !start.calls(next) {
			return nil, fmt.Errorf("%s does not call %s", start.name, next.called())
		}
		start = next
	}
	return start, nil
}

// runs checks that a function uses a constant, whose statement calls a function of the database.
func runs(start *source, constant string, end *source) error {
	if !start.mentions(constant) {
		return fmt.Errorf("%s does not use %s", start.name, constant)
	}
	constants, err := constantsIn(filepath.Dir(start.file), "queries*.go")
	if err != nil {
		return err
	}
	if !strings.Contains(constants[constant], end.name+"(") {
		return fmt.Errorf("the constant %s has no %s", constant, end.name)
	}
	return nil
}

// passes checks that one function sends to a channel from which the other receives. Functions between are called
// by the one in whose file they are.
func passes(from, to string, start *source, between []string, end *source, channel string) error {
	for _, name := range between {
		if next, err := sourceOf(from, name); err == nil && start.calls(next) {
			start = next
			continue
		}
		next, err := sourceOf(to, name)
		if err != nil {
			return fmt.Errorf("neither file defines %s", name)
		}
		if !end.calls(next) {
			return fmt.Errorf("%s does not call %s", end.name, next.called())
		}
		end = next
	}
	switch {
	case !start.sends(channel):
		return fmt.Errorf("%s does not send to %s", start.name, channel)
	case !end.receives(channel):
		return fmt.Errorf("%s does not receive from %s", end.name, channel)
	}
	return nil
}

// heard checks that one function notifies on a channel of Postgres, and that the other waits for notifications in
// a file that uses the channel's constant.
func heard(start, end *source, channel, constant string) error {
	if !strings.Contains(start.text, "pg_notify('"+channel+"'") {
		return fmt.Errorf("%s does not notify on %s", start.name, channel)
	}
	if !end.mentions("WaitForNotification") {
		return fmt.Errorf("%s does not wait for notifications", end.name)
	}
	content, err := os.ReadFile(filepath.Join(root, end.file))
	if err != nil {
		return err
	}
	imported, name, _ := strings.Cut(constant, ".")
	m := regexp.MustCompile(`"github.com/tidemark-go/tidemark/(\S+/` + imported + `)"`).FindSubmatch(content)
	if m == nil || !strings.Contains(string(content), constant) {
		return fmt.Errorf("%s does not use %s", end.file, constant)
	}
	constants, err := constantsIn(string(m[1]), "*.go")
	if err == nil && constants[name] != channel {
		err = fmt.Errorf("%s is not %s", constant, channel)
	}
	return err
}

// shares checks that two functions use a table.
func shares(start, end *source, table string) error {
	for _, s := range []*source{start, end} {
		text, err := s.statements()
		if err != nil {
			return err
		}
		if !regexp.MustCompile(regexp.QuoteMeta(table) + `\b`).MatchString(text) {
			return fmt.Errorf("%s does not have %s in its statements", s.name, table)
		}
	}
	return nil
}
