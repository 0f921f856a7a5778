package lake

import (
	"context"
	"fmt"
	"maps"
	"path"
	"strings"
	"time"
)

// housekeep does, after a commit to some folders, what is due and fits into the time of the call.
// The events are in the table, so its errors are only logged.
func (s *Sink) housekeep(ctx context.Context, dirs []string) {
	try := func(what string, do func(context.Context) error) bool {
		if ctx.Err() != nil || s.table == nil {
			return false
		}
		err := do(ctx)
		if err != nil {
			s.cfg.Logger.WarnContext(ctx, what+" failed, it is tried again later", "sink", s.cfg.Name, "error", err)
		}
		return err == nil
	}
	if !s.cfg.NoMerge {
		try("merging small files of the lake", func(ctx context.Context) error { return s.mergeOne(ctx, dirs) })
	}
	// The first entry has a checkpoint too, so that a reader in plain SQL always finds one.
	t := s.table
	due := t != nil && (t.checkpoint < 0 || t.version-t.checkpoint >= checkpointEvery)
	if due || !s.swept {
		s.swept = try("sweeping the lake's folder", s.sweep)
	}
	if due && s.swept {
		try("writing a checkpoint of the lake", s.writeCheckpoint)
	}
}

// abandoned is the age at which a file is certainly not being written any more.
const abandoned = time.Hour

// sweep deletes what is no part of the table any more.
func (s *Sink) sweep(ctx context.Context) error {
	for l, err := range s.folder.list(ctx, ".") {
		if err != nil {
			return err
		}
		if s.isGarbage(l) {
			if err := s.folder.remove(l.name); err != nil {
				return err
			}
		}
	}
	maps.DeleteFunc(s.table.gone, func(_ string, r *remove) bool { return s.isOver(r) })
	return nil
}

func (s *Sink) isGarbage(l listed) bool {
	if strings.HasPrefix(path.Base(l.name), unfinished) {
		return time.Since(l.modified) > abandoned
	}
	if version, kind := logFile(l.name); path.Dir(l.name) == logDir {
		return kind != "" && version < s.table.checkpoint && time.Since(l.modified) > s.cfg.Keep
	}
	if r := s.table.gone[l.name]; r != nil {
		return s.isOver(r)
	}
	// A crash left it behind if the log has the file's entry without it. A process that still means to
	// commit the file finds the entry taken.
	var version int64
	_, err := fmt.Sscanf(path.Base(l.name), dataPrefix+"%d-", &version)
	return err == nil && version <= s.table.version && !s.table.has(l.name)
}

// isOver reports whether a merged file was kept for long enough.
func (s *Sink) isOver(r *remove) bool {
	return time.Since(time.UnixMilli(r.DeletionTimestamp)) > s.cfg.Keep
}
