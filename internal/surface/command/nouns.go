package command

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator/acts"
	"github.com/tidemark-go/tidemark/internal/operator/views"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// noun is a command that only groups others.
type noun struct {
	name  string // with the noun above it
	short string
	long  string // default: short
}

func nouns() []noun {
	return []noun{
		{name: "outbox", short: "Show the backlog and retry failed events"},
		{
			"failed", "Show failed campaigns, retry them, or leave out an event",
			`A projection that cannot apply an event stops in that campaign only: this is a failed campaign of
the projection. Workers retry it (status failed) until its attempts are used up. Then it is dead and waits for an
operator: requeue or resolve it. A campaign that catches up is listed too. The log has every failure and every act,
with who and why.`,
		},
		{name: "campaign", short: "Show, replay, pause, resume, archive and erase campaigns, and look at their past"},
		{name: "subject", short: "Erase the events about a person"},
		{name: "erase", short: "List and abandon erasures, and search for what one has left"},
		{name: "projection", short: "Show, verify, rebuild, pause, resume and remove projections"},
		{name: "group", short: "Show, pause, resume and remove consumer groups"},
		{
			"gaps", "Find and repair campaigns that no worker would process",
			`A gap is a campaign that has events past a consumer group's checkpoint, while neither the outbox nor a
failed campaign says so: no worker would ever process it. Gaps appear only if work items were deleted by hand, or if an
append did not know the group. Workers look for gaps when they start and repair them.`,
		},
		{
			"publisher", "Show, pause and move publishers to brokers, webhooks and files",
			`A publisher is a sink with a name. Each pair of a topic and a publisher has its own position in the
journal, its own status and its own parked events, which the sink has refused. Commands name the publisher and act on
all of its topics unless --topic names one. The log keeps every act, with who and why.`,
		},
		{
			"publisher parked", "Show events that a sink refused, and retry or resolve them",
			`An event that a sink refuses is retried (retrying) and then given up (parked). Its campaign waits
behind it, unless the publisher leaves such events out. A campaign that may go on again is draining until it has caught
up.`,
		},
		{
			"scheduled", "Show, move and cancel appends that are still to be made",
			`A scheduled append is made by a worker when it is due, exactly once. One that is refused is retried, and holds
back no other.`,
		},
		{name: "copy", short: "Repair a copy of the database"},
		{name: "catalogue", short: "Check event catalogues before they are deployed"},
		{name: "keys", short: "Change the wrapping key of personal fields, and delete keys"},
		{name: "workers", short: "Show, drain and undrain workers"},
		{
			"operation", "Show and abort operations",
			`An operation is an act on many things, or a rollback, that workers do in batches. A command that
starts one prints its number. With --wait it shows the progress and exits as the operation ends.`,
		},
		{name: "events", short: "Import, export and query events"},
		{
			"token", "Manage admin tokens",
			`Tokens give access to the API and the pages of workers (TIDEMARK_ADMIN_ADDR). Only a hash of a token is
kept, so it is shown once.`,
		},
	}
}

// addCommands adds the nouns to the root, with the commands of all views and acts. It returns the nouns
// by name.
func addCommands(root *cobra.Command, env *cli.Env) map[string]*cobra.Command {
	parents := map[string]*cobra.Command{"": root}
	for _, n := range nouns() {
		above := nounOf(n.name)
		parents[n.name] = cli.Noun(strings.TrimPrefix(n.name, above+" "), n.short)
		parents[n.name].Long = n.long
		parents[above].AddCommand(parents[n.name])
	}
	for _, view := range views.All() {
		if view.Command != "" {
			above, command := parents[nounOf(view.Command)], newView(env, view)
			if view.Name == "listQueue" {
				withEntries(env, command, view)
			}
			above.AddCommand(command)
		}
	}
	more := map[string]extra{
		"startRebuild": rebuildCommand(env), "createToken": tokenCommand(env),
		"archiveCampaign": archiveCommand(env), "restoreCampaign": archiveCommand(env),
		"eraseCampaign": eraseCommand(env), "eraseSubjects": eraseCommand(env), "abandonErasure": abandonCommand(),
		"rotateKeys": keysCommand(), "trustWrappingKey": keysCommand(),
	}
	byCommand := map[string][]*acts.Act{}
	for _, act := range acts.All() {
		byCommand[act.Command] = append(byCommand[act.Command], act)
	}
	for _, act := range acts.All() {
		if same := byCommand[act.Command]; act == same[0] && !act.ByHand {
			parents[nounOf(act.Command)].AddCommand(newAct(env, more[act.Name], same))
		}
	}
	return parents
}

// nounOf returns the noun of a command; "": none.
func nounOf(command string) string { return command[:max(0, strings.LastIndex(command, " "))] }
