package devpg

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// memoryNeeded is what must be free in memory before a cluster goes there, in bytes. All tests
	// together use about a quarter of it.
	memoryNeeded = 4 << 30
	// linkName is the file of a folder in memory that says which link points at it.
	linkName = "link"
)

// inMemory answers a folder in which clusters can be made in memory, or "" where there is none or little is free.
func inMemory(ctx context.Context) string {
	parent, free := memory()
	if free < memoryNeeded {
		return ""
	}
	removeForgotten(ctx, parent)
	return parent
}

// removeForgotten removes this user's folders in memory that no state folder points at any more:
// their state folders are gone.
func removeForgotten(ctx context.Context, parent string) {
	notes, _ := filepath.Glob(filepath.Join(parent, temporaryPattern, linkName)) // the pattern is well formed
	for _, note := range notes {
		home := filepath.Dir(note)
		link, err := os.ReadFile(note)
		if err != nil || !ours(note) {
			continue
		}
		if target, err := os.Readlink(strings.TrimSpace(string(link))); filepath.Dir(target) == home ||
			errors.Is(err, fs.ErrPermission) {
			continue
		}
		running, err := findPostmaster(ctx, filepath.Join(home, clusterName))
		if err == nil && running != nil {
			err = running.stop(ctx, Immediate)
		}
		if err == nil {
			_ = os.RemoveAll(home) // what stays goes the next time
		}
	}
}
