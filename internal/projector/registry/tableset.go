package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/jackc/pgx/v5"
)

// TableSet is one of the sets of tables that a projection may have: those that are read, those that
// are to replace them, and those that were replaced. Each is registered under a name of its own,
// and followed like a projection of its own.
type TableSet string

// The sets.
const (
	LiveTables     TableSet = ""
	NextTables     TableSet = "next"
	PreviousTables TableSet = "previous"
)

// setMark stands between a projection's name and its set's, where it is not the live one. No name has it.
const setMark = "~"

// Of answers the name under which the projection's set is registered.
func (s TableSet) Of(projection string) string {
	if s == LiveTables {
		return projection
	}
	return projection + setMark + string(s)
}

// Split answers the projection and the set that a registered name is of.
func Split(name string) (projection string, set TableSet) {
	projection, which, _ := strings.Cut(name, setMark)
	return projection, TableSet(which)
}

// ProjectionOf answers the projection that a registered name is of: scores of scores~next and
// scores~previous too, which are the tables that are being built and those that were replaced.
func ProjectionOf(name string) string {
	projection, _ := Split(name)
	return projection
}

// schemaBytes is the length of the longest name that Postgres does not cut off.
const schemaBytes = 63

// Schema answers where the projection's set is; liveSchema is where those are that are read. A name
// that would be too long ends in a digest of the projection's.
func (s TableSet) Schema(projection, liveSchema string) string {
	if s == LiveTables {
		return liveSchema
	}
	name := "tidemark_" + string(s) + "_" + projection
	if len(name) > schemaBytes {
		digest := sha256.Sum256([]byte(projection))
		name = name[:schemaBytes-9] + "_" + hex.EncodeToString(digest[:4])
	}
	return name
}

// SearchPath is that of a set's statements. pg_catalog is not named and therefore comes before all
// of it, while tables are still made in the first schema. What is not in a schema of its own, such
// as an extension's functions, is found where the tables are that are read.
func (s TableSet) SearchPath(projection, liveSchema string) string {
	path := pgx.Identifier{liveSchema}.Sanitize() + ", pg_temp"
	if s == LiveTables {
		return path
	}
	return pgx.Identifier{s.Schema(projection, liveSchema)}.Sanitize() + ", " + path
}

// among answers the projection with one of its sets of tables.
func (k *Projection) among(s TableSet, liveSchema string) *Projection {
	set := &Projection{
		Projection: k.Projection, Described: k.Described, Name: s.Of(k.Described.Name),
		Schema: s.Schema(k.Described.Name, liveSchema), Path: s.SearchPath(k.Described.Name, liveSchema),
		types: k.types, onFailure: k.onFailure, onFailureOf: k.onFailureOf,
	}
	if s != LiveTables {
		set.Comment = "\n-- " + string(s)
	}
	return set
}
