package status

import (
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// mixed reports groups whose live workers have different projections. It is a note while it may be a
// rolling upgrade.
func (s *Status) mixed(found *problems) {
	var live []lease.Worker
	for _, w := range s.Workers {
		if w.Live() {
			live = append(live, w.Worker)
		}
	}
	for _, m := range lease.Mixtures(live) {
		severity := Warning
		if m.Upgrade(s.At) {
			severity = Note
		}
		found.add(severity, "group "+m.Group, &m.Since, m.Remedy(), "%s", m)
	}
}
