package sqlfile_test

import (
	"fmt"
	"os"

	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
)

func ExampleLoadDir() {
	projections, err := sqlfile.LoadDir(os.DirFS("../testdata/sqlfile"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range projections {
		fmt.Println(p.Spec().Name, p.Spec().Types)
	}
	// Output: sessions [session_started session_ended session_aborted]
}
