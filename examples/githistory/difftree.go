package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"
)

// commit is one step of the history.
type commit struct {
	hash    string
	time    time.Time // of the commit, not of its authorship: it usually grows along the history
	author  string
	changes iter.Seq2[change, error] // of the tree; read them before asking for the next commit
}

// change is one path that differs between two trees.
type change struct {
	status               byte // A, D, M, T, R or C, as git diff-tree names them
	oldMode, newMode     string
	oldObject, newObject string
	path                 string // bytes as git holds them: not always UTF-8
	from                 string // the old path of a rename (R) or copy (C)
}

// headerFormat is the header that diff-tree prints before the changes of a commit: hash, time,
// author.
const headerFormat = "%H %ct %an"

// diffReader parses the output of `diff-tree --stdin -z --raw --format=…`: fields that end in NUL.
// A commit's header is a field, and so is each path. The description of a change starts with a
// colon, the first one of a commit with a newline and a colon.
type diffReader struct {
	in   *bufio.Reader
	next string // a field read ahead; "" if none
}

// readDiffTree yields the commits until there are no more or yield returns false.
func readDiffTree(in *bufio.Reader, yield func(commit) bool) error {
	d := &diffReader{in: in}
	for {
		header, err := d.field()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		c, err := parseHeader(header)
		if err != nil {
			return err
		}
		var failed error
		c.changes = d.changes(&failed)
		if !yield(c) {
			return nil
		}
		for _, err := range c.changes { // changes that yield did not read
			if err != nil {
				return err
			}
		}
		if failed != nil {
			return failed
		}
	}
}

// changes reads the changes of one commit. It yields an error and also stores it in failed for the
// loop above.
func (d *diffReader) changes(failed *error) iter.Seq2[change, error] {
	return func(yield func(change, error) bool) {
		for *failed == nil {
			description, err := d.field()
			if errors.Is(err, io.EOF) {
				return
			}
			description = strings.TrimPrefix(description, "\n")
			if err == nil && !strings.HasPrefix(description, ":") { // the next commit
				d.next = description
				return
			}
			var ch change
			if err == nil {
				ch, err = d.change(description)
			}
			*failed = err
			if !yield(ch, err) {
				return
			}
		}
	}
}

// change reads the paths that follow a description.
func (d *diffReader) change(description string) (change, error) {
	fields := strings.Fields(strings.TrimPrefix(description, ":"))
	if len(fields) != 5 || len(fields[4]) == 0 {
		return change{}, fmt.Errorf("diff-tree printed %q where a change was due", description)
	}
	ch := change{
		oldMode: fields[0], newMode: fields[1],
		oldObject: fields[2], newObject: fields[3],
		status: fields[4][0],
	}
	var err error
	if ch.path, err = d.field(); err != nil {
		return change{}, fmt.Errorf("read the path of %q: %w", description, noEOF(err))
	}
	if ch.status == 'R' || ch.status == 'C' {
		ch.from = ch.path
		if ch.path, err = d.field(); err != nil {
			return change{}, fmt.Errorf("read the new path of %q: %w", description, noEOF(err))
		}
	}
	return ch, nil
}

// field reads up to the next NUL. It skips empty fields: git prints them between commits, and they
// mean nothing.
func (d *diffReader) field() (string, error) {
	if d.next != "" {
		field := d.next
		d.next = ""
		return field, nil
	}
	for {
		field, err := d.in.ReadString(0)
		switch {
		case errors.Is(err, io.EOF) && field != "":
			return "", fmt.Errorf("diff-tree ended within %q: %w", field, io.ErrUnexpectedEOF)
		case err != nil:
			return "", err
		case field != "\x00":
			return strings.TrimSuffix(field, "\x00"), nil
		}
	}
}

func parseHeader(header string) (commit, error) {
	hash, rest, _ := strings.Cut(header, " ")
	seconds, author, _ := strings.Cut(rest, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return commit{}, fmt.Errorf("diff-tree printed %q where a commit was due", header)
	}
	// A commit may claim any time. Events carry RFC 3339 times, which end with the year 9999.
	unix = min(max(unix, 0), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).Unix())
	return commit{hash: hash, time: time.Unix(unix, 0).UTC(), author: author}, nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
