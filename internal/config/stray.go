package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

const prefix = "TIDEMARK_"

// Stray answers a sentence for each variable of an environment (as [os.Environ] has it) that begins
// with TIDEMARK_ and that no program reads, with the name that is most like it. Kubernetes sets
// variables of its own for services named tidemark: those are left alone.
func Stray(environ []string) (found []string) {
	known := variables()
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, prefix) || slices.Contains(known, name) || ofOthers(name) {
			continue
		}
		near, least := "", len(name)
		for _, k := range known {
			if d := distance(name, k); d < least {
				near, least = k, d
			}
		}
		found = append(found, fmt.Sprintf("%s is set, but nothing reads it; most like it is %s", name, near))
	}
	slices.Sort(found)
	return found
}

// variables are all that our programs read.
func variables() []string {
	_, set := NewWorker(pflag.NewFlagSet("", pflag.ContinueOnError))
	known := []string{"TIDEMARK_POSTGRES_BIN", "TIDEMARK_MODEL_CHECKS"}
	for _, name := range set.env {
		known = append(known, name)
	}
	slices.Sort(known)
	return known
}

// ofOthers says whether a variable is one of tests, of measurements, or of Kubernetes for a service.
func ofOthers(name string) bool {
	return strings.HasPrefix(name, "TIDEMARK_TEST_") || strings.HasPrefix(name, "TIDEMARK_BENCH_") ||
		regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT(_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)?$`).
			MatchString(name)
}

// distance is how many letters are to be put in, taken out or changed to make one word the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
