package ndjson

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// ExportConfig configures [Export]. Its zero value exports everything.
type ExportConfig struct {
	CampaignID string               // only this campaign's events
	Types      []string             // only events of these types, by the names they were appended under
	After      int64                // only events past this position
	Limit      int64                // at most so many lines; 0: all
	Look       int64                // at most so many events looked at; 0: all
	Edit       func(*journal.Event) // called before an event is written; may be nil
	// called now and then with the position reached and the lines written; may be nil
	Progress func(position int64, events int64)
}

// Exported is what an export did.
type Exported struct {
	Events   int64
	Position int64 // where the next export may start from, see [ExportConfig.After]
	More     bool  // Limit or Look has ended it, or an event that cannot be read comes next
}

// progressEvents is how often an export tells its progress.
const progressEvents = 1000

// Export writes events to out, a line each, in order of position, up to the writer floor as it is
// at the start. An error may leave a line unfinished.
func Export(ctx context.Context, db journal.Querier, out io.Writer, cfg ExportConfig) (Exported, error) {
	if cfg.Progress == nil {
		cfg.Progress = func(int64, int64) {}
	}
	floor, err := feed.Floor(ctx, db)
	if err != nil {
		return Exported{}, err
	}
	buffered := bufio.NewWriterSize(out, 1<<16)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false)
	done := Exported{Position: cfg.After}
	seen, looked := 0, int64(0)
	for e, err := range events(ctx, db, cfg) {
		if cfg.Limit > 0 && done.Events > 0 && errors.Is(err, feed.ErrUnreadable) {
			done.More = true // the next page begins with it, and names it
			break
		}
		if err != nil {
			return done, err
		}
		if e.Position > floor {
			break
		}
		if e.Position > cfg.After {
			if done.More = cfg.Limit > 0 && done.Events == cfg.Limit || cfg.Look > 0 && looked == cfg.Look; done.More {
				break
			}
			looked++
			done.Position = e.Position
			if len(cfg.Types) == 0 || slices.Contains(cfg.Types, e.Type) {
				if cfg.Edit != nil {
					cfg.Edit(&e)
				}
				if err := format(encoder, e); err != nil {
					return done, fmt.Errorf("write event %d of campaign %q: %w", e.Seq, e.CampaignID, err)
				}
				done.Events++
			}
		}
		if seen++; seen%progressEvents == 0 {
			cfg.Progress(e.Position, done.Events)
		}
	}
	if err := buffered.Flush(); err != nil {
		return done, fmt.Errorf("write events: %w", err)
	}
	if !done.More {
		done.Position = max(floor, cfg.After)
	}
	return done, nil
}

// events are those to choose from, in order of position, which within a campaign is the order of seq.
func events(ctx context.Context, db journal.Querier, cfg ExportConfig) iter.Seq2[journal.Event, error] {
	if cfg.CampaignID != "" {
		return journal.ReadCampaign(ctx, db, cfg.CampaignID, 0)
	}
	return journal.ReadAll(ctx, db, cfg.After)
}
