package status

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/pause"
)

// Severity says how soon a person should look.
type Severity string

// The severities, the worst first.
const (
	Critical Severity = "critical" // now: it will not mend itself, or does harm
	Warning  Severity = "warning"  // today
	Note     Severity = "note"     // an operator means it so
)

// Problem is something that is wrong now.
type Problem struct {
	Severity Severity
	What     string     // in a sentence
	Where    string     // group, projection, topic or table; empty: everywhere
	Since    *time.Time // nil: not known
	Do       string     // what to do about it
}

// Limits of what is no problem yet.
const (
	longQueue       = time.Minute     // that the oldest entry has waited
	longTransaction = 5 * time.Minute // open: it keeps autovacuum from the hot tables
	longAppend      = time.Minute     // holding the writer floor
	longSilence     = 5 * time.Minute // of a publisher that is behind
	longUnpruned    = time.Hour       // marks of the inbox
	recentGhosts    = 7 * 24 * time.Hour
	manyDead        = 100_000     // tuples, if they are more than the live ones
	fewTransactions = 200_000_000 // left before wraparound
	noTransactions  = 20_000_000
	busyConnections = 0.9 // of max_connections
)

// Problems says what is wrong, the worst first, those of one severity by how long they have been
// there. It knows only of sections that have been read.
func (s *Status) Problems() []Problem {
	problems := slices.Concat(s.unread(), s.work(), s.failures(), s.mixed(), s.paused(), s.kept(), s.rebuilding(),
		s.publishing(), s.storage(), s.locked())
	rank := map[Severity]int{Critical: 0, Warning: 1, Note: 2}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(rank[a.Severity], rank[b.Severity]), a.since().Compare(b.since()))
	})
	return problems
}

// since puts problems of unknown age last.
func (p Problem) since() time.Time {
	if p.Since == nil {
		return time.Unix(math.MaxInt32, 0)
	}
	return *p.Since
}

func (s *Status) unread() (problems []Problem) {
	for _, section := range Sections() {
		if err := s.Unread[section]; err != nil {
			problems = append(problems, Problem{
				Severity: Warning, What: fmt.Sprintf("could not be read: %v", err), Where: string(section),
				Do: "look again when the server is less busy, or as a role that may read the schema tidemark; tidemark " +
					"doctor says more",
			})
		}
	}
	return problems
}

// work is about groups and who works for them.
func (s *Status) work() (problems []Problem) {
	live, missing := map[string]int{}, map[string][]Worker{}
	for _, w := range s.Workers {
		if w.Live() {
			live[w.ConsumerGroup]++
		} else if w.Missing() {
			missing[w.ConsumerGroup] = append(missing[w.ConsumerGroup], w)
		} else if w.Ahead() {
			problems = append(problems, Problem{
				Severity: Warning, Where: "group " + w.ConsumerGroup,
				What: fmt.Sprintf("worker %s (process %d) was last seen %s from now: the database server's clock has gone back",
					w.Host, w.PID, (-w.Silent).Round(time.Second)),
				Do: "check the server's time synchronisation; campaigns that the worker held are taken over within two lives " +
					"of a lease, and retries wait no longer than their policy says",
			})
		}
	}
	for _, g := range s.Queue {
		waiting := g.Oldest != nil && g.At.Sub(g.Oldest.Since) > longQueue
		switch {
		case s.groupPaused(g.Group):
		case s.Workers != nil && live[g.Group] == 0 && g.Pending+g.Failed+g.Rebuilding > 0:
			p := Problem{
				Severity: Critical, What: fmt.Sprintf("%s wait and no worker lives",
					count(g.Pending, g.Estimated, "work item")), Where: "group " + g.Group,
				Do: "start a worker for the group; docs/guides/operations",
			}
			if g.Oldest != nil {
				p.Since = &g.Oldest.Since
			}
			problems = append(problems, p)
		case waiting && !s.drains(g.Group):
			problems = append(problems, Problem{
				Severity: Warning, What: fmt.Sprintf("the oldest entry, of campaign %q, has waited for more than %s",
					g.Oldest.CampaignID, longQueue), Where: "group " + g.Group, Since: &g.Oldest.Since,
				Do: "tidemark lag --watch says whether it drains; if not, add workers, or look for what holds the campaign: " +
					"tidemark campaign show",
			})
		}
	}
	for _, group := range sorted(missing) {
		problems = append(problems, silent(group, missing[group]))
	}
	for _, group := range sorted(s.Suspects) {
		problems = append(problems, Problem{
			Severity: Warning, What: fmt.Sprintf("a process has died while it held %s",
				count(s.Suspects[group], false, "campaign")), Where: "group " + group,
			Do: "look for the last log lines of workers that were killed or ran out of memory; the third death under one " +
				"event defers it as dead",
		})
	}
	return problems
}

// groupPaused says whether the group as a whole waits because an operator wants it to.
func (s *Status) groupPaused(group string) bool {
	return slices.ContainsFunc(s.Pauses, func(p pause.Pause) bool {
		return p.Group == group && p.Projection == "" && p.CampaignID == ""
	})
}

// silent sums up the workers of a group that have fallen silent, with the last of them.
func silent(group string, missing []Worker) Problem {
	last := slices.MaxFunc(missing, func(a, b Worker) int { return a.SeenAt.Compare(b.SeenAt) })
	first := slices.MinFunc(missing, func(a, b Worker) int { return a.SeenAt.Compare(b.SeenAt) })
	p := Problem{
		Severity: Warning, What: fmt.Sprintf("worker %s (process %d) has fallen silent without saying that it stops",
			last.Host, last.PID), Where: "group " + group, Since: &first.SeenAt,
		Do: "nothing if it has been replaced: its campaigns are taken over when their leases run out; else look at its log",
	}
	if len(missing) > 1 {
		p.What = fmt.Sprintf("%d workers have fallen silent without saying that they stop, the last of them %s (process %d)",
			len(missing), last.Host, last.PID)
	}
	return p
}

// kept is about tables that a rebuild has replaced and that no worker keeps up to date: nothing that is read.
func (s *Status) kept() (problems []Problem) {
	if s.Workers == nil {
		return nil
	}
	for _, k := range s.Kept {
		name := strings.TrimSuffix(k.Name, previous)
		if slices.ContainsFunc(s.Workers, func(w Worker) bool {
			return w.Live() && w.ConsumerGroup == k.Group && slices.Contains(w.Knows[name], k.Version)
		}) {
			continue
		}
		behind := ""
		for _, l := range s.Lag {
			if l.Projection == k.Name && l.Events > 0 {
				behind = ": they are " + count(l.Events, l.Estimated, "event") + " behind"
			}
		}
		problems = append(problems, Problem{
			Severity: Note, Where: "projection " + k.Name,
			What: fmt.Sprintf("no worker has the code of version %d, which keeps up the tables that a rebuild replaced%s. "+
				"Nothing reads them", k.Version, behind),
			Do: fmt.Sprintf("nothing; a rollback needs a worker with that code first, or tidemark projection rollback "+
				"%s --allow-behind -1", name),
		})
	}
	return problems
}

// previous ends the name of the tables that a rebuild has replaced.
const previous = "~previous"

// drains says whether the group's lag is known to fall.
func (s *Status) drains(group string) bool {
	return slices.ContainsFunc(s.Lag, func(l Lag) bool {
		return l.Group == group && l.Projection == "" && l.Drain != nil && l.Drain.PerSecond > 0
	})
}

func (s *Status) failures() (problems []Problem) {
	for _, d := range s.Deferred {
		class := d.Class
		if class == "" {
			class = "unknown"
		}
		p := Problem{Where: "projection " + d.Projection, Since: d.Since}
		switch d.Status {
		case failed.Dead:
			p.Severity, p.What = Critical, fmt.Sprintf("%s dead, of class %s: an operator has to act",
				are(d.Campaigns, d.Estimated, "campaign"), class)
			p.Do = fmt.Sprintf("tidemark failed stats --projection %s --status dead; deploy what mends it, then "+
				"tidemark failed requeue", d.Projection)
		case failed.Failed:
			p.Severity, p.What = Warning, fmt.Sprintf("%s failing, of class %s: they are tried again",
				are(d.Campaigns, d.Estimated, "campaign"), class)
			p.Do = fmt.Sprintf("tidemark failed stats --projection %s", d.Projection)
		default:
			continue
		}
		if strings.HasSuffix(d.Projection, previous) {
			p.Severity = Note
		}
		problems = append(problems, p)
	}
	return problems
}

// shownPauses is how many campaigns that are paused are named.
const shownPauses = 100

func (s *Status) paused() (problems []Problem) {
	campaigns := 0
	for _, p := range s.Pauses {
		if p.CampaignID != "" {
			if campaigns++; campaigns > shownPauses {
				continue
			}
		}
		what, do := "paused by "+p.By, "tidemark group resume "+p.Group
		switch {
		case p.Projection != "":
			do = "tidemark projection resume " + p.Projection
		case p.CampaignID != "":
			do = "tidemark campaign resume " + p.CampaignID
		}
		if p.Reason != "" {
			what += ": " + p.Reason
		}
		problems = append(problems, Problem{
			Severity: Note, What: what, Where: p.String(), Since: &p.PausedAt,
			Do: do + " when it may go on",
		})
	}
	if more := campaigns - shownPauses; more > 0 {
		problems = append(problems, Problem{
			Severity: Note, What: "paused besides: " + count(int64(more), false, "campaign"),
			Do: "tidemark group list",
		})
	}
	return problems
}

func (s *Status) rebuilding() (problems []Problem) {
	for _, r := range s.Rebuilds {
		if r.Refusal != "" {
			problems = append(problems, Problem{
				Severity: Warning, What: "the rebuilt tables could not be exchanged: " + r.Refusal, Where: "projection " +
					r.Projection, Since: &r.StartedAt,
				Do: "mend that, it is tried again by itself; or tidemark projection abort-rebuild",
			})
		}
	}
	return problems
}

func (s *Status) publishing() (problems []Problem) {
	for _, p := range s.Publishers {
		where := fmt.Sprintf("publisher %s of topic %s", p.Publisher, p.Topic)
		show := fmt.Sprintf("tidemark publisher show %s --topic %s", p.Publisher, p.Topic)
		behind := s.At.Add(-p.Lag)
		switch {
		case p.Status == "FAILED":
			problems = append(problems, Problem{
				Severity: Critical, What: "has failed and waits for an operator: " + p.Reason,
				Where: where, Since: p.FailingSince, Do: show + "; mend it, then tidemark publisher reset",
			})
		case p.Status == "PAUSED":
			problems = append(problems, Problem{
				Severity: Note, What: "paused by " + p.Actor + ": " + p.Reason, Where: where,
				Do: "tidemark publisher resume when it may go on",
			})
		case p.Errors > 0:
			problems = append(problems, Problem{
				Severity: Warning,
				What:     fmt.Sprintf("fails, %d times in a row: %s", p.Errors, p.LastError), Where: where,
				Since: p.FailingSince, Do: show,
			})
		case p.Holder == "" && p.Lag > longSilence:
			problems = append(problems, Problem{
				Severity: Critical, What: "is behind and no process holds it", Where: where,
				Since: &behind, Do: "start a worker that knows it: TIDEMARK_PUBLISHERS",
			})
		case p.Lag > longSilence:
			problems = append(problems, Problem{
				Severity: Warning,
				What:     fmt.Sprintf("is %s behind", count(p.Behind, p.Estimated(), "event")), Where: where,
				Since: &behind, Do: show,
			})
		}
		if p.GhostsAt != nil && s.At.Sub(*p.GhostsAt) < recentGhosts {
			problems = append(problems, Problem{
				Severity: Warning, Where: where, Since: p.GhostsAt,
				What: atLeast(p.ManyGhosts()) + count(p.Ghosts, false,
					"event") + " sent that the journal has no more: a failover or a backup has lost their commits",
				Do: fmt.Sprintf("tidemark publisher ghosts %s --topic %s names them, for 30 days; "+
					"docs/guides/operations/failover.md says what consumers do",
					p.Publisher, p.Topic),
			})
		}
		if p.Parked > 0 {
			problems = append(problems, Problem{
				Severity: Warning, What: atLeast(p.ManyParked()) + count(p.Parked, false,
					"event") + " parked: the sink refused them by themselves", Where: where,
				Do: fmt.Sprintf("tidemark publisher parked list --publisher %s --topic %s; then parked retry or parked resolve",
					p.Publisher, p.Topic),
			})
		}
	}
	return problems
}

func atLeast(bounded bool) string {
	if bounded {
		return "at least "
	}
	return ""
}

// count names a number of things: "3 campaigns", "about 5,000 events".
func count(n int64, estimated bool, thing string) string {
	about := ""
	if estimated {
		about = "about "
	}
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%s%d %s", about, n, thing)
}

func are(n int64, estimated bool, thing string) string {
	verb := " are"
	if n == 1 {
		verb = " is"
	}
	return count(n, estimated, thing) + verb
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
