package lake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

const logDir = "_delta_log"

func entryName(version int64) string { return fmt.Sprintf("%s/%020d.json", logDir, version) }

// refresh reads the entries that the log has after the table's version.
func (s *Sink) refresh(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			s.table = nil
		}
	}()
	if s.table == nil {
		if err := s.load(ctx); err != nil {
			return err
		}
	} else if known := s.table.version; known >= 0 {
		switch last, err := s.folder.read(entryName(known)); {
		case errors.Is(err, fs.ErrNotExist): // a checkpoint of another process may have replaced it
			if err := s.load(ctx); err != nil {
				return err
			}
			if s.table.version < known {
				return fmt.Errorf("%s is gone: restore the folder, or name a new one", entryName(known))
			}
		case err != nil:
			return err
		case !bytes.Equal(last, s.table.last):
			return fmt.Errorf("%s has changed: restore the folder, or name a new one", entryName(known))
		}
	}
	before := s.table.version
	for {
		name := entryName(s.table.version + 1)
		text, err := s.folder.read(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && s.table.version > before:
			// The process that made the entry may have died before it was durable.
			return s.folder.sync(entryName(s.table.version))
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		actions, err := decode(text)
		if err == nil {
			err = s.table.apply(actions)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		s.table.version++
		s.table.last = text
	}
}

// load begins with the last checkpoint, or with nothing, and checks that no entry after it is missing.
func (s *Sink) load(ctx context.Context) error {
	checkpoint, next, missing := int64(-1), int64(0), int64(-1)
	for l, err := range s.folder.list(ctx, logDir) { // by name: a checkpoint comes before the entry of its version
		if err != nil {
			return err
		}
		switch version, kind := logFile(l.name); {
		case kind == checkpointKind:
			checkpoint, next, missing = version, version+1, -1
		case kind != entryKind || version < next:
		case version > next && missing < 0:
			missing = next
		default:
			next = version + 1
		}
	}
	if missing >= 0 {
		return fmt.Errorf("%s is missing: restore it, or name a new folder", entryName(missing))
	}
	s.table = &table{
		version: -1, checkpoint: -1, dirs: map[string][]data{}, gone: map[string]*remove{},
	}
	if checkpoint < 0 {
		return nil
	}
	return s.readCheckpoint(checkpoint)
}

const (
	entryKind      = "json"
	checkpointKind = "checkpoint.parquet"
)

// logFile returns the version and the kind of a file of the log, or no kind.
func logFile(name string) (version int64, kind string) {
	number, kind, _ := strings.Cut(path.Base(name), ".")
	version, err := strconv.ParseInt(number, 10, 64)
	if err != nil || kind != entryKind && kind != checkpointKind {
		return 0, ""
	}
	return version, kind
}

// commit adds and removes files by the table's next entry. change: the table gets rows by it.
// fs.ErrExist: another process has made that entry.
func (s *Sink) commit(ctx context.Context, operation string, change bool, added, removed []data) error {
	actions := []action{{Info: map[string]string{"operation": operation, "engineInfo": "tidemark"}}}
	now := time.Now().UnixMilli()
	if s.table.version < 0 {
		actions = append(actions,
			action{Protocol: &protocol{MinReaderVersion: 1, MinWriterVersion: 2}},
			action{MetaData: &metaData{
				ID: uuid.NewString(), Format: format{Provider: "parquet", Options: map[string]string{}}, SchemaString: columns(),
				PartitionColumns: partitionColumns(), Configuration: map[string]string{}, CreatedTime: now,
			}})
	}
	for _, f := range removed {
		actions = append(actions, action{Remove: &remove{Path: inLog(f.name), DeletionTimestamp: now, DataChange: change}})
	}
	for _, f := range added {
		actions = append(actions, f.action(change))
	}
	var entry bytes.Buffer
	for _, a := range actions {
		if err := json.NewEncoder(&entry).Encode(a); err != nil {
			return err
		}
	}
	_, err := s.folder.write(ctx, entryName(s.table.version+1), true, func(w io.Writer) error {
		_, err := w.Write(entry.Bytes())
		return err
	})
	if err != nil {
		return err
	}
	s.table.version++
	s.table.last = entry.Bytes()
	return s.table.apply(actions)
}
