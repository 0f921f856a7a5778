package catalogue_test

import (
	"encoding/json"
	"fmt"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/jsonschema"
	"github.com/tidemark-go/tidemark/pkg/event"
)

func ExampleNew() {
	types, err := catalogue.New(
		catalogue.EventType{
			Name:    "character_created",
			Aliases: []string{"char_created"},
			Version: 3,
			Upcast: map[int]catalogue.Upcaster{
				1: catalogue.Chain(catalogue.Rename("hp", "hit_points"), catalogue.Default("level", 1)),
				2: catalogue.Convert(func(payload json.RawMessage) (json.RawMessage, error) {
					var p struct {
						Name      string `json:"name"`
						HitPoints int    `json:"hit_points"`
						Level     int    `json:"level"`
					}
					if err := json.Unmarshal(payload, &p); err != nil {
						return nil, err
					}
					return json.Marshal(map[string]any{
						"name":  p.Name,
						"stats": map[string]int{"hit_points": p.HitPoints, "level": p.Level},
					})
				}),
			},
			Schema: jsonschema.MustCompile(`{
				"type": "object",
				"required": ["name", "stats"],
				"properties": {"name": {"type": "string", "minLength": 1}, "stats": {"type": "object"}}
			}`),
		},
		catalogue.EventType{Name: "dice_rolled", Intent: event.ReplayOnly},
	)
	if err != nil {
		fmt.Println(err)
		return
	}

	// This event was stored when the type was called char_created and hit points were called hp.
	old := event.Event{Type: "char_created", Version: 1, Payload: json.RawMessage(`{"name":"Åsa","hp":12}`)}
	today, err := types.Current(old)
	fmt.Println(today.Type, today.Version, string(today.Payload), err)
	fmt.Println(types.Names("character_created"))
	// Output:
	// character_created 3 {"name":"Åsa","stats":{"hit_points":12,"level":1}} <nil>
	// [character_created char_created]
}
