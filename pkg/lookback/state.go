package lookback

import (
	"encoding/json"
	"errors"
)

// ErrStateTooLarge is returned by AsOf and Diff of a projector for rows of more than 32 MiB.
var ErrStateTooLarge = errors.New("rows come to more than 32 MiB: choose an earlier event, or query the live tables")

// State holds a projection's rows of one campaign after one of its events.
type State struct {
	Projection string
	Version    int
	CampaignID string
	Seq        int64
	Tables     []StateTable // in the order of their creation
}

// StateTable holds the rows of a table.
type StateTable struct {
	Table   string
	Key     []string          // columns of the primary key; empty: none
	Columns []string          // all, in table order
	Rows    []json.RawMessage // objects, in the order of the key
}

// ChangeKind is the kind of change of a row.
type ChangeKind string

// The kinds of changes.
const (
	ChangeAdded   ChangeKind = "added"
	ChangeRemoved ChangeKind = "removed"
	ChangeChanged ChangeKind = "changed"
)

// Change is the change of a row between two events.
type Change struct {
	Kind          ChangeKind
	Table         string
	Key           json.RawMessage // an array: the primary key's values; nil: the table has none
	Before, After json.RawMessage // the row as an object; nil: no such row
	Columns       []string        // the changed columns, in order
}
