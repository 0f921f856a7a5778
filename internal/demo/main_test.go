package demo

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// parentEnv makes the test binary a parent that starts one worker, says its pid and waits to be killed.
const parentEnv = "DEMO_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentEnv) == "" {
		pgtest.Main(m)
		return
	}
	w, err := startWorker(1, exec.Command("sleep", "600"), "")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(w.pid)
	<-w.done
}
