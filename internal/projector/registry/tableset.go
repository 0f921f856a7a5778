package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/failed"
)

// TableSet is one of a projection's sets of tables: the live one, the next one to replace it, and
// the previous one. Each is registered under its own name and applied like a projection.
type TableSet string

// The sets.
const (
	LiveTables     TableSet = ""
	NextTables     TableSet = "next"
	PreviousTables TableSet = "previous"
)

// setMark separates a projection's name from a set that is not live. No projection name contains it.
const setMark = "~"

// Of returns the name under which the projection's set is registered.
func (s TableSet) Of(projection string) string {
	if s == LiveTables {
		return projection
	}
	return projection + setMark + string(s)
}

// Split returns the projection and the set of a registered name.
func Split(name string) (projection string, set TableSet) {
	projection, which, _ := strings.Cut(name, setMark)
	return projection, TableSet(which)
}

// ProjectionOf returns the projection of a registered name: scores also for scores~next and
// scores~previous, the tables being built and those that were replaced.
func ProjectionOf(name string) string {
	projection, _ := Split(name)
	return projection
}

// schemaBytes is the longest name that Postgres does not truncate.
const schemaBytes = 63

// Schema returns the schema of the projection's set; liveSchema holds the live sets. A name that is
// too long ends in a digest of the projection's name.
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

// SearchPath returns the search_path of a set's statements. pg_catalog is not named, so it comes
// first while tables are still created in the first named schema. liveSchema follows, for objects
// such as an extension's functions.
func (s TableSet) SearchPath(projection, liveSchema string) string {
	path := pgx.Identifier{liveSchema}.Sanitize() + ", pg_temp"
	if s == LiveTables {
		return path
	}
	return pgx.Identifier{s.Schema(projection, liveSchema)}.Sanitize() + ", " + path
}

// among returns the projection with one of its sets of tables.
func (k *Projection) among(s TableSet, liveSchema string) *Projection {
	set := &Projection{
		Projection: k.Projection, Described: k.Described, Keys: k.Keys, Name: s.Of(k.Described.Name),
		Schema: s.Schema(k.Described.Name, liveSchema), Path: s.SearchPath(k.Described.Name, liveSchema),
		types: k.types, onFailure: k.onFailure, onFailureOf: k.onFailureOf,
	}
	if s != LiveTables {
		set.Comment = "\n-- " + string(s)
	}
	return set
}

// DropBatch is how many failed campaigns are deleted per transaction.
const DropBatch = 10_000

// ClearLeft deletes, in batches, the failed campaigns of all sets of an unregistered projection.
// Each batch holds the registry's lock shared, so the projection cannot be registered during it.
func ClearLeft(ctx context.Context, db Beginner, group, name string) error {
	for _, s := range []TableSet{NextTables, PreviousTables, LiveTables} {
		for more := true; more; {
			if err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, QueryRegistryShared, group); err != nil {
					return err
				}
				var now string
				if err := tx.QueryRow(ctx, queryGroupOf, []string{name}).Scan(&now); err != nil || now != "" {
					more = false
					return err
				}
				n, err := failed.Drop(ctx, tx, group, s.Of(name), DropBatch)
				more = n == DropBatch
				return err
			}); err != nil {
				return err
			}
		}
	}
	return nil
}
