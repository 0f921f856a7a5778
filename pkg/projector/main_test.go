package projector_test

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// parallel is the least number of tests that run at once. They wait for the database and for
// deadlines more than for a processor.
const parallel = 6

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(max(parallel, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	pgtest.Main(m)
}
