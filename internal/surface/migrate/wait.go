package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/migrations"
)

const lookEvery = time.Second

var errNoAnswer = errors.New("the database has not yet said which version its schema has")

func newWait(opts *options) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait",
		Short: "Wait until the schema has the version of this program or a newer one",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return opts.database(cmd, func(ctx context.Context, url string) error {
				ctx, cancel := context.WithTimeout(ctx, timeout)
				defer cancel()
				return wait(ctx, url, timeout)
			})
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "maximum wait")
	return cmd
}

func wait(ctx context.Context, url string, timeout time.Duration) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	missing, last := errNoAnswer, error(nil) // the last look may be cut off, or meet a server that is away
	for {
		err := check(ctx, url)
		version, known := errors.AsType[*migrations.VersionError](err)
		switch {
		case err == nil || known && version.Newer():
			return nil
		case known:
			missing, last = err, nil
		default:
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited %v: %w", timeout, errors.Join(missing, last, context.Cause(ctx)))
		}
	}
}

// check compares the schema's version with the program's, over a new connection.
func check(ctx context.Context, url string) error {
	conn, err := session.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return migrations.Check(ctx, conn)
}
