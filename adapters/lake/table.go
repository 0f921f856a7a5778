package lake

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"path"
	"slices"
)

// table is what the log says, up to a version.
type table struct {
	version    int64  // -1: the table has no entry
	last       []byte // the entry of version
	checkpoint int64  // the version of the last checkpoint; -1: none
	meta       *metaData
	dirs       map[string][]data
	gone       map[string]*remove // files that are no part of the table any more, by name, until they are deleted
}

// data is a data file.
type data struct {
	stats
	name     string
	values   map[string]string // of the columns day and type
	size     int64
	modified int64 // in ms since 1970
}

// inLog returns a file's name as the log writes it.
func inLog(name string) string { return (&url.URL{Path: name}).EscapedPath() }

// action adds the file. change: the table gets rows by it.
func (f data) action(change bool) action {
	return action{Add: &add{
		Path: inLog(f.name), PartitionValues: f.values, Size: f.size, ModificationTime: f.modified, DataChange: change,
		Stats: f.String(),
	}}
}

func (t *table) apply(actions []action) error {
	for _, a := range actions {
		switch {
		case a.Protocol != nil && (a.Protocol.MinReaderVersion > 1 || a.Protocol.MinWriterVersion > 2):
			return fmt.Errorf("the table needs reader version %d and writer version %d of Delta Lake, this sink has 1 and 2: "+
				"name another folder", a.Protocol.MinReaderVersion, a.Protocol.MinWriterVersion)
		case a.MetaData != nil:
			if a.MetaData.SchemaString != columns() || !slices.Equal(a.MetaData.PartitionColumns, partitionColumns()) {
				return errors.New("the table has other columns than this sink's: name another folder")
			}
			t.meta = a.MetaData
		case a.Add != nil:
			name, err := url.PathUnescape(a.Add.Path)
			if err != nil {
				return err
			}
			t.add(name, a.Add)
		case a.Remove != nil:
			name, err := url.PathUnescape(a.Remove.Path)
			if err != nil {
				return err
			}
			t.drop(name)
			t.gone[name] = a.Remove
		}
	}
	return nil
}

func partitionColumns() []string { return []string{"day", "type"} }

func (t *table) add(name string, a *add) {
	t.drop(name)
	delete(t.gone, name)
	f := data{name: name, values: a.PartitionValues, size: a.Size, modified: a.ModificationTime}
	f.MinValues.Position, f.MaxValues.Position = math.MinInt64, math.MaxInt64
	_ = json.Unmarshal([]byte(a.Stats), &f.stats) // without them the file may have any position
	in := path.Dir(name)
	if others := t.dirs[in]; len(others) > 0 {
		f.values = others[0].values // share memory
	}
	t.dirs[in] = append(t.dirs[in], f)
}

func (t *table) drop(name string) {
	in := path.Dir(name)
	t.dirs[in] = slices.DeleteFunc(t.dirs[in], func(f data) bool { return f.name == name })
}

// has reports whether a file is part of the table.
func (t *table) has(name string) bool {
	return slices.ContainsFunc(t.dirs[path.Dir(name)], func(f data) bool { return f.name == name })
}
