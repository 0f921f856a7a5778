// Package archivetest tests whether a store keeps the promises that package archive relies on.
//
// [Run] checks these rules:
//
//   - an object comes back as it was put, also after it is put again, and the store keeps nothing of
//     the bytes that it is lent or returns
//   - several goroutines may put and get at once, also the same object
//   - the error for an object that is not there wraps [fs.ErrNotExist], and that for one of another size
//     [archive.ErrObject]
//   - a name that is a path or hidden is refused
//   - with a context that has ended Put and Get return its error, and Put writes nothing
//
// Stability: as of version 1, no function changes. A later version may check more.
package archivetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/archive"
)

// Run runs the rules. It leaves some megabytes in the store, in objects with made-up names.
func Run(t *testing.T, store archive.Store) {
	t.Helper()
	for name, rule := range rules() {
		t.Run(name, func(t *testing.T) {
			if err := rule(t.Context(), store); err != nil {
				t.Error(err)
			}
		})
	}
}

func rules() map[string]func(context.Context, archive.Store) error {
	return map[string]func(context.Context, archive.Store) error{
		"objects come back": comeBack, "several at once": atOnce, "missing": missing, "sizes": sizes, "names": names,
		"contexts": contexts,
	}
}

func comeBack(ctx context.Context, store archive.Store) error {
	name := "test-" + rand.Text()
	want := bytes.Repeat([]byte(name), 100_000)
	content := bytes.Clone(want)
	for range 2 {
		if err := store.Put(ctx, name, content); err != nil || !bytes.Equal(content, want) {
			return errors.Join(errors.New("Put changed the content, or failed"), err)
		}
	}
	clear(content)
	for range 2 {
		got, err := store.Get(ctx, name, int64(len(want)))
		if err != nil || !bytes.Equal(got, want) {
			return errors.Join(errors.New("Get returned other content than Put was given, or failed"), err)
		}
		clear(got)
	}
	return nil
}

func atOnce(ctx context.Context, store archive.Store) error {
	names := []string{"test-" + rand.Text(), "test-" + rand.Text()}
	each := func(do func(name string, content []byte) error) error {
		var g errgroup.Group
		for _, name := range names {
			content := bytes.Repeat([]byte(name), 10_000)
			for range 4 {
				g.Go(func() error { return do(name, content) })
			}
		}
		return g.Wait()
	}
	if err := each(func(name string, content []byte) error { return store.Put(ctx, name, content) }); err != nil {
		return fmt.Errorf("several at once: Put failed: %w", err)
	}
	return each(func(name string, want []byte) error {
		got, err := store.Get(ctx, name, int64(len(want)))
		if err != nil || !bytes.Equal(got, want) {
			return errors.Join(errors.New("several at once: Get returned other content than Put was given, or failed"), err)
		}
		return nil
	})
}

func missing(ctx context.Context, store archive.Store) error {
	if _, err := store.Get(ctx, "test-"+rand.Text(), 1); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(errors.New("Get of an object that is not there returned no fs.ErrNotExist"), err)
	}
	return nil
}

func sizes(ctx context.Context, store archive.Store) error {
	name := "test-" + rand.Text()
	if err := store.Put(ctx, name, bytes.Repeat([]byte("x"), 1000)); err != nil {
		return err
	}
	for _, size := range []int64{1, 999, 1001, archive.MostBytes} {
		if _, err := store.Get(ctx, name, size); !errors.Is(err, archive.ErrObject) {
			return errors.Join(fmt.Errorf("Get of an object of 1000 bytes as if it had %d returned no archive.ErrObject",
				size), err)
		}
	}
	return nil
}

func names(ctx context.Context, store archive.Store) error {
	for _, name := range []string{"", ".", "../a", "/a", "a/b", `a\b`, ".hidden", "c:d"} {
		_, err := store.Get(ctx, name, 1)
		if store.Put(ctx, name, []byte("x")) == nil || err == nil || errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("%q is no name of an object: Put wrote it, or Get looked for it", name), err)
		}
	}
	return nil
}

func contexts(ctx context.Context, store archive.Store) error {
	ended, end := context.WithCancel(ctx)
	end()
	name := "test-" + rand.Text()
	put, get := store.Put(ended, name, []byte("x")), missing(ended, store)
	if _, err := store.Get(ctx, name, 1); !errors.Is(err, fs.ErrNotExist) || !errors.Is(put, context.Canceled) ||
		!errors.Is(get, context.Canceled) {
		return errors.Join(errors.New("the context had ended: Put or Get did not say so, or Put wrote"), put, get, err)
	}
	return nil
}
