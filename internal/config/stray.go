package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

const prefix = "TIDEMARK_"

// Stray returns a sentence for each variable in environ that starts with TIDEMARK_ and that no
// program reads. It names the most similar variable. It ignores the variables that Kubernetes sets
// for services named tidemark. environ has the format of [os.Environ].
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
		found = append(found, fmt.Sprintf("%s is set, but it is not a setting; the closest is %s", name, near))
	}
	slices.Sort(found)
	return found
}

func variables() []string {
	_, set := NewWorker(pflag.NewFlagSet("", pflag.ContinueOnError))
	known := []string{"TIDEMARK_POSTGRES_BIN", "TIDEMARK_MODEL_CHECKS", envModels}
	known = slices.AppendSeq(known, maps.Values(set.env))
	slices.Sort(known)
	return known
}

// ofOthers reports whether a variable belongs to tests, benchmarks or a Kubernetes service.
func ofOthers(name string) bool {
	return strings.HasPrefix(name, "TIDEMARK_TEST_") || strings.HasPrefix(name, "TIDEMARK_BENCH_") ||
		regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT(_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)?$`).
			MatchString(name)
}

// distance returns the number of letters to insert, delete or change to turn one word into the other.
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
