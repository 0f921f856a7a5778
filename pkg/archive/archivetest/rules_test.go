package archivetest

import (
	"bytes"
	"context"
	"io/fs"
	"sync"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/test/support/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestAFolderKeepsTheRules(t *testing.T) {
	t.Parallel()
	store, err := archive.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	Run(t, store)
}

// memory is a store that keeps the rules, or breaks one.
type memory struct {
	mu      sync.Mutex
	objects map[string][]byte
	breaks  string
}

func (m *memory) Put(ctx context.Context, name string, content []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := archive.CheckName(name); err != nil && m.breaks != "names" {
		return err
	}
	if ctx.Err() != nil && m.breaks != "writes late" {
		return ctx.Err()
	}
	if m.objects[name] != nil && m.breaks == "repeats" {
		return fs.ErrExist
	}
	if m.breaks == "keeps" {
		m.objects[name] = content
	} else {
		m.objects[name] = bytes.Clone(content)
	}
	if m.breaks == "mixes" {
		m.objects["test"] = m.objects[name]
	}
	if m.breaks == "changes" {
		clear(content)
	}
	return ctx.Err()
}

func (m *memory) Get(ctx context.Context, name string, size int64) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := archive.CheckName(name); err != nil && m.breaks != "names" {
		return nil, err
	}
	if m.breaks == "mixes" {
		return m.objects["test"], ctx.Err()
	}
	content, ok := m.objects[name]
	switch {
	case ctx.Err() != nil && m.breaks != "ignores":
		return nil, ctx.Err()
	case !ok && m.breaks == "empty":
		return nil, nil
	case !ok:
		return nil, fs.ErrNotExist
	case int64(len(content)) != size && m.breaks != "any size":
		return nil, archive.ErrObject
	case m.breaks == "lends":
		return content, nil
	}
	return bytes.Clone(content), nil
}

func TestBrokenStoresAreCaught(t *testing.T) {
	t.Parallel()
	for breaks, rule := range map[string]string{
		"": "", "repeats": "objects come back", "keeps": "objects come back", "changes": "objects come back",
		"lends": "objects come back", "mixes": "several at once", "empty": "missing", "any size": "sizes", "names": "names",
		"writes late": "contexts", "ignores": "contexts",
	} {
		broken := map[string]error{}
		for name, check := range rules() {
			if err := check(t.Context(), &memory{objects: map[string][]byte{}, breaks: breaks}); err != nil {
				broken[name] = err
			}
		}
		if rule != "" && broken[rule] == nil || rule == "" && len(broken) > 0 {
			t.Errorf("a store that breaks %q: broken rules are %v, want %q", breaks, broken, rule)
		}
	}
}
