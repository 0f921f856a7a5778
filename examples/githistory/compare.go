package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// comparison counts the files in the table and in git's tree, and their differences.
type comparison struct {
	InTable     int64
	InGit       int64
	Differences int64
	listed      []difference // the first maxListed of them
}

// difference is a file on which the table and git disagree. On the side that lacks the file the
// fields are nil.
type difference struct {
	CampaignID                  string
	Path                        string
	Mode, Object, Kind          *string // in the table
	GitMode, GitObject, GitKind *string
}

// maxListed limits the differences that are printed.
const maxListed = 1000

// compare copies git's listing of HEAD into a temporary table and lets the database find the
// differences. Neither side is held in memory, whatever the size of the tree.
func compare(ctx context.Context, pool *pgxpool.Pool, repo *repository, names campaigns) (comparison, error) {
	var result comparison
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, createListing); err != nil {
			return err
		}
		if repo.head != "" {
			if err := copyListing(ctx, tx, repo, names); err != nil {
				return err
			}
		}
		first := names.prefix()
		last := strings.TrimSuffix(first, ":") + ";" // the character after the colon
		if err := tx.QueryRow(ctx, countFiles, first, last).Scan(&result.InTable, &result.InGit,
			&result.Differences); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, listDifferences, first, last, maxListed)
		if err != nil {
			return err
		}
		result.listed, err = pgx.CollectRows(rows, pgx.RowToStructByName[difference])
		return err
	})
	return result, err
}

// copyListing streams `git ls-tree -r HEAD` into the temporary table.
func copyListing(ctx context.Context, tx pgx.Tx, repo *repository, names campaigns) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	list := repo.command(ctx, "ls-tree", "-r", "-z", "--full-tree", repo.head)
	out, err := list.StdoutPipe()
	if err != nil {
		return err
	}
	if err := list.Start(); err != nil {
		return err
	}
	entries := bufio.NewReaderSize(out, 1<<16)
	_, copied := tx.CopyFrom(ctx, pgx.Identifier{"git_listing"}, []string{"campaign_id", "path", "mode", "object", "kind"},
		pgx.CopyFromFunc(func() ([]any, error) {
			entry, err := entries.ReadString(0)
			if errors.Is(err, io.EOF) && entry == "" {
				return nil, nil
			}
			if err != nil {
				return nil, noEOF(err)
			}
			// mode SP type SP object TAB path NUL
			description, path, _ := strings.Cut(strings.TrimSuffix(entry, "\x00"), "\t")
			fields := strings.Fields(description)
			if len(fields) != 3 {
				return nil, fmt.Errorf("ls-tree printed %q where a file was due", entry)
			}
			return []any{names.of(path), encodePath(path), fields[0], fields[2], kindOf(fields[0])}, nil
		}))
	if copied != nil {
		cancel()
		_ = list.Wait()
		return copied
	}
	return list.explain(list.Wait())
}

// print prints the differences, then a summary line.
func (c comparison) print(w io.Writer) error {
	var out []byte
	for _, d := range c.listed {
		out = fmt.Appendf(out, "%q in %q: %s in the table, %s in git\n", d.Path, d.CampaignID,
			describe(d.Mode, d.Object, d.Kind), describe(d.GitMode, d.GitObject, d.GitKind))
	}
	if more := c.Differences - int64(len(c.listed)); more > 0 {
		out = fmt.Appendf(out, "and %d more\n", more)
	}
	out = fmt.Appendf(out, "files in table %d, in git %d, differences %d\n", c.InTable, c.InGit, c.Differences)
	_, err := w.Write(out)
	return err
}

func describe(mode, object, kind *string) string {
	if mode == nil || object == nil || kind == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s %s", *kind, *mode, *object)
}
