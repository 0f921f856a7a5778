package lake

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// checkpointEvery is the number of entries after which a process writes a checkpoint.
const checkpointEvery = 100

func checkpointName(version int64) string {
	return fmt.Sprintf("%s/%020d.%s", logDir, version, checkpointKind)
}

// writeCheckpoint writes what the entries say up to now, so that the log can be read from here.
func (s *Sink) writeCheckpoint(ctx context.Context) error {
	rows := 0
	_, err := s.folder.write(ctx, checkpointName(s.table.version), false, func(w io.Writer) error {
		out := parquet.NewGenericWriter[action](w, parquet.Compression(&zstd.Codec{}), parquet.DataPageVersion(1),
			parquet.MaxRowsPerRowGroup(1<<16))
		for a := range s.table.actions {
			if _, err := out.Write([]action{a}); err != nil {
				return err
			}
			rows++
		}
		return out.Close()
	})
	if err != nil {
		return err
	}
	_, err = s.folder.write(ctx, logDir+"/_last_checkpoint", false, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, `{"version":%d,"size":%d}`, s.table.version, rows)
		return err
	})
	if err == nil {
		s.table.checkpoint = s.table.version
	}
	return err
}

// actions yields actions that make the table.
func (t *table) actions(yield func(action) bool) {
	if !yield(action{Protocol: &protocol{MinReaderVersion: 1, MinWriterVersion: 2}}) || !yield(action{MetaData: t.meta}) {
		return
	}
	for _, files := range t.dirs {
		for _, f := range files {
			if !yield(f.action(false)) {
				return
			}
		}
	}
	for _, r := range t.gone {
		if !yield(action{Remove: r}) {
			return
		}
	}
}

func (s *Sink) readCheckpoint(version int64) error {
	p, in, err := s.folder.parquet(checkpointName(version))
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	rows := parquet.NewGenericReader[action](p)
	defer func() { _ = rows.Close() }()
	for err == nil {
		read := make([]action, 256)
		var n int
		n, err = rows.Read(read)
		if err := s.table.apply(read[:n]); err != nil {
			return fmt.Errorf("read %s: %w", checkpointName(version), err)
		}
	}
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", checkpointName(version), err)
	}
	s.table.version, s.table.checkpoint = version, version
	s.table.last, err = s.folder.read(entryName(version))
	return err
}
