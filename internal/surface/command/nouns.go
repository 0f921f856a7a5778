package command

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// noun is a command that only groups others.
type noun struct {
	name  string // all words of it
	short string
	long  string // "": short says it all
}

func nouns() []noun {
	return []noun{
		{name: "outbox", short: "Show what remains to be done, and have what failed tried again"},
		{
			"failed", "See failed campaigns of projections, retry them, or leave an event out",
			`A projection that cannot apply an event stops in that campaign, and only there: this is a failed
campaign of the projection. Workers retry it by themselves (status failed) until its attempts are used up. Then it is
dead and waits for one of the acts here. A campaign that catches up is rebuilding. The log has every failure and
every act, with who and why.`,
		},
		{name: "campaign", short: "See, replay, stop and resume campaigns; travel in their time"},
		{name: "projection", short: "See, verify, rebuild, stop, resume and remove projections"},
		{name: "group", short: "See, stop, resume and remove consumer groups"},
		{
			"gaps", "Find and repair campaigns that nothing would bring to their heads",
			`A gap is a campaign whose journal goes on beyond a consumer group's checkpoint while
neither the outbox nor a failed campaign says so: no worker would ever come to it. There are none unless
work items were deleted by hand, or an append did not know the group. Workers look for gaps at their
start and repair them.`,
		},
		{
			"publisher", "See, stop, move and try what is published to brokers, webhooks, files",
			`A publisher is a sink with a name. Each pair of a topic and a publisher has its own
position in the journal, its own status and its own parked events: events that the sink has refused.
Commands name the publisher, and mean all of its topics unless --topic says which. What they do is kept
in the log, with who and why.`,
		},
		{
			"publisher parked", "See and decide what becomes of events that a sink has refused",
			`An event that a sink refuses by itself is tried again (retrying) and then given up
(parked). Its campaign waits behind it, unless the publisher leaves such events out; once it may go on it
is draining: on its way, with nothing against it.`,
		},
		{name: "workers", short: "See workers, have one take no more campaigns, and take some again"},
		{
			"operation", "See and end what operators have started, and workers do bit by bit",
			`Operations are acts on much, and rollbacks: workers do them bit by bit. A command that starts one
prints its number; with --wait it shows the progress, and ends as the operation ends.`,
		},
		{name: "events", short: "Carry events in and out, and look for some"},
		{
			"token", "Say who may use the pages and the API of workers",
			`Tokens for the admin listener of workers (TIDEMARK_ADMIN_ADDR): for its API, and to log in
to its pages. Only a hash of a token is kept: it is shown once.`,
		},
	}
}

// addCommands adds the nouns, and below them the commands of all views and acts, to the root. It answers the nouns by
// their names.
func addCommands(root *cobra.Command, env *cli.Env, sinks []publisher.Kind) map[string]*cobra.Command {
	parents := map[string]*cobra.Command{"": root}
	for _, n := range nouns() {
		above := nounOf(n.name)
		parents[n.name] = cli.Noun(strings.TrimPrefix(n.name, above+" "), n.short)
		parents[n.name].Long = n.long
		parents[above].AddCommand(parents[n.name])
	}
	for _, view := range operator.Views() {
		if view.Command != "" {
			above, command := parents[nounOf(view.Command)], newView(env, view)
			if view.Name == "listQueue" {
				withEntries(env, command, view)
			}
			above.AddCommand(command)
		}
	}
	more := map[string]extra{
		"startRebuild": rebuildCommand(env), "testSend": testSendCommand(env, sinks), "createToken": tokenCommand(env),
	}
	byCommand, acts := map[string][]*operator.Act{}, operator.Acts()
	for _, act := range acts {
		byCommand[act.Command] = append(byCommand[act.Command], act)
	}
	for _, act := range acts {
		if same := byCommand[act.Command]; act == same[0] && !act.ByHand {
			parents[nounOf(act.Command)].AddCommand(newAct(env, more[act.Name], same))
		}
	}
	return parents
}

// nounOf answers the noun of a command; "": it has none.
func nounOf(command string) string { return command[:max(0, strings.LastIndex(command, " "))] }
