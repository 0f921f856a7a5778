package ndjson

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLineBytes is the longest line that is read. The journal
// takes payloads of 1 MiB; written with an escape for every character, they are six times as long.
const maxLineBytes = 8 << 20

// lineReader reads numbered lines of bounded length.
type lineReader struct {
	in     *bufio.Reader
	number int64 // of the line read last, from 1
	bytes  int64 // read so far
}

// next returns the next line without its end, which stays valid after further calls. A line that is
// too long is read over: it comes back empty, with an error that is not the end. At the end there
// is io.EOF.
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
		case errors.Is(err, io.EOF) && (len(text) > 0 || tooLong != nil): // a last line without an end
		case err != nil:
			return nil, nil, err
		}
		if r.number == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // a byte order mark
		}
		return bytes.TrimRight(text, "\r\n"), tooLong, nil
	}
}
