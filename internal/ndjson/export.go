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
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// ExportConfig configures [Export]. The zero value exports everything.
type ExportConfig struct {
	CampaignID string             // only this campaign's events
	Types      []string           // only events of these types, as named when appended
	After      event.Cursor       // only events after this position
	Limit      int64              // maximum number of lines; 0: all
	Look       int64              // maximum number of events examined; 0: all
	Edit       func(*event.Event) // called before an event is written; may be nil
	// called after every 1,000 events with the position reached and the lines written; may be nil
	Progress func(position int64, events int64)
}

// Exported is the result of an export.
type Exported struct {
	Events   int64
	Position event.Cursor // where the next export may start, see [ExportConfig.After]
	More     bool         // stopped by Limit or Look, or before an event that cannot be read
}

// progressEvents is the number of events between calls of Progress.
const progressEvents = 1000

// Export writes events to out, one a line, in order of position, up to the writer floor at the
// start. After an error the last line may be incomplete. For a cursor beyond the journal it returns a
// [*event.ResetError].
func Export(ctx context.Context, db event.Querier, out io.Writer, cfg ExportConfig) (Exported, error) {
	if cfg.Progress == nil {
		cfg.Progress = func(int64, int64) {}
	}
	start, err := feed.Resume(ctx, db, cfg.After)
	if err != nil {
		return Exported{}, err
	}
	buffered := bufio.NewWriterSize(out, 1<<16)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false)
	after := start.Position
	done := Exported{Position: start.Cursor}
	seen, looked := 0, int64(0)
	for e, err := range events(ctx, db, cfg, start.Cursor) {
		if cfg.Limit > 0 && done.Events > 0 && errors.Is(err, event.ErrUnreadable) {
			done.More = true // the next page starts with it and returns the error
			break
		}
		if err != nil {
			return done, err
		}
		if e.Position > start.Floor {
			break
		}
		if e.Position > after {
			if done.More = cfg.Limit > 0 && done.Events == cfg.Limit || cfg.Look > 0 && looked == cfg.Look; done.More {
				break
			}
			looked++
			done.Position.Position = e.Position
			written, err := cfg.write(encoder, e)
			if err != nil {
				return done, fmt.Errorf("write event %d of campaign %q: %w", e.Seq, e.CampaignID, err)
			}
			if written {
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
		done.Position.Position = max(start.Floor, after)
	}
	return done, nil
}

// write writes an event, if it is of a type that is exported.
func (cfg *ExportConfig) write(encoder *json.Encoder, e event.Event) (written bool, err error) {
	if len(cfg.Types) > 0 && !slices.Contains(cfg.Types, e.Type) {
		return false, nil
	}
	if cfg.Edit != nil {
		cfg.Edit(&e)
	}
	return true, format(encoder, e)
}

// events returns the candidates in order of position, which within a campaign is the order of seq.
func events(
	ctx context.Context, db event.Querier, cfg ExportConfig, after event.Cursor,
) iter.Seq2[event.Event, error] {
	if cfg.CampaignID != "" {
		return journal.ReadCampaign(ctx, db, cfg.CampaignID, 0)
	}
	return journal.ReadAfter(ctx, db, after)
}
