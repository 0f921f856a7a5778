package yamlfile_test

import (
	"fmt"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// OrderPlaced and OrderPaid are event types of a program.
const (
	OrderPlaced event.Type[Placed]   = "order_placed"
	OrderPaid   event.Type[struct{}] = "order_paid"
)

// Placed is the payload of [OrderPlaced].
type Placed struct {
	Customer string `json:"customer"`
	Email    string `json:"email"`
	Total    int    `json:"total"`
}

func orders() (*catalogue.Catalogue, error) {
	types, err := catalogue.New(
		catalogue.EventType{
			Type: OrderPlaced, Version: 2, Upcast: map[int]catalogue.Upcaster{1: catalogue.Rename("mail", "email")},
			Subject: []string{"customer"}, Personal: []string{"email"},
		},
		catalogue.EventType{Type: OrderPaid},
	)
	if err != nil {
		return nil, err
	}
	return types.RefuseUnknown(), nil
}

// A program declares its event types in Go, and writes the file for the worker and the commands.
func ExampleWrite() {
	types, err := orders()
	if err != nil {
		fmt.Println(err)
		return
	}
	file, err := yamlfile.Write(types)
	fmt.Print(string(file))
	fmt.Println(err)
	// Output:
	// unknown_types: refuse
	//
	// types:
	//   order_paid:
	//   order_placed:
	//     version: 2
	//     upcast:
	//       1:
	//         - {"move": {"mail": "email"}}
	//     subject: ["customer"]
	//     personal: ["email"]
	// <nil>
}
