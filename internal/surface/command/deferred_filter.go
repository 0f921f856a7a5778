package command

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// pairFilter is the flags that choose failed campaigns.
type pairFilter struct {
	deferred.Filter
	status []string
	all    bool
	named  []string // the arguments PROJECTION and CAMPAIGN
}

// name takes the arguments of the command.
func (f *pairFilter) name(args []string) { f.named = args }

// bind adds the flags. An act wants to be told what to do it to, if only --all.
func (f *pairFilter) bind(env *cli.Env, command *cobra.Command, act bool) {
	flags := command.Flags()
	flags.StringVar(&f.Group, "group", "", "only in this consumer group")
	flags.StringVar(&f.Projection, "projection", "", "only of this projection")
	flags.StringVar(&f.CampaignID, "campaign", "", "only this campaign")
	flags.StringVar(&f.EventType, "type", "", "only where an event of this type failed")
	flags.StringVar(&f.Class, "class", "", "only failures of this class: infrastructure, transient, permanent, lock")
	flags.StringVar(&f.Code, "code", "", "only failures with this code: a SQLSTATE, panic, deadline, crash, decode, error")
	flags.StringVar(&f.Fingerprint, "fingerprint", "", "only failures with this fingerprint; stats lists them")
	flags.StringVar(&f.MessagePattern, "message", "",
		"only failures whose message matches this regular expression (POSIX)")
	bindDuration(flags, &f.OlderThan, "older-than", "only what first failed longer ago, such as 2h or 7d")
	bindDuration(flags, &f.NewerThan, "newer-than", "only what first failed since, such as 2h or 7d")
	if act {
		command.Args, command.ValidArgsFunction = noneOrKey, completeKey(env)
		flags.StringArrayVar(&f.status, "status", nil,
			"only with this status: failed, dead; may be given several times (default both)")
		flags.IntVar(&f.Limit, "limit", 0, "at most so many, those that are due first; 0: all")
		flags.BoolVar(&f.all, "all", false, "all failed campaigns, if nothing else chooses them")
	} else {
		flags.StringArrayVar(&f.status, "status", nil,
			"only with this status: failed, dead, rebuilding; may be given several times (default all)")
		flags.IntVar(&f.Limit, "limit", 100, "at most so many")
	}
	cli.CompleteFlag(command, "group", env.Complete(groupNames))
	cli.CompleteFlag(command, "projection", env.Complete(projectionNames))
	cli.CompleteFlag(command, "campaign", env.Complete(deferredCampaigns))
	cli.CompleteFlag(command, "class", cli.Choices(failure.Classes()))
	cli.CompleteFlag(command, "status", cli.Choices(f.statuses(act)))
	cli.CompleteFlag(command, "fingerprint", env.Complete(fingerprints))
}

func (f *pairFilter) statuses(act bool) []deferred.Status {
	if act {
		return []deferred.Status{deferred.Failed, deferred.Dead}
	}
	return deferred.Statuses()
}

// finish checks the flags once they are parsed. In an act Status is never empty, so that a count
// counts what the act will change.
func (f *pairFilter) finish(act bool) error {
	for _, s := range f.status {
		if err := cli.OneOf("status", deferred.Status(s), f.statuses(act)); err != nil {
			return err
		}
		f.Status = append(f.Status, deferred.Status(s))
	}
	if f.Class != "" {
		if err := cli.OneOf("class", projector.Class(f.Class), failure.Classes()); err != nil {
			return err
		}
	}
	if len(f.named) > 0 {
		if !f.open() || f.all {
			return cli.Usagef("%s %s: PROJECTION and CAMPAIGN name one failed campaign; leave out the flags that choose some",
				f.named[0], f.named[1])
		}
		f.Projection, f.CampaignID = f.named[0], f.named[1]
	}
	switch {
	case f.Limit < 0:
		return cli.Usagef("--limit %d: at least 1", f.Limit)
	case act && f.open() && !f.all:
		return cli.Usagef("which failed campaigns? Name PROJECTION and CAMPAIGN, or choose with --projection, --campaign, " +
			"--type, --class, --code, --fingerprint, --message, --group, --status, --older-than or --newer-than, or say --all")
	case act && len(f.Status) == 0:
		f.Status = f.statuses(act)
	}
	return nil
}

// noneOrKey is for commands that take PROJECTION and CAMPAIGN, or neither.
func noneOrKey(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || len(args) == 2 && args[0] != "" && args[1] != "" {
		return nil
	}
	return cli.Usagef("%s which failed campaign? Name PROJECTION and CAMPAIGN, or neither", cmd.Name())
}

// open says whether nothing chooses failed campaigns.
func (f *pairFilter) open() bool {
	return f.Group == "" && f.key() == (deferred.Key{}) && f.EventType == "" && f.Class == "" && f.Code == "" &&
		f.Fingerprint == "" && f.MessagePattern == "" &&
		len(f.status) == 0 && f.ages() == 0
}

// one says whether the arguments name one failed campaign.
func (f *pairFilter) one() bool { return len(f.named) > 0 }

func (f *pairFilter) key() deferred.Key {
	return deferred.Key{Projection: f.Projection, CampaignID: f.CampaignID}
}

func (f *pairFilter) ages() time.Duration { return max(f.OlderThan, f.NewerThan) }

// withPool is [cli.Env.WithPool] for work that chooses failed campaigns: only the database can say whether a pattern is
// one.
func (f *pairFilter) withPool(
	ctx context.Context, env *cli.Env, work func(context.Context, *pgxpool.Pool) error,
) error {
	err := env.WithPool(ctx, work)
	if errors.Is(err, deferred.ErrPattern) {
		return cli.Usagef("--message %q: %w", f.MessagePattern, err)
	}
	return err
}
