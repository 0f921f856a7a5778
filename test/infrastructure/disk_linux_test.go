package infrastructure_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tidemark-go/tidemark/test/support/tally"
)

// smallDisk moves an empty table to a tablespace on its own file system, with room for only the
// first page of an index. room ends this. It returns nil where file systems cannot be mounted:
// without root, and in most containers.
func (w *world) smallDisk(t *testing.T, table string) (room func()) {
	t.Helper()
	data := tally.Value[string](t, w.pool, `SHOW data_directory`)
	info, err := os.Stat(data)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(filepath.Dir(data), "small")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8k"); err != nil {
		t.Logf("no file system of its own: mount: %v", err)
		return nil
	}
	t.Cleanup(func() { // lazily: the server still has it open
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	owner := info.Sys().(*syscall.Stat_t)
	if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
		t.Fatal(err)
	}
	w.exec(t, `CREATE TABLESPACE small LOCATION '`+dir+`'`)
	w.exec(t, `ALTER TABLE `+table+` SET TABLESPACE small`)
	return func() {
		t.Helper()
		if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=1m"); err != nil {
			t.Fatal(err)
		}
	}
}
