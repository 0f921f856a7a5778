package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// repository is a git repository on disk, read through the git command.
type repository struct {
	dir  string // directory in which git runs
	head string // HEAD's commit when the repository was opened; "" if it has none yet
	name string // identifies this repository in the journal
}

// openRepository opens the repository that contains dir. It reads HEAD once, so everything that
// follows uses the same commit even while new ones arrive.
func openRepository(ctx context.Context, dir string) (*repository, error) {
	r := &repository{dir: dir}
	gitDir, err := r.output(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return nil, fmt.Errorf("open repository %q: %w", dir, err)
	}
	// --quiet: a repository without commits is no error.
	head, err := r.output(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		head = ""
	} else if err != nil {
		return nil, fmt.Errorf("resolve HEAD of %q: %w", dir, err)
	}
	r.head = head

	var root string
	if head != "" {
		root, err = r.output(ctx, "rev-list", "--first-parent", "--max-parents=0", "--max-count=1", head)
		if err != nil {
			return nil, fmt.Errorf("find the first commit of %q: %w", dir, err)
		}
	}
	r.name = repositoryName(gitDir, root)
	return r, nil
}

// repositoryName returns a readable name with a hash of the repository's path and its first commit.
// Two repositories with the same folder name do not share campaigns, nor does a new one in an old
// one's place.
func repositoryName(gitDir, root string) string {
	base := filepath.Base(gitDir)
	if base == ".git" {
		base = filepath.Base(filepath.Dir(gitDir))
	}
	base = strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '-' || r == '_' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r &&
			r <= 'Z') {
			return r
		}
		return '_'
	}, strings.TrimSuffix(base, ".git"))
	sum := sha256.Sum256([]byte(gitDir + "\x00" + root))
	return base[:min(len(base), 64)] + "-" + hex.EncodeToString(sum[:6])
}

// has reports whether the repository holds the commit.
func (r *repository) has(ctx context.Context, commit string) (bool, error) {
	_, err := r.output(ctx, "cat-file", "-e", commit+"^{commit}")
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return false, nil
	}
	return err == nil, err
}

// count returns how many commits [repository.history] reads from base to HEAD.
func (r *repository) count(ctx context.Context, base string) (int64, error) {
	if base == r.head {
		return 0, nil
	}
	text, err := r.output(ctx, append([]string{"rev-list", "--count"}, r.firstParents(base)...)...)
	if err != nil {
		return 0, fmt.Errorf("count commits: %w", err)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("count commits: %w", err)
	}
	return max(n, 1), nil
}

// firstParents returns the arguments that make rev-list walk from base, exclusive, to HEAD along
// first parents.
func (r *repository) firstParents(base string) []string {
	args := []string{"--first-parent", r.head}
	if base != "" {
		args = append(args, "^"+base)
	}
	return args
}

// output runs git and returns its output without the final newline.
func (r *repository) output(ctx context.Context, args ...string) (string, error) {
	run := r.command(ctx, args...)
	out, err := run.Output()
	if err != nil {
		return "", run.explain(err)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// gitCommand is one run of git with its standard error.
type gitCommand struct {
	*exec.Cmd
	complaints bytes.Buffer
}

// command prepares git so that its output depends on the repository alone: no replaced objects, no
// translation, and no variables by which a surrounding git (for example a hook) points at its own
// repository.
func (r *repository) command(ctx context.Context, args ...string) *gitCommand {
	run := &gitCommand{Cmd: exec.CommandContext(ctx, "git",
		append([]string{"--no-replace-objects", "-C", r.dir}, args...)...)}
	run.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		switch name {
		case "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
			"GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_GRAFT_FILE", "GIT_SHALLOW_FILE", "GIT_DIFF_OPTS":
			return true
		}
		return false
	})
	run.Env = append(run.Env, "LC_ALL=C")
	run.Stderr = &run.complaints
	return run
}

// explain adds git's standard error to the error of a run.
func (g *gitCommand) explain(err error) error {
	if err == nil {
		return nil
	}
	const enough = 2048
	said := bytes.TrimSpace(g.complaints.Bytes())
	return fmt.Errorf("git %s: %w: %s", g.Args[4], err, said[:min(len(said), enough)])
}
