// Githistory reads the history of a git repository into the journal and keeps the repository's
// current tree as a read model.
//
// Every commit along first parents becomes events: file_added, file_modified, file_mode_changed,
// file_type_changed, file_renamed, file_deleted. A folder is a campaign. The projection in
// projections/tree.sql applies them. At the end its table is compared with `git ls-tree -r HEAD`.
// Run it again after new commits, or after a kill, and it continues where it stopped.
//
//	go run ./examples/githistory -repo PATH [-depth N] [-name NAME] [-dev]
//	go run ./examples/githistory -remove [-dev]
//
// It uses the database of TIDEMARK_DATABASE_URL, or with -dev a private Postgres under .tidemark/.
// -remove removes everything that it has created except the events: the projection, its table and
// the consumer group.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errDifferences):
		os.Exit(1) // run has printed them, and the summary must be the last line
	case err != nil:
		fmt.Fprintln(os.Stderr, "githistory:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("githistory", flag.ContinueOnError)
	var o options
	flags.StringVar(&o.dir, "repo", ".", "the git repository, or a folder in it")
	flags.IntVar(&o.depth, "depth", 1,
		"how many folders, counted from the root, name a campaign; 0: the repository is one")
	flags.StringVar(&o.name, "name", "", "the repository's name in the journal (default: its folder's, and a hash)")
	flags.BoolVar(&o.remove, "remove", false,
		"take the projection, its table and the consumer group away; the events stay")
	flags.BoolVar(&o.dev, "dev", false, "use a private Postgres under .tidemark/, started if necessary")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: the repository is given with -repo", flags.Arg(0))
	}
	if o.depth < 0 {
		return fmt.Errorf("-depth %d: it must be 0 or more", o.depth)
	}
	return runOnDatabase(ctx, o, os.Stdout, os.Stderr)
}
