// Package program builds commands of this module for tests.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tidemark-go/tidemark/internal/devpg"
)

const module = "github.com/tidemark-go/tidemark/"

// Build compiles the command in a folder of this module, such as "cmd/worker", and returns the path
// of the program under .tidemark/bin. It links only if the sources have changed. Concurrent builds
// of a command wait for each other. The working directory must be in this module.
func Build(ctx context.Context, folder string) (path string, err error) {
	state, err := devpg.DefaultDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(state, "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the folder for programs: %w", err)
	}
	path = filepath.Join(dir, strings.ReplaceAll(folder, "/", "-"))
	lock, err := os.OpenFile(path+".lock", os.O_RDONLY|os.O_CREATE, 0o644)
	if err != nil {
		return "", fmt.Errorf("lock the program %s: %w", folder, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := wait(lock); err != nil {
		return "", fmt.Errorf("lock the program %s: %w", folder, err)
	}
	// As it is shipped, so that a checkout elsewhere has it in Go's build cache.
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, module+folder)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", folder, err, out)
	}
	return path, nil
}

// wait takes the lock, which closing the file releases.
func wait(lock *os.File) error {
	for {
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
