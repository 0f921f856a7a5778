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
)

// Store keeps objects of up to about 100 MB. It is safe for concurrent use.
type Store interface {
	// Put writes an object. When it returns, the object is durable and complete. An object with this
	// name and content may be there already.
	Put(ctx context.Context, name string, content []byte) error

	// Get returns an object. The error wraps [fs.ErrNotExist] if there is none.
	Get(ctx context.Context, name string) ([]byte, error)
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
	if old, err := f.root.ReadFile(name); err == nil && bytes.Equal(old, content) {
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

// Get reads a file.
func (f *Folder) Get(ctx context.Context, name string) ([]byte, error) {
	if err := cmp.Or(CheckName(name), ctx.Err()); err != nil {
		return nil, err
	}
	return f.root.ReadFile(name)
}

// CheckName refuses names of objects that are paths, or hidden. A [Store] calls it first.
func CheckName(name string) error {
	if !fs.ValidPath(name) || strings.ContainsAny(name, `/\:`) || strings.HasPrefix(name, ".") {
		return fmt.Errorf("archive: %q is no name of an object: use a file name without a folder", name)
	}
	return nil
}
