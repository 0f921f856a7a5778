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

// Severity tells how soon a person should act.
type Severity string

// The severities, the worst first.
const (
	Critical Severity = "critical" // now: it does not recover by itself, or does harm
	Warning  Severity = "warning"  // today
	Note     Severity = "note"     // an operator intends it
)

// Problem is something that is wrong now.
type Problem struct {
	Severity Severity
	What     string     // one sentence
	Where    string     // group, projection, topic or table; empty: everywhere
	Since    *time.Time // nil: not known
	Do       string     // what to do about it
}

// Thresholds of problems.
const (
	longQueue       = time.Minute     // wait of the oldest entry
	longTransaction = 5 * time.Minute // open: it keeps autovacuum from removing dead rows of the hot tables
	longAppend      = time.Minute     // holding the writer floor
	longSilence     = 5 * time.Minute // lag of a publisher
	longOverdue     = time.Minute     // of a scheduled append
	longUnpruned    = time.Hour       // age of expired marks in the inbox
	recentGhosts    = 7 * 24 * time.Hour
	manyDead        = 100_000     // dead tuples, if they outnumber the live ones
	fewTransactions = 500_000_000 // transactions left before wraparound
	noTransactions  = 100_000_000
	busyConnections = 0.9 // of max_connections
	halfFull        = 0.5 // of the NOTIFY queue: from here on nothing notifies (tidemark.may_notify)
	nearlyFull      = 0.9
)

type problems []Problem

// add adds a problem. what is a format for args.
func (p *problems) add(severity Severity, where string, since *time.Time, do, what string, args ...any) {
	*p = append(*p, Problem{severity, fmt.Sprintf(what, args...), where, since, do})
}

// Problems returns what is wrong, the worst first; within a severity, the longest-standing first. It
// covers only sections that have been read.
func (s *Status) Problems() []Problem {
	var found problems
	for _, look := range []func(*problems){
		s.unread, s.incomplete, s.work, s.silent, s.failures, s.mixed, s.changed, s.paused, s.kept, s.rebuilding,
		s.publishing, s.across, s.scheduled, s.storage, s.locked,
	} {
		look(&found)
	}
	rank := map[Severity]int{Critical: 0, Warning: 1, Note: 2}
	slices.SortStableFunc(found, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(rank[a.Severity], rank[b.Severity]), a.since().Compare(b.since()))
	})
	return found
}

// since returns Since for sorting. Unknown times sort last.
func (p Problem) since() time.Time {
	if p.Since == nil {
		return time.Unix(math.MaxInt32, 0)
	}
	return *p.Since
}

func (s *Status) unread(found *problems) {
	for _, section := range Sections() {
		if err := s.Unread[section]; err != nil {
			found.add(Warning, string(section), nil,
				"look again when the server is less busy, or as a role that may read the schema tidemark; tidemark "+
					"doctor says more",
				"could not be read: %v", err)
		}
	}
}

// incomplete reports what a copy of the database lacks.
func (s *Status) incomplete(found *problems) {
	if s.Journal == nil {
		return
	}
	for _, f := range s.Journal.Faults {
		found.add(Critical, f.Object, nil,
			"stop the programs that append, run tidemark copy repair, start them again; then tidemark gaps late shows "+
				"events that readers have passed",
			"%s: this database is an incomplete copy", f.Fault)
	}
}

// work reports groups without workers or with old entries, and campaigns under which a process died.
func (s *Status) work(found *problems) {
	live := map[string]int{}
	for _, w := range s.Workers {
		if w.Live() {
			live[w.ConsumerGroup]++
		}
	}
	for _, g := range s.Queue {
		var since *time.Time
		if g.Oldest != nil {
			since = &g.Oldest.Since
		}
		switch {
		case s.groupPaused(g.Group):
		case s.Workers != nil && live[g.Group] == 0 && g.Pending+g.Failed+g.CatchingUp > 0:
			found.add(Critical, "group "+g.Group, since, "start a worker for the group; docs/guides/operations",
				"%s wait and no worker lives", count(g.Pending, g.Estimated, "work item"))
		case since != nil && g.At.Sub(*since) > longQueue && !s.drains(g.Group):
			found.add(Warning, "group "+g.Group, since,
				"check tidemark lag: if it does not shrink, add workers, or see what holds the campaign with "+
					"tidemark campaign show",
				"the oldest entry, of campaign %q, has waited for more than %s", g.Oldest.CampaignID, longQueue)
		}
	}
	for _, group := range sorted(s.Suspects) {
		found.add(Warning, "group "+group, nil,
			"look at the last log lines of workers that were killed or ran out of memory; after the third crash "+
				"at one event the campaign is dead",
			"a process has died while it held %s", count(s.Suspects[group], false, "campaign"))
	}
}

func (s *Status) groupPaused(group string) bool {
	return slices.ContainsFunc(s.Pauses, func(p pause.Pause) bool {
		return p.Group == group && p.Projection == "" && p.CampaignID == ""
	})
}

// silent reports workers that have gone silent, one problem a group, and workers that were last seen
// in the future.
func (s *Status) silent(found *problems) {
	missing := map[string][]Worker{}
	for _, w := range s.Workers {
		switch {
		case w.Missing():
			missing[w.ConsumerGroup] = append(missing[w.ConsumerGroup], w)
		case w.Ahead():
			found.add(Warning, "group "+w.ConsumerGroup, nil,
				"check the server's time synchronisation; campaigns that the worker held are taken over within two lease "+
					"times, and retries wait no longer than their policy says",
				"worker %s (process %d) was last seen %s in the future: the database server's clock has gone back", w.Host, w.PID,
				(-w.Silent).Round(time.Second))
		}
	}
	for _, group := range sorted(missing) {
		all := missing[group]
		seen := func(a, b Worker) int { return a.SeenAt.Compare(b.SeenAt) }
		first, last := slices.MinFunc(all, seen), slices.MaxFunc(all, seen)
		what := fmt.Sprintf("worker %s (process %d) has disappeared without unregistering", last.Host, last.PID)
		if len(all) > 1 {
			what = fmt.Sprintf("%d workers have disappeared without unregistering, the last one %s (process %d)",
				len(all), last.Host, last.PID)
		}
		found.add(Warning, "group "+group, &first.SeenAt,
			"nothing if it was replaced: others take its campaigns when their leases expire; otherwise look at its log",
			"%s", what)
	}
}

// kept notes tables that a rebuild replaced and that no live worker keeps up to date. Nothing reads
// them.
func (s *Status) kept(found *problems) {
	if s.Workers == nil {
		return
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
		found.add(Note, "projection "+k.Name, nil,
			"nothing, unless you roll back: that needs a worker with that code, or tidemark projection rollback "+name+
				" --allow-behind -1",
			"no worker has the code of version %d, so the tables that a rebuild replaced get no events%s. Nothing reads them",
			k.Version, behind)
	}
}

// previous is the suffix of projections whose tables a rebuild has replaced.
const previous = "~previous"

// drains reports whether the group's lag is known to fall.
func (s *Status) drains(group string) bool {
	return slices.ContainsFunc(s.Lag, func(l Lag) bool {
		return l.Group == group && l.Projection == "" && l.Drain != nil && l.Drain.PerSecond > 0
	})
}

func (s *Status) failures(found *problems) {
	for _, d := range s.Failed {
		severity, do := Warning, "tidemark failed stats --projection "+d.Projection
		what := "%s failing, of class %s: they are retried"
		switch d.Status {
		case failed.Dead:
			severity, what = Critical, "%s dead, of class %s: an operator has to act"
			do += "; deploy a fix, then tidemark failed requeue"
		case failed.Failed:
		default:
			continue
		}
		found.add(severity, "projection "+d.Projection, d.Since, do, what, are(d.Campaigns, d.Estimated, "campaign"),
			cmp.Or(d.Class, "unknown"))
	}
}

// shownPauses is the maximum number of paused campaigns that are named.
const shownPauses = 100

func (s *Status) paused(found *problems) {
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
		found.add(Note, p.String(), &p.PausedAt, do+" when it may continue", "%s", what)
	}
	if more := campaigns - shownPauses; more > 0 {
		found.add(Note, "", nil, "tidemark group list", "paused besides: %s", count(int64(more), false, "campaign"))
	}
}

func (s *Status) rebuilding(found *problems) {
	for _, r := range s.Rebuilds {
		if r.Refusal != "" {
			found.add(Warning, "projection "+r.Projection, &r.StartedAt,
				"fix that, and it is retried; or tidemark projection abort-rebuild",
				"the rebuilt tables could not be swapped: %s", r.Refusal)
		}
	}
}

func (s *Status) publishing(found *problems) {
	for _, p := range s.Publishers {
		where := fmt.Sprintf("publisher %s of topic %s", p.Publisher, p.Topic)
		show := fmt.Sprintf("tidemark publisher show %s --topic %s", p.Publisher, p.Topic)
		behind := s.At.Add(-p.Lag)
		switch {
		case p.Status == "FAILED":
			found.add(Critical, where, p.FailingSince, show+"; fix it, then tidemark publisher reset",
				"has failed and waits for an operator: %s", p.Reason)
		case p.Status == "PAUSED":
			found.add(Note, where, nil, "tidemark publisher resume when it may continue", "paused by %s: %s", p.Actor, p.Reason)
		case p.Errors > 0:
			found.add(Warning, where, p.FailingSince, show, "fails, %d times in a row: %s", p.Errors, p.LastError)
		case p.Holder == "" && p.Lag > longSilence:
			found.add(Critical, where, &behind, "start a worker that knows it: TIDEMARK_PUBLISHERS",
				"is behind and no process holds it")
		case p.Lag > longSilence:
			found.add(Warning, where, &behind, show, "is %s behind", count(p.Behind, p.Estimated, "event"))
		}
		if p.GhostsAt != nil && s.At.Sub(*p.GhostsAt) < recentGhosts {
			found.add(Warning, where, p.GhostsAt,
				fmt.Sprintf("tidemark publisher ghosts %s --topic %s lists them for 30 days; "+
					"docs/guides/operations/failover.md says what consumers do", p.Publisher, p.Topic),
				"%s%s sent but missing from the journal: a failover or a restore lost their commits",
				atLeast(p.ManyGhosts()), count(p.Ghosts, false, "event"))
		}
		if p.Parked > 0 {
			found.add(Warning, where, nil,
				fmt.Sprintf("tidemark publisher parked list --publisher %s --topic %s; then parked retry or parked resolve",
					p.Publisher, p.Topic),
				"%s%s parked: the sink refused them", atLeast(p.ManyParked()), count(p.Parked, false, "event"))
		}
	}
}

// across reports projections across campaigns whose live tables are behind. A place that stands at the writer
// floor waits for the append that holds it.
func (s *Status) across(found *problems) {
	for _, p := range s.Places {
		paused := func(by pause.Pause) bool {
			return by.Group == p.Group && by.CampaignID == "" && (by.Projection == "" || by.Projection == p.Projection)
		}
		if strings.Contains(p.Projection, "~") || p.Lag <= longSilence || slices.ContainsFunc(s.Pauses, paused) {
			continue
		}
		where, behind := fmt.Sprintf("projection %s, partition %d", p.Projection, p.Partition), s.At.Add(-p.Lag)
		late := count(p.Behind, p.Estimated, "event")
		switch j := s.Journal; {
		case p.Holder == "":
			found.add(Critical, where, &behind, "start a worker that has its code",
				"is %s behind and no process holds it", late)
		case j != nil && j.FloorHolder != "" && p.Position >= j.Floor:
			found.add(Warning, where, &behind, "end it: "+j.FloorRemedy,
				"is %s behind: it waits for a transaction that has appended and stays open (%s)", late, j.FloorHolder)
		default:
			found.add(Warning, where, &behind, "tidemark failed list --projection "+p.Projection+
				" shows what holds it back; if nothing does, add partitions", "is %s behind", late)
		}
	}
}

func (s *Status) scheduled(found *problems) {
	r := s.Scheduled
	if r == nil {
		return
	}
	if since := s.At.Add(-r.OverdueFor); r.OverdueFor > longOverdue {
		found.add(Warning, "scheduled appends", &since,
			"tidemark scheduled list: if one campaign is late, end the transaction that holds it, which tidemark doctor "+
				"names; if all are, see the workers' logs",
			"%s due and not made", are(r.Overdue, false, "append"))
	}
	if r.Refused > 0 {
		found.add(Warning, "scheduled appends", nil,
			"tidemark scheduled list --refused says why; end the cause, or tidemark scheduled cancel",
			"%s refused: they are retried", are(r.Refused, false, "append"))
	}
}

func atLeast(bounded bool) string {
	if bounded {
		return "at least "
	}
	return ""
}

// count formats a number of things: "3 campaigns", "about 5000 events".
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
