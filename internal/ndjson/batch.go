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

// A batch holds as many lines as these bounds allow: they bound the memory that an import takes. By
// campaign, more lines are better: what counts is how many of one campaign come together.
const (
	batchLines           = 1000
	batchLinesByCampaign = 5000
	batchBytes           = 8 << 20
)

// batch is the lines that are appended in one transaction.
type batch struct {
	entries []entry
	last    int64 // the number of the line read last
	bytes   int64 // of the input, read up to here
	broken  error // why nothing follows, if that is not the end of the input
	final   bool  // nothing comes after it
}

// entry is a line: an event, or what is wrong with it.
type entry struct {
	number int64
	text   []byte
	event  journal.Event
	bad    error
}

// good are the entries that hold events.
func (b *batch) good() []*entry {
	all := make([]*entry, 0, len(b.entries))
	for k := range b.entries {
		if b.entries[k].bad == nil {
			all = append(all, &b.entries[k])
		}
	}
	return all
}

// readBatches reads in to its end, one batch ahead of the reader, and closes batches. It
// ends early when ctx does.
func readBatches(ctx context.Context, in io.Reader, cfg ImportConfig, batches chan<- batch) {
	defer close(batches)
	lines := &lineReader{in: bufio.NewReaderSize(in, 1<<16), limit: cfg.MaxLineBytes}
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

// readBatch reads lines until the batch is full or the input ends. If a bad line ends the import,
// it ends the batch as well.
func readBatch(lines *lineReader, cfg ImportConfig) (b batch, more bool) {
	defer func() { b.last, b.bytes = lines.number, lines.bytes }()
	limit := batchLines
	if cfg.ByCampaign {
		limit = batchLinesByCampaign
	}
	for size := 0; len(b.entries) < limit && size < batchBytes; {
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
		e := entry{number: lines.number, text: text, bad: tooLong}
		if e.bad == nil {
			e.event, e.bad = parse(text)
		}
		if e.bad == nil && e.event.ID == uuid.Nil {
			e.event.ID = derivedID(cfg.Source, e.number, text)
		}
		b.entries = append(b.entries, e)
		size += len(text)
		if e.bad != nil && cfg.Reject == nil {
			return b, false
		}
	}
	return b, true
}
