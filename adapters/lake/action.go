package lake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// action is a line of an entry of the log, and a row of a checkpoint, by the protocol of Delta Lake:
// https://github.com/delta-io/delta/blob/master/PROTOCOL.md. One field is set.
type action struct {
	Protocol *protocol         `json:"protocol,omitempty" parquet:"protocol,optional"`
	MetaData *metaData         `json:"metaData,omitempty" parquet:"metaData,optional"`
	Add      *add              `json:"add,omitempty" parquet:"add,optional"`
	Remove   *remove           `json:"remove,omitempty" parquet:"remove,optional"`
	Info     map[string]string `json:"commitInfo,omitempty" parquet:"-"`
}

type protocol struct {
	MinReaderVersion int32 `json:"minReaderVersion" parquet:"minReaderVersion"`
	MinWriterVersion int32 `json:"minWriterVersion" parquet:"minWriterVersion"`
}

type metaData struct {
	ID               string            `json:"id" parquet:"id"`
	Format           format            `json:"format" parquet:"format"`
	SchemaString     string            `json:"schemaString" parquet:"schemaString"`
	PartitionColumns []string          `json:"partitionColumns" parquet:"partitionColumns,list"`
	Configuration    map[string]string `json:"configuration" parquet:"configuration"`
	CreatedTime      int64             `json:"createdTime" parquet:"createdTime"`
}

type format struct {
	Provider string            `json:"provider" parquet:"provider"`
	Options  map[string]string `json:"options" parquet:"options"`
}

type add struct {
	Path             string            `json:"path" parquet:"path"`
	PartitionValues  map[string]string `json:"partitionValues" parquet:"partitionValues"`
	Size             int64             `json:"size" parquet:"size"`
	ModificationTime int64             `json:"modificationTime" parquet:"modificationTime"`
	DataChange       bool              `json:"dataChange" parquet:"dataChange"`
	Stats            string            `json:"stats,omitempty" parquet:"stats,optional"`
}

type remove struct {
	Path              string `json:"path" parquet:"path"`
	DeletionTimestamp int64  `json:"deletionTimestamp" parquet:"deletionTimestamp"`
	DataChange        bool   `json:"dataChange" parquet:"dataChange"`
}

type stats struct {
	NumRecords int64    `json:"numRecords"`
	MinValues  position `json:"minValues"`
	MaxValues  position `json:"maxValues"`
}

type position struct {
	Position int64 `json:"position"`
}

func (s stats) String() string {
	return fmt.Sprintf(`{"numRecords":%d,"minValues":{"position":%d},"maxValues":{"position":%d}}`,
		s.NumRecords, s.MinValues.Position, s.MaxValues.Position)
}

func decode(entry []byte) (actions []action, err error) {
	lines := json.NewDecoder(bytes.NewReader(entry))
	for {
		var a action
		if err := lines.Decode(&a); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("it is damaged: restore it, or name a new folder: %w", err)
		}
		actions = append(actions, a)
	}
	if len(actions) == 0 {
		return nil, errors.New("it is empty: restore it, or name a new folder")
	}
	return actions, nil
}
