package ndjson

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// A batch holds as many lines as these bounds allow: they bound the memory that an import takes.
const (
	batchLines = 1000
	batchBytes = 8 << 20
)

// batch is the lines that are appended in one transaction.
type batch struct {
	entries []entry
	last    int64 // the number of the line read last
	bytes   int64 // of the input, read up to here
	broken  error // why nothing follows, if that is not the end of the input: a [*LineError], or one of reading
	final   bool  // nothing comes after it
}

// entry is the event of a line.
type entry struct {
	number int64
	event  journal.Event
}

// readBatches reads in to its end, one batch ahead of the reader, and closes batches. It
// ends early when ctx does.
func readBatches(ctx context.Context, in io.Reader, cfg ImportConfig, batches chan<- batch) {
	defer close(batches)
	lines := &lineReader{in: bufio.NewReaderSize(in, 1<<16)}
	for {
		b, more := readBatch(lines, cfg)
		b.final = !more
		select {
		case batches <- b:
		case <-ctx.Done():
			return
		}
		if !more {
			return
		}
	}
}

// readBatch reads lines until the batch is full, a line is bad, or the input ends.
func readBatch(lines *lineReader, cfg ImportConfig) (b batch, more bool) {
	defer func() { b.last, b.bytes = lines.number, lines.bytes }()
	for size := 0; len(b.entries) < batchLines && size < batchBytes; {
		text, tooLong, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return b, false
		case err != nil:
			b.broken = fmt.Errorf("read line %d: %w", lines.number, err)
			return b, false
		case tooLong == nil && len(bytes.TrimSpace(text)) == 0:
			continue
		}
		event, bad := journal.Event{}, tooLong
		if bad == nil {
			event, bad = parse(text)
		}
		if bad != nil {
			b.broken = &LineError{lines.number, bad}
			return b, false
		}
		if event.ID == uuid.Nil {
			event.ID = derivedID(cfg.Source, lines.number, text)
		}
		b.entries = append(b.entries, entry{lines.number, event})
		size += len(text)
	}
	return b, true
}
