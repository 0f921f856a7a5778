package command

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/ndjson"
	"github.com/tidemark-go/tidemark/internal/progress"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

const fromStdin = "-"

type eventsImport struct {
	source string
	asJSON bool
}

// importVersion changes when a field is removed or changes its meaning.
const importVersion = 1

// importJSON reports the result, also of a failed import.
type importJSON struct {
	Version    int   `json:"version"`
	Appended   int64 `json:"appended"`
	Duplicates int64 `json:"duplicates"` // already in the journal
}

func newEventsImport(env *cli.Env) *cobra.Command {
	var o eventsImport
	command := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Append events from a file or stdin, one JSON object per line",
		Long: `Append events from a file or stdin, one JSON object per line:

  {"campaign_id":"c1","type":"order_placed","payload":{"total":7}}

Lines may also have "id", "version", "intent", "aggregate_type", "aggregate_id", "actor", "tags",
"metadata" and "occurred_at"; "seq", "position" and "recorded_at" are ignored. An interrupted import can be
run again: events that are in the journal are found by id and not appended twice. The import stops at the
first invalid line, after appending those before it: correct the line and run it again. A line without "id"
gets one from --source, the line's number and its text. So a file may grow at its end, but earlier lines
must not change.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("import what? Name one file, or - for stdin")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), env, args[0])
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.source, "source", "",
		"name of the input, part of the ids of lines without one (default the file's name without its folder)")
	flags.BoolVar(&o.asJSON, "json", false, "write JSON: how many lines were appended, and how many were already there")
	return command
}

func (o eventsImport) run(ctx context.Context, env *cli.Env, path string) error {
	file, size, err := openInput(env, path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	in, compressed, err := unpacked(file)
	if err != nil {
		return err
	}
	if compressed {
		size = 0
	}
	if o.source == "" {
		o.source = strings.TrimSuffix(filepath.Base(path), ".gz")
	}
	return env.WithPool(ctx, func(ctx context.Context, pool *pgxpool.Pool) error {
		meter := progress.New(env.Err, "KiB", size>>10)
		done, err := ndjson.Import(ctx, pool, in, ndjson.ImportConfig{
			Source:   o.source,
			Progress: func(bytes, events int64) { meter.Set(bytes>>10, events) },
			Halved: func(lines int) {
				env.Note("the session's statement_timeout has ended a transaction: going on with %d lines each", lines)
			},
		})
		meter.Done()
		if o.asJSON {
			err = errors.Join(err, env.PrintJSON(importJSON{importVersion, done.Appended, done.Duplicates}))
		} else {
			env.Note("%d appended, %d already there", done.Appended, done.Duplicates)
		}
		if errors.Is(err, context.Canceled) {
			return errors.New("interrupted: run the same command to continue")
		}
		return err
	})
}

// unpacked returns what in holds, whether or not it is compressed with gzip.
func unpacked(in io.Reader) (content io.Reader, compressed bool, err error) {
	buffered := bufio.NewReader(in)
	if magic, _ := buffered.Peek(2); string(magic) != "\x1f\x8b" {
		return buffered, false, nil
	}
	unzipped, err := gzip.NewReader(buffered)
	return gzipped{unzipped}, true, err
}

// gzipped says of a file that is cut off what it is. The client for Postgres has the same error for a
// server that is away.
type gzipped struct{ content io.Reader }

func (g gzipped) Read(into []byte) (int, error) {
	n, err := g.content.Read(into)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the gzip data is cut off: copy the file again")
	}
	return n, err
}

// openInput returns the file, and its size if known.
func openInput(env *cli.Env, path string) (in io.ReadCloser, size int64, err error) {
	if path == fromStdin {
		return io.NopCloser(env.In), 0, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	about, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	if about.IsDir() {
		return nil, 0, errors.Join(fmt.Errorf("%s is a folder", path), file.Close())
	}
	return file, about.Size(), nil
}
