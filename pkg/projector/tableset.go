package projector

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/jackc/pgx/v5"
)

// tableSet is one of the sets of tables that a projection may have: those that are read, those that are to replace them, and those that were replaced. Each is
// registered under a name of its own, and followed like a projection of its own.
type tableSet string

const (
	liveTables     tableSet = ""
	nextTables     tableSet = "next"
	previousTables tableSet = "previous"
)

// setMark stands between a projection's name and its set's, where it is not the live one. No name has it.
const setMark = "~"

// of answers the name under which the projection's set is registered.
func (s tableSet) of(projection string) string {
	if s == liveTables {
		return projection
	}
	return projection + setMark + string(s)
}

// split answers the projection and the set that a registered name is of.
func split(name string) (projection string, set tableSet) {
	projection, which, _ := strings.Cut(name, setMark)
	return projection, tableSet(which)
}

// ProjectionOf answers the projection that a registered name is of: scores of scores~next and scores~previous too, which are the tables that are being built and those that were replaced.
func ProjectionOf(name string) string {
	projection, _ := split(name)
	return projection
}

// schemaBytes is the length of the longest name that Postgres does not cut off.
const schemaBytes = 63

// schema answers where the projection's set is; liveSchema is where those are that are read. A name that would be too long ends in a digest of the projection's.
func (s tableSet) schema(projection, liveSchema string) string {
	if s == liveTables {
		return liveSchema
	}
	name := "tidemark_" + string(s) + "_" + projection
	if len(name) > schemaBytes {
		digest := sha256.Sum256([]byte(projection))
		name = name[:schemaBytes-9] + "_" + hex.EncodeToString(digest[:4])
	}
	return name
}

// searchPath is that of a set's statements. pg_catalog is not named and therefore comes before all of it, while tables are still made in the first schema.
// What is not in a schema of its own, such as an extension's functions, is found where the tables are that are read.
func (s tableSet) searchPath(projection, liveSchema string) string {
	path := pgx.Identifier{liveSchema}.Sanitize() + ", pg_temp"
	if s == liveTables {
		return path
	}
	return pgx.Identifier{s.schema(projection, liveSchema)}.Sanitize() + ", " + path
}

// among answers the projection with one of its sets of tables.
func (k *known) among(s tableSet, liveSchema string) *known {
	set := &known{
		Projection: k.Projection, spec: k.spec, name: s.of(k.spec.Name), schema: s.schema(k.spec.Name, liveSchema), path: s.searchPath(k.spec.Name, liveSchema),
		types: k.types, onFailure: k.onFailure, onFailureOf: k.onFailureOf, chances: k.chances,
	}
	if s != liveTables {
		set.comment = "\n-- " + string(s)
	}
	return set
}
