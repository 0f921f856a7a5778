package ndjson

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// The size of a batch, which bounds the memory of an import.
const (
	batchLines = 1000
	batchBytes = 8 << 20
)

// batch holds the lines that are appended in one transaction.
type batch struct {
	entries []entry
	last    int64 // number of the last line read
	bytes   int64 // of the input, read so far
	broken  error // why reading stopped before the end: a [*LineError] or a read error
	final   bool  // the last batch
}

type entry struct {
	number int64
	event  event.Event
}

// readBatches reads in to its end, one batch ahead, and closes batches. It stops early when ctx ends.
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
		event, bad := event.Event{}, tooLong
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

// maxLineBytes is the maximum length of a line. The journal takes payloads of 1 MiB; with every
// character escaped, they are six times as long.
const maxLineBytes = 8 << 20

type lineReader struct {
	in     *bufio.Reader
	number int64 // of the last line read, from 1
	bytes  int64 // read so far
}

// next returns the next line without its newline; it stays valid after further calls. A line that is
// too long is skipped: next returns an empty text and tooLong. At the end err is io.EOF.
func (r *lineReader) next() (text []byte, tooLong, err error) {
	r.number++
	for {
		part, err := r.in.ReadSlice('\n')
		r.bytes += int64(len(part))
		if tooLong == nil && len(text)+len(part) > maxLineBytes+len("\r\n") {
			text, tooLong = nil,
				fmt.Errorf("is longer than %d bytes: store the bulk elsewhere and write a reference", maxLineBytes)
		}
		if tooLong == nil {
			text = append(text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (len(text) > 0 || tooLong != nil): // the last line has no newline
		case err != nil:
			return nil, nil, err
		}
		if r.number == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // a byte order mark
		}
		return bytes.TrimRight(text, "\r\n"), tooLong, nil
	}
}
