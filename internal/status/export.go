package status

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
)

func (e export) queue(s *Status) {
	for _, g := range s.Queue {
		counts := map[outbox.Status]int64{
			outbox.Pending: g.Pending, outbox.Processing: g.Processing, outbox.Paused: g.Paused, outbox.Failed: g.Failed,
			outbox.Dead: g.Dead, outbox.CatchingUp: g.CatchingUp,
		}
		for status, n := range counts {
			e.gauge("tidemark_queue_entries",
				"Events of work items, and campaigns of projections that failed or are catching up.", float64(n),
				"consumer_group", g.Group, "status", string(status))
		}
		if g.Oldest != nil {
			e.time("tidemark_queue_oldest_timestamp_seconds",
				"Append time of the oldest event that a worker could take now.", &g.Oldest.Since,
				"consumer_group", g.Group)
		}
	}
}

func (e export) lag(s *Status) {
	for _, l := range s.Lag {
		subject, labels := "group", []string{"consumer_group", l.Group}
		if l.Projection != "" {
			subject, labels = "projection", []string{"consumer_group", l.Group, "projection", l.Projection}
		}
		e.gauge("tidemark_"+subject+"_lag_events", "Events not yet applied by the "+subject+".", float64(l.Events),
			labels...)
		e.gauge("tidemark_"+subject+"_lag_seconds", "Age of the oldest event that the "+subject+
			" has not applied; 0: there is none.", l.Age.Seconds(), labels...)
		e.gauge("tidemark_"+subject+"_lag_campaigns", "Campaigns with events that the "+subject+" has not applied.",
			float64(l.Campaigns), labels...)
	}
}

func (e export) failed(s *Status) {
	type state struct {
		group, projection string
		status            failed.Status
	}
	since := map[state]*time.Time{}
	for _, d := range s.Failed {
		at := state{d.Group, d.Projection, d.Status}
		if d.Since != nil && (since[at] == nil || d.Since.Before(*since[at])) {
			since[at] = d.Since
		}
		e.gauge("tidemark_failed_campaigns", "Campaigns in which a projection is behind its group.", float64(d.Campaigns),
			"consumer_group", d.Group, "projection", d.Projection, "status", string(d.Status), "class",
			cmp.Or(d.Class, "none"))
	}
	for at, first := range since {
		e.time("tidemark_failed_oldest_timestamp_seconds", "First failure of the campaign that has failed longest.", first,
			"consumer_group", at.group, "projection", at.projection, "status", string(at.status))
	}
}

// pauses exports whether each group and projection of Lag is paused. It needs both sections.
func (e export) pauses(s *Status) {
	if s.Pauses == nil {
		return
	}
	type target struct{ group, projection string }
	paused, campaigns := map[target]bool{}, map[string]int{}
	for _, p := range s.Pauses {
		if p.CampaignID != "" {
			campaigns[p.Group]++
			continue
		}
		paused[target{p.Group, p.Projection}] = true
	}
	for _, l := range s.Lag {
		is := flag(paused[target{l.Group, l.Projection}])
		if l.Projection != "" {
			e.gauge("tidemark_projection_paused", "Whether an operator has paused the projection.", is, "consumer_group",
				l.Group, "projection", l.Projection)
			continue
		}
		e.gauge("tidemark_group_paused", "Whether an operator has paused the group.", is, "consumer_group", l.Group)
		e.gauge("tidemark_campaigns_paused", "Campaigns that operators have paused, counted up to 10,000 in all.",
			float64(campaigns[l.Group]), "consumer_group", l.Group)
	}
}

func (e export) workers(s *Status) {
	if s.Workers == nil {
		return
	}
	type tally struct{ live, missing, held int }
	groups := map[string]*tally{}
	of := func(group string) *tally {
		if groups[group] == nil {
			groups[group] = &tally{}
		}
		return groups[group]
	}
	for _, g := range s.Queue {
		of(g.Group)
	}
	for _, w := range s.Workers {
		t := of(w.ConsumerGroup)
		switch {
		case w.Live():
			t.live++
			t.held += w.CampaignsHeld
		case w.Missing():
			t.missing++
		}
	}
	for group, t := range groups {
		e.gauge("tidemark_workers", "Workers seen in the last 5 seconds.", float64(t.live), "consumer_group", group)
		e.gauge("tidemark_workers_missing",
			"Workers that disappeared: seen in the last hour, not in the last 5 seconds, and not unregistered.",
			float64(t.missing), "consumer_group", group)
		e.gauge("tidemark_campaigns_leased", "Campaigns that the live workers say they hold.", float64(t.held),
			"consumer_group", group)
		e.gauge("tidemark_suspects", "Campaigns whose worker died while it held them.", float64(s.Suspects[group]),
			"consumer_group", group)
	}
}

func (e export) rebuilds(s *Status) {
	for _, r := range s.Rebuilds {
		labels := []string{"consumer_group", r.Group, "projection", r.Projection}
		e.gauge("tidemark_rebuild_campaigns_left", "Campaigns that the rebuild has not caught up with.",
			float64(r.Left+r.Failed+r.Dead), labels...)
		e.gauge("tidemark_rebuild_progress_ratio", "Share of the campaigns that the rebuild has caught up with.",
			r.Progress(), labels...)
		e.gauge("tidemark_rebuild_refused", "Whether the last attempt to swap the tables failed.",
			flag(r.Refusal != ""), labels...)
	}
}

func (e export) publishers(s *Status) {
	for _, p := range s.Publishers {
		labels := []string{"topic", p.Topic, "publisher", p.Publisher}
		e.gauge("tidemark_publisher_position", "Position up to which events are published or parked.", float64(p.Position),
			labels...)
		e.gauge("tidemark_publisher_lag_events",
			"Events of the journal after the publisher's position, before the topic's filter.", float64(p.Behind), labels...)
		e.gauge("tidemark_publisher_lag_seconds",
			"Age of the first event after the publisher's position; 0: there is none.", p.Lag.Seconds(), labels...)
		for _, status := range []string{"ACTIVE", "PAUSED", "FAILED"} {
			e.gauge("tidemark_publisher_status", "1 for the publisher's current status.", flag(p.Status == status), "topic",
				p.Topic, "publisher", p.Publisher, "status", status)
		}
		e.gauge("tidemark_publisher_errors", "Failures in a row.", float64(p.Errors), labels...)
		e.gauge("tidemark_publisher_held", "Whether a process holds the publisher.", flag(p.Holder != ""), labels...)
		e.gauge("tidemark_publisher_parked", "Events that wait for an operator.", float64(p.Parked), labels...)
		e.gauge("tidemark_publisher_retrying", "Refused events that are retried, and campaigns that catch up behind them.",
			float64(p.Retrying), labels...)
		e.gauge("tidemark_publisher_ghosts", "Events that were sent but are missing from the journal, kept for 30 days.",
			float64(p.Ghosts), labels...)
		e.time("tidemark_publisher_ghosts_timestamp_seconds", "Time when the last ghost was found.", p.GhostsAt,
			labels...)
	}
}

// rest exports the sections with one value: the inbox, scheduled appends, the journal and Postgres.
func (e export) rest(s *Status) {
	if i := s.Inbox; i != nil {
		e.gauge("tidemark_inbox_rows", "Marks in the inbox, by the planner's estimate.", float64(i.Rows))
		e.time("tidemark_inbox_oldest_expiry_timestamp_seconds",
			"When the next mark of the inbox expires, or should have been pruned.", i.OldestExpiry)
	}
	if r := s.Scheduled; r != nil {
		e.gauge("tidemark_scheduled_pending", "Scheduled appends that are to be made.", float64(r.Pending))
		e.gauge("tidemark_scheduled_overdue", "Scheduled appends that are due, counted up to 10,000.", float64(r.Overdue))
		e.gauge("tidemark_scheduled_overdue_seconds", "Time since the first of them was due; 0: there is none.",
			r.OverdueFor.Seconds())
		e.gauge("tidemark_scheduled_refused", "Scheduled appends that were refused, counted up to 10,000.",
			float64(r.Refused))
	}
	if j := s.Journal; j != nil {
		e.gauge("tidemark_journal_position", "The last position handed out.", float64(j.Position))
		e.gauge("tidemark_writer_floor_lag_positions",
			"Positions that readers of the journal cannot read yet, since an append below them is in flight.",
			float64(j.Position-j.Floor))
		e.gauge("tidemark_writer_floor_age_seconds",
			"Age of the transaction that appended and holds the writer floor; 0: none does.", j.FloorAge.Seconds())
	}
	p := s.Postgres
	if p == nil {
		return
	}
	e.gauge("tidemark_postgres_oldest_transaction_seconds",
		"Age of the oldest transaction open in this database; 0: there is none.", p.OldestTransaction.Seconds())
	e.gauge("tidemark_postgres_connections", "Client connections of the server.", float64(p.Connections))
	e.gauge("tidemark_postgres_max_connections", "Client connections that the server may have.", float64(p.MaxConnections))
	e.gauge("tidemark_postgres_wraparound_transactions_left",
		"Transactions until this database refuses to write, unless it is vacuumed.", float64(p.WraparoundLeft))
	e.gauge("tidemark_postgres_notify_queue_ratio",
		"Fullness of the server's NOTIFY queue, from 0 to 1. Above 0.5 nothing notifies.", p.NotifyQueue)
	for _, t := range p.Tables {
		e.gauge("tidemark_postgres_table_live_tuples", "Rows, by the statistics.", float64(t.LiveTuples), "table", t.Name)
		e.gauge("tidemark_postgres_table_dead_tuples", "Rows that vacuum has yet to remove, by the statistics.",
			float64(t.DeadTuples), "table", t.Name)
		e.gauge("tidemark_postgres_table_bytes", "Size of the table with indexes and TOAST.", float64(t.Bytes), "table",
			t.Name)
		e.time("tidemark_postgres_table_vacuum_timestamp_seconds", "Time of the table's last vacuum.", t.VacuumedAt,
			"table", t.Name)
	}
}

func newErrors() *prometheus.CounterVec {
	unread := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidemark_status_errors_total",
		Help: "Sections of the database's figures that could not be read.",
	}, []string{"section"})
	for _, section := range Sections() {
		unread.WithLabelValues(string(section))
	}
	return unread
}

// Describe sends nothing: the set of metrics changes with the groups, projections and publishers.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the last reading if this process has the duty.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	s := c.current()
	e := export{out}
	e.gauge("tidemark_status_collecting", "Whether this replica exports the database's figures.", flag(s != nil))
	if s == nil {
		return
	}
	e.time("tidemark_status_timestamp_seconds", "Time when the database's figures were read.", &s.At)
	e.queue(s)
	e.lag(s)
	e.failed(s)
	e.pauses(s)
	e.workers(s)
	e.rebuilds(s)
	e.publishers(s)
	e.rest(s)
}

// export sends metrics. Labels are name and value in turn.
type export struct{ out chan<- prometheus.Metric }

func (e export) gauge(name, help string, value float64, labels ...string) {
	names, values := make([]string, 0, len(labels)/2), make([]string, 0, len(labels)/2)
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	e.out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), prometheus.GaugeValue, value,
		values...)
}

// time sends a time unless it is nil.
func (e export) time(name, help string, at *time.Time, labels ...string) {
	if at != nil {
		e.gauge(name, help, float64(at.UnixMicro())/1e6, labels...)
	}
}

func flag(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
