package archive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// MostBytes is more than any object has.
const MostBytes = 128 << 20

// Store keeps objects of up to [MostBytes]. It is safe for concurrent use.
type Store interface {
	// Put writes an object. When it returns, the object is durable and complete. An object with this
	// name and content may be there already.
	Put(ctx context.Context, name string, content []byte) error

	// Get returns an object of so many bytes. The error wraps [fs.ErrNotExist] if there is none, and
	// [ErrObject] if there is something of another size, or that is no object. It reads no more than size.
	Get(ctx context.Context, name string, size int64) ([]byte, error)
}

// Kinds are stores that a program has besides folders, by the scheme of their URLs, such as "s3".
type Kinds map[string]func(*url.URL) (Store, error)

// Open returns the store of a URL: file:///folder, or one of kinds. The folder must exist.
func Open(text string, kinds Kinds) (Store, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("archive: this is no URL: use file:/// and the absolute path of a folder")
	}
	switch open := kinds[u.Scheme]; {
	case open != nil:
		return open(u)
	case u.Scheme == "s3":
		return nil, fmt.Errorf("archive %q: this program has no client of S3: use worker and tidemark of adapters/s3, "+
			"or add it to worker.Options.Archives", u.Redacted())
	case u.Scheme != "file" || u.Host != "" || !path.IsAbs(u.Path) || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("archive %q: use file:/// and the absolute path of a folder", u.Redacted())
	}
	return NewFolder(filepath.FromSlash(u.Path))
}

// Folder is a store in a folder. Its zero value is not usable; use [NewFolder].
type Folder struct{ root *os.Root }

// NewFolder returns the store in a folder that exists. Names never lead out of it, not even by links.
func NewFolder(folder string) (*Folder, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("archive: %w: create the folder, on a disk that is backed up", err)
	}
	return &Folder{root}, nil
}

// Close gives back the folder's handle.
func (f *Folder) Close() error { return f.root.Close() }

// Put writes to another name, syncs, and renames. A write that fails leaves nothing under the name.
func (f *Folder) Put(ctx context.Context, name string, content []byte) (err error) {
	if err := cmp.Or(CheckName(name), ctx.Err()); err != nil {
		return err
	}
	if old, err := f.Get(ctx, name, int64(len(content))); err == nil && bytes.Equal(old, content) {
		return nil
	}
	unfinished := name + "." + rand.Text() + ".unfinished"
	defer func() {
		if err != nil {
			_ = f.root.Remove(unfinished)
			err = fmt.Errorf("write %s to the archive: %w", name, err)
		}
	}()
	file, err := f.root.Create(unfinished)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := f.root.Rename(unfinished, name); err != nil {
		return err
	}
	folder, err := f.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close()) // the name is durable too
}

// Get reads a regular file. It opens nothing else: reads of a FIFO or a device may never end.
func (f *Folder) Get(ctx context.Context, name string, size int64) (content []byte, err error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	info, err := f.root.Stat(name)
	if err == nil {
		err = isObject(info, size)
	}
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be another by now
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if info, err = file.Stat(); err == nil {
		err = isObject(info, size)
	}
	content = make([]byte, 0, size)
	for err == nil && int64(len(content)) < size {
		if err = ctx.Err(); err == nil {
			var n int
			n, err = file.Read(content[len(content):min(int64(len(content)+readBytes), size)])
			content = content[:len(content)+n]
		}
	}
	return content, err
}

const readBytes = 1 << 20 // at a time

// isObject returns an error for what is no file of so many bytes.
func isObject(info fs.FileInfo, size int64) error {
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: it is no file but %s", ErrObject, info.Mode().Type())
	case info.Size() != size:
		return fmt.Errorf("%w: it has %d bytes, it was written with %d", ErrObject, info.Size(), size)
	}
	return nil
}

// CheckName refuses names of objects that are paths, or hidden. A [Store] calls it first.
func CheckName(name string) error {
	if !fs.ValidPath(name) || strings.ContainsAny(name, `/\:`) || strings.HasPrefix(name, ".") {
		return fmt.Errorf("archive: %q is no name of an object: use a file name without a folder", name)
	}
	return nil
}
