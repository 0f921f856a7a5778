package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// asProgram makes the test binary act as githistory itself, for tests that kill it.
const asProgram = "GITHISTORY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	// The runs under test and their repositories see the same git configuration: none.
	for name, value := range map[string]string{"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	pgtest.Main(m)
}
