package journal

// Intent answers what events of type t are for, by its current name or an alias; "" for a type that
// the catalogue does not know.
func (c *Catalogue) Intent(t string) Intent {
	if known := c.find(t); known != nil {
		return known.intent
	}
	return ""
}
