package lake

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
)

// folder keeps the files of a table under names with slashes.
type folder string

type listed struct {
	name     string
	modified time.Time
}

// unfinished begins the names of files that are being written. Readers take no name with a dot for data.
const unfinished = ".unfinished-"

func (f folder) path(name string) string { return filepath.Join(string(f), filepath.FromSlash(name)) }

func (f folder) read(name string) ([]byte, error) { return os.ReadFile(f.path(name)) }

// parquet opens a data file or a checkpoint. The caller closes what it returns.
func (f folder) parquet(name string) (*parquet.File, io.Closer, error) {
	in, err := os.Open(f.path(name))
	if err != nil {
		return nil, nil, err
	}
	info, err := in.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, in.Close())
	}
	p, err := parquet.OpenFile(in, info.Size())
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read %s: it is damaged: restore it, or name a new folder: %w", name, err),
			in.Close())
	}
	return p, in, nil
}

// write makes a file visible once it is whole and durable, and returns its size. If exclusive, it
// returns fs.ErrExist if there is a file of that name, and never replaces it.
func (f folder) write(
	ctx context.Context, name string, exclusive bool, fill func(io.Writer) error,
) (size int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := f.exists(); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(filepath.Dir(f.path(name)), 0o755); err != nil {
		return 0, err
	}
	temporary, err := os.CreateTemp(filepath.Dir(f.path(name)), unfinished)
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.Remove(temporary.Name()) }()
	buffered := bufio.NewWriterSize(temporary, 1<<16)
	err = errors.Join(fill(buffered), buffered.Flush(), temporary.Chmod(0o644), temporary.Sync())
	info, statErr := temporary.Stat()
	if err := errors.Join(err, statErr, temporary.Close()); err != nil {
		return 0, err
	}
	if exclusive {
		err = os.Link(temporary.Name(), f.path(name))
	} else {
		err = os.Rename(temporary.Name(), f.path(name))
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), f.sync(name)
}

// exists does not create the folder: it may be missing because its disk is not mounted.
func (f folder) exists() error {
	info, err := os.Stat(string(f))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no folder %s: create it, or mount its disk", string(f))
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is no folder: name one in path", string(f))
	}
	return err
}

// sync makes the name durable, and those of the folders that it is in.
func (f folder) sync(name string) error {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		d, err := os.Open(f.path(dir))
		if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil || dir == "." {
			return err
		}
	}
}

// list returns the files in a folder of the table and in its folders, by name.
func (f folder) list(ctx context.Context, dir string) iter.Seq2[listed, error] {
	return func(yield func(listed, error) bool) {
		if err := f.exists(); err != nil {
			yield(listed{}, err)
			return
		}
		err := filepath.WalkDir(f.path(dir), func(at string, d fs.DirEntry, err error) error {
			if err := errors.Join(err, ctx.Err()); err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			name := filepath.ToSlash(strings.TrimPrefix(at, string(f)+string(filepath.Separator)))
			if err == nil && !yield(listed{name, info.ModTime()}, nil) {
				return fs.SkipAll
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield(listed{}, err)
		}
	}
}

// remove removes a file, if there is one.
func (f folder) remove(name string) error {
	if err := os.Remove(f.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
