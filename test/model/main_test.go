package model_test

import (
	"cmp"
	"flag"
	"os"
	"testing"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// checksEnv sets the number of random runs. standardChecks take a few seconds.
const (
	checksEnv      = "TIDEMARK_MODEL_CHECKS"
	standardChecks = "10"
)

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", cmp.Or(os.Getenv(checksEnv), standardChecks)); err != nil {
		panic(err)
	}
	pgtest.Main(m)
}
