package projector_test

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// parallel is how many tests run at the same time, at least: they wait for the database, and for
// deadlines, more than for a processor.
const parallel = 6

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(max(parallel, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	pgtest.Main(m)
}
