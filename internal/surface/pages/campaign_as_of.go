package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

const (
	// asOfEvents is the maximum number of events that a page applies to show an earlier state. Beyond
	// it, the page refers to the command line.
	asOfEvents = 20_000
	// asOfRows is the maximum number of rows of a table that a page shows.
	asOfRows = 100
)

// asOf is the state of a campaign after one of its events.
type asOf struct {
	Event   *event.Event // nil: before the first
	Payload shownPayload
	Models  []model
	TooFar  bool  // seq is greater than asOfEvents
	Most    int64 // asOfEvents
	NoCode  bool  // this worker has no projection's code
	Hidden  bool  // rows are hidden from this role, as payloads are
}

type model struct {
	Projection string
	Version    int
	Failed     string // why the state is missing
	Tables     []modelTable
	Gone       []change // rows that the event deleted
	Changed    int
}

type modelTable struct {
	Name    string
	Columns []string
	Rows    []modelRow
	More    int // rows not shown
}

type modelRow struct {
	Kind  string // "added", "changed", or ""
	Cells []cell
}

type cell struct {
	Text    text
	Before  *text // value before the event; nil: the same
	Changed bool
}

type change struct {
	Table  string
	Before text
}

// readAsOf applies the campaign's events up to seq beside the live tables. In this process only one
// projection is replayed at a time.
func (p *Pages) readAsOf(ctx context.Context, campaign string, seq int64) (*asOf, error) {
	out := &asOf{Most: asOfEvents, TooFar: seq > asOfEvents, Hidden: !p.cfg.Payloads.Sees(auth.From(ctx))}
	if seq > 0 {
		e, err := journal.Get(ctx, p.cfg.Pool, campaign, seq)
		if err != nil && !errors.Is(err, event.ErrUnreadable) {
			return nil, err
		}
		out.Event, out.Payload = &e, showPayload(ctx, p.cfg.Payloads, e)
	}
	if out.TooFar || out.Hidden {
		return out, nil
	}
	registered, err := rebuild.Projections(ctx, p.cfg.Pool)
	if err != nil {
		return nil, err
	}
	for _, reg := range registered {
		if reg.Scope != string(projection.ScopeCampaign) {
			continue // its rows are not the campaign's
		}
		m, err := p.readModel(ctx, reg, campaign, seq)
		switch {
		case err == nil:
			out.Models = append(out.Models, m)
		case !errors.Is(err, admin.ErrNotHere):
			return nil, err
		}
	}
	out.NoCode = len(out.Models) == 0
	return out, nil
}

// readModel returns the state of a projection. It returns [admin.ErrNotHere] if this process does not
// have the projection's code.
func (p *Pages) readModel(ctx context.Context, reg rebuild.Registered, campaign string, seq int64) (model, error) {
	m := model{Projection: reg.Name, Version: reg.Version}
	var state lookback.State
	var changes []lookback.Change
	err := p.cfg.Acts.Travel(ctx, reg.Name, func(code *projector.Projector) (err error) {
		if state, err = code.AsOf(ctx, reg.Name, campaign, seq); err == nil && seq > 0 {
			changes, err = code.Diff(ctx, reg.Name, campaign, seq-1, seq)
		}
		return err
	})
	if err != nil {
		if m.Failed, err = unreached(err); err != nil {
			err = fmt.Errorf("projection %s as of event %d: %w", reg.Name, seq, err)
		}
		return m, err
	}
	return p.lay(m, state, changes), nil
}

// unreached returns why a projection cannot reach an event. It returns errors of other causes as
// errors.
func unreached(err error) (string, error) {
	var applied *projection.ApplyError
	switch code := redact.SQLState(err); {
	case errors.As(err, &applied), errors.Is(err, replay.ErrNotVerifiable), errors.Is(err, registry.ErrRegistered),
		errors.Is(err, replay.ErrTouched), errors.Is(err, lookback.ErrStateTooLarge), code != "" && code != "57014":
		return redact.Error(err), nil
	}
	return "", err
}

// lay combines the state after the event with the changes by it.
func (p *Pages) lay(m model, state lookback.State, changes []lookback.Change) model {
	m.Changed = len(changes)
	for _, c := range changes {
		if c.Kind == lookback.ChangeRemoved {
			m.Gone = append(m.Gone, change{Table: c.Table, Before: line(string(redacted(p.cfg.Payloads, c.Before)))})
		}
	}
	for _, t := range state.Tables {
		table := modelTable{Name: t.Table, Columns: t.Columns}
		// Changed rows come first, so that they are shown even if there are many rows.
		rows := make([]modelRow, 0, min(len(t.Rows), asOfRows))
		var same []modelRow
		for _, raw := range t.Rows {
			row := p.layRow(t, raw, changes)
			if row.Kind != "" {
				rows = append(rows, row)
			} else if len(same) < asOfRows {
				same = append(same, row)
			}
		}
		rows = append(rows, same...)
		table.Rows = rows[:min(len(rows), asOfRows)]
		table.More = len(t.Rows) - len(table.Rows)
		m.Tables = append(m.Tables, table)
	}
	return m
}

func (p *Pages) layRow(t lookback.StateTable, raw json.RawMessage, changes []lookback.Change) modelRow {
	var values, before map[string]json.RawMessage
	_ = json.Unmarshal(redacted(p.cfg.Payloads, raw), &values)
	row := modelRow{}
	var columns []string
	for _, c := range changes {
		if c.Table == t.Table && c.Kind != lookback.ChangeRemoved && string(c.After) == string(raw) {
			row.Kind, columns = string(c.Kind), c.Columns
			_ = json.Unmarshal(redacted(p.cfg.Payloads, c.Before), &before)
			break
		}
	}
	for _, column := range t.Columns {
		c := cell{Text: line(plain(values[column]))}
		if row.Kind != "" && slices.Contains(columns, column) {
			c.Changed = true
			if was, ok := before[column]; ok {
				c.Before = new(line(plain(was)))
			}
		}
		row.Cells = append(row.Cells, c)
	}
	return row
}

// redacted hides the values of a row that are hidden in payloads.
func redacted(rule payload.Rule, raw json.RawMessage) json.RawMessage {
	return rule.Show(auth.Identity{Role: auth.Admin}, raw)
}

// plain formats a JSON value for a person: strings without quotes, ∅ for null or a missing value.
func plain(value json.RawMessage) string {
	var s string
	switch {
	case len(value) == 0 || string(value) == "null":
		return "∅"
	case json.Unmarshal(value, &s) == nil:
		return s
	}
	return string(value)
}
