package status

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// newErrors returns the counter of sections that could not be read.
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
	e.time("tidemark_status_timestamp_seconds", "When the database's figures were read.", &s.At)
	e.queue(s)
	e.lag(s)
	e.deferred(s)
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
