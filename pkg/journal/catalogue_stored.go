package journal

// AsStored says whether events read as type t are just those that the journal holds under that
// name, unchanged: t has no alias and is none, and no upcaster leads to its current version. They
// must then have the version only; 0 means any, which is so for types the catalogue does not know.
// [Catalogue.Current] answers those of another version with an error.
func (c *Catalogue) AsStored(t string) (only int, ok bool) {
	known := c.find(t)
	switch {
	case known == nil:
		return 0, true
	case known.name != t || len(known.names) > 1 || known.oldest < known.version:
		return 0, false
	}
	return known.version, true
}
