package cli

import "encoding/json"

// PrintJSON writes document as indented JSON. It should be an object with a "version".
func (e *Env) PrintJSON(document any) error {
	encoder := json.NewEncoder(e.Out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(document)
}

// PrintJSONLine writes document as one line of JSON: for what goes on, such as a watch.
func (e *Env) PrintJSONLine(document any) error {
	encoder := json.NewEncoder(e.Out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}
