package yamlfile_test

import (
	"fmt"
	"testing/fstest"

	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/event"
)

func ExampleLoad() {
	files := fstest.MapFS{"catalogue.yaml": {Data: []byte(`
types:
  character_created:
    version: 2
    aliases: [char_created]
    upcast:
      1: [{rename: {hp: hit_points}}]
`)}}
	types, err := yamlfile.Load(files, "catalogue.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	today, err := types.Current(event.Event{Type: "char_created", Version: 1, Payload: []byte(`{"hp":12}`)})
	fmt.Println(today.Type, today.Version, string(today.Payload), err)
	// Output:
	// character_created 2 {"hit_points":12} <nil>
}
