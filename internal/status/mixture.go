package status

import (
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// mixed is about groups whose workers do not have the same projections. While that may be a rolling
// upgrade it is a note.
func (s *Status) mixed() (problems []Problem) {
	var live []lease.Worker
	for _, w := range s.Workers {
		if w.Live() {
			live = append(live, w.Worker)
		}
	}
	for _, m := range lease.Mixtures(live) {
		p := Problem{Severity: Warning, What: m.String(), Where: "group " + m.Group, Since: &m.Since, Do: m.Remedy()}
		if m.Upgrade(s.At) {
			p.Severity = Note
		}
		problems = append(problems, p)
	}
	return problems
}
