package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
)

// commitsPerDiff is how many commits one run of git diff-tree compares. diff-tree keeps memory for
// each commit until it ends (7 KB with git 2.39, measured over 100,000 commits), so a single run
// would grow with the history.
const commitsPerDiff = 5000

// renameLimit limits git's search for renames in one commit. It is set explicitly, so that renames
// do not depend on the user's configuration.
const renameLimit = "-l1000"

// history reads the commits from base, exclusive, to HEAD along first parents, oldest first, one at
// a time.
//
// It compares each commit with the one before it *in this sequence*, the first with base. That is
// the commit's first parent, except when base is not among HEAD's first parents (another branch was
// checked out, history was rewritten). Then the first difference leads from the old tree to the new
// one. In either case all differences add up to HEAD's tree. With an empty base the first commit is
// compared with an empty tree.
func (r *repository) history(ctx context.Context, base string) iter.Seq2[commit, error] {
	return func(yield func(commit, error) bool) {
		var pairs []string
		for pair, err := range r.pairs(ctx, base) {
			if err != nil {
				yield(commit{}, fmt.Errorf("list commits: %w", err))
				return
			}
			if pairs = append(pairs, pair); len(pairs) == commitsPerDiff {
				if !r.diff(ctx, pairs, yield) {
					return
				}
				pairs = pairs[:0]
			}
		}
		if len(pairs) > 0 {
			r.diff(ctx, pairs, yield)
		}
	}
}

// pairs yields each commit with its predecessor as a line "commit parent". The last line is HEAD's,
// even if rev-list lists no commit because HEAD is an ancestor of base.
func (r *repository) pairs(ctx context.Context, base string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if base == r.head {
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		list := r.command(ctx, append([]string{"rev-list", "--reverse"}, r.firstParents(base)...)...)
		out, err := list.StdoutPipe()
		if err == nil {
			err = list.Start()
		}
		if err != nil {
			yield("", err)
			return
		}
		last := base
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if !yield(pair(lines.Text(), last), nil) {
				cancel()
				_ = list.Wait()
				return
			}
			last = lines.Text()
		}
		if err := errors.Join(lines.Err(), list.explain(list.Wait())); err != nil {
			yield("", err)
			return
		}
		if last != r.head {
			yield(pair(r.head, last), nil)
		}
	}
}

func pair(commit, parent string) string { return strings.TrimSpace(commit+" "+parent) + "\n" }

// diff yields the commits of some pairs with their changes. It reports whether there may be more.
func (r *repository) diff(ctx context.Context, pairs []string, yield func(commit, error) bool) (more bool) {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	// Always compare submodules: ls-tree lists them whatever the configuration says.
	diff := r.command(running, "diff-tree", "--stdin", "--root", "--always", "-r", "-z", "--raw", "--no-abbrev", "-M",
		renameLimit,
		"--ignore-submodules=none", "--encoding=UTF-8", "--format="+headerFormat)
	diff.Stdin = strings.NewReader(strings.Join(pairs, ""))
	out, err := diff.StdoutPipe()
	if err == nil {
		err = diff.Start()
	}
	if err != nil {
		yield(commit{}, fmt.Errorf("compare commits: %w", err))
		return false
	}

	more = true
	err = readDiffTree(bufio.NewReaderSize(out, 1<<16), func(c commit) bool {
		more = yield(c, nil)
		return more
	})
	if err != nil || !more {
		cancel() // stop the process: its output is no longer read
	}
	waited := diff.explain(diff.Wait())
	switch {
	case !more:
		return false
	case ctx.Err() != nil:
		err = ctx.Err()
	case err == nil || diff.ProcessState.ExitCode() > 0: // git's own message is more helpful than a broken stream
		err = waited
	}
	if err != nil {
		yield(commit{}, fmt.Errorf("compare commits: %w", err))
		return false
	}
	return true
}
