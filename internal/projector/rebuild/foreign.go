package rebuild

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// foreign is what a worker has logged about projections of its group that it lacks.
type foreign struct {
	mu     sync.Mutex
	names  []string
	since  time.Time
	warned bool
}

// logForeign logs which projections of the group this worker lacks: at registration, when they
// change, and once more when this has lasted too long for a rolling upgrade.
func (b *Rebuilder) logForeign(ctx context.Context, rows map[string]*rebuildRow, now time.Time) {
	var names []string
	for _, r := range rows {
		if b.Foreign(&r.Registered) {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	s := &b.foreign
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := !slices.Equal(names, s.names)
	if changed {
		s.names, s.since, s.warned = names, now, false
	}
	level := slog.LevelInfo
	if !b.Entered.Load() || now.Sub(s.since) >= lease.UpgradeTime {
		level = slog.LevelWarn
	}
	if len(names) == 0 || s.warned || !changed && level == slog.LevelInfo {
		return
	}
	s.warned = level == slog.LevelWarn
	b.Cfg.Logger.Log(ctx, level,
		"the consumer group has projections that this worker does not have: it leaves them to other "+
			"workers. Give each program its own consumer group, or all programs of the group the same projections; remove a "+
			"projection that no program has any more",
		"consumer_group", b.Cfg.ConsumerGroup, "projections", names)
}
