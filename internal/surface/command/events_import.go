package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/ndjson"
	"github.com/tidemark-go/tidemark/internal/progress"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

const fromStdin = "-"

// onError is what an import does about a bad line.
type onError string

const (
	onErrorStop onError = "stop"
	onErrorSkip onError = "skip"
)

// eventsImport is the flags of one import.
type eventsImport struct {
	onError    onError
	rejected   string
	source     string
	byCampaign bool
	asJSON     bool
}

// importVersion changes when a field goes or changes its meaning.
const importVersion = 1

// importJSON says what became of the lines, also of an import that has failed.
type importJSON struct {
	Version      int     `json:"version"`
	Appended     int64   `json:"appended"`
	Duplicates   int64   `json:"duplicates"` // they were there already
	Rejected     int64   `json:"rejected"`
	RejectedFile *string `json:"rejected_file"` // null: none was rejected
}

func newEventsImport(env *cli.Env) *cobra.Command {
	var o eventsImport
	command := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Append events from a file, or from stdin, with one JSON object a line",
		Long: `Append events from a file, or from stdin, with one JSON object a line:

  {"campaign_id":"c1","type":"order_placed","payload":{"total":7}}

Lines may also have "id", "version", "intent", "aggregate_type", "aggregate_id", "actor", "tags",
"metadata" and "occurred_at"; "seq", "position" and "recorded_at" are read over. An import that was
interrupted is run again: what is in the journal already is found by its event id and not appended twice.
A line without "id" gets one that follows from --source, the line's number and its text, so a file may
grow at its end, but not change above it.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("import what? Name one file, or - for stdin")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.OneOf("on-error", o.onError, []onError{onErrorStop, onErrorSkip}); err != nil {
				return err
			}
			if o.rejected != "" && o.onError != onErrorSkip {
				return cli.Usagef("--rejected %s: lines are rejected only with --on-error skip", o.rejected)
			}
			return o.run(cmd.Context(), env, args[0])
		},
	}
	flags := command.Flags()
	flags.StringVar((*string)(&o.onError), "on-error", string(onErrorStop), "what to do about a bad line: stop, skip")
	flags.StringVar(&o.rejected, "rejected", "",
		"file for the lines that were skipped, as they are (default FILE.rejected)")
	flags.StringVar(&o.source, "source", "",
		"name of the input, part of the ids of lines without one (default the file's name without its folder)")
	flags.BoolVar(&o.byCampaign, "by-campaign", false,
		"keep the order within each campaign only: faster where campaigns alternate")
	flags.BoolVar(&o.asJSON, "json", false, "write JSON: how many lines were appended, there already, rejected")
	return command
}

func (o eventsImport) run(ctx context.Context, env *cli.Env, path string) error {
	in, size, err := openInput(env, path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if o.source == "" {
		o.source = filepath.Base(path)
	}
	if o.rejected == "" && path == fromStdin {
		o.rejected = "stdin.rejected"
	} else if o.rejected == "" {
		o.rejected = path + ".rejected"
	}
	return env.WithPool(ctx, func(ctx context.Context, pool *pgxpool.Pool) error {
		meter := progress.New(env.Err, "KiB", size>>10)
		cfg := ndjson.ImportConfig{
			Source:     o.source,
			ByCampaign: o.byCampaign,
			Progress:   func(bytes, events int64) { meter.Set(bytes>>10, events) },
		}
		rejected := &rejectedLines{path: o.rejected}
		if o.onError == onErrorSkip {
			cfg.Reject = func(bad *ndjson.LineError) error {
				meter.Note(bad.Error())
				return rejected.add(bad)
			}
		}
		done, err := ndjson.Import(ctx, pool, in, cfg)
		err = errors.Join(err, rejected.close())
		meter.Done()
		if o.asJSON {
			document := importJSON{
				Version: importVersion, Appended: done.Appended, Duplicates: done.Duplicates,
				Rejected: done.Rejected,
			}
			if done.Rejected > 0 {
				document.RejectedFile = &o.rejected
			}
			err = errors.Join(err, env.PrintJSON(document))
		} else {
			o.tell(env, done)
		}
		if errors.Is(err, context.Canceled) {
			return errors.New("interrupted: the same command goes on where this one stopped")
		}
		return err
	})
}

func (o eventsImport) tell(env *cli.Env, done ndjson.Imported) {
	env.Note("%d appended, %d there already, %d rejected", done.Appended, done.Duplicates, done.Rejected)
	if done.Rejected > 0 {
		env.Note("The rejected lines are in %s.", o.rejected)
	}
}

// openInput answers the file, and its size if it has one.
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

// rejectedLines is a file that is made when there is something to put into it.
type rejectedLines struct {
	path string
	file *os.File
	out  *bufio.Writer
}

// add writes a line as it was read. One that was too long to be held is only reported.
func (r *rejectedLines) add(bad *ndjson.LineError) error {
	if r.file == nil {
		file, err := os.Create(r.path)
		if err != nil {
			return err
		}
		r.file, r.out = file, bufio.NewWriter(file)
	}
	if bad.Text == nil {
		return nil
	}
	_, err := fmt.Fprintf(r.out, "%s\n", bad.Text)
	return err
}

func (r *rejectedLines) close() error {
	if r.file == nil {
		return nil
	}
	return errors.Join(r.out.Flush(), r.file.Close())
}
