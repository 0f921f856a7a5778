package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

const (
	// asOfEvents is how many events a page applies again to show a read model as it was; beyond, the command line does it.
	asOfEvents = 20_000
	// asOfRows is how many rows of a table it shows.
	asOfRows = 100
)

// asOf is a campaign after one of its events.
type asOf struct {
	Event   *journal.Event // nil: before the first
	Payload shownPayload
	Models  []model
	TooFar  bool  // there are more events than asOfEvents
	Most    int64 // asOfEvents
	NoCode  bool  // this worker has the code of no projection
	Hidden  bool  // rows are hidden from this role, as payloads are
}

// model is a projection's part of it.
type model struct {
	Projection string
	Version    int
	Failed     string // why it is not there
	Tables     []modelTable
	Gone       []change // rows that the event has deleted
	Changed    int
}

type modelTable struct {
	Name    string
	Columns []string
	Rows    []modelRow
	More    int // rows that are not shown
}

type modelRow struct {
	Kind  string // "added", "changed", or ""
	Cells []cell
}

type cell struct {
	Text    text
	Before  *text // nil: it is as it was before the event
	Changed bool
}

type change struct {
	Table  string
	Before text
}

// readAsOf applies the campaign's events up to seq beside the live tables, one campaign at a time in this process.
func (p *Pages) readAsOf(ctx context.Context, campaign string, seq int64) (*asOf, error) {
	out := &asOf{Most: asOfEvents, TooFar: seq > asOfEvents, Hidden: !p.cfg.Payloads.Sees(auth.From(ctx))}
	if seq > 0 {
		e, err := journal.Get(ctx, p.cfg.Pool, campaign, seq)
		if err != nil && !errors.Is(err, feed.ErrUnreadable) {
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

// readModel answers a projection's part. [admin.ErrNotHere] says that this process does not have its code.
func (p *Pages) readModel(ctx context.Context, reg rebuild.Registered, campaign string, seq int64) (model, error) {
	m := model{Projection: reg.Name, Version: reg.Version}
	var state replay.State
	var changes []replay.Change
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

// unreached answers why a projection cannot be brought to an event, or the error that has nothing to do with it.
func unreached(err error) (string, error) {
	var applied *projector.ApplyError
	var pgErr *pgconn.PgError
	switch {
	case errors.As(err, &applied), errors.Is(err, replay.ErrNotVerifiable), errors.Is(err, registry.ErrRegistered),
		errors.Is(err, replay.ErrTouched),
		errors.Is(err, replay.ErrStateTooLarge):
		return redact.Error(err), nil
	case errors.As(err, &pgErr) && pgErr.Code != "57014":
		return redact.Error(err), nil
	}
	return "", err
}

// lay puts what the event changed beside what there was after it.
func (p *Pages) lay(m model, state replay.State, changes []replay.Change) model {
	m.Changed = len(changes)
	for _, c := range changes {
		if c.Kind == replay.ChangeRemoved {
			m.Gone = append(m.Gone, change{Table: c.Table, Before: line(string(redacted(p.cfg.Payloads, c.Before)))})
		}
	}
	for _, t := range state.Tables {
		table := modelTable{Name: t.Table, Columns: t.Columns}
		// What changed comes first, so that it is on the page however many rows there are.
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

func (p *Pages) layRow(t replay.StateTable, raw json.RawMessage, changes []replay.Change) modelRow {
	var values, before map[string]json.RawMessage
	_ = json.Unmarshal(redacted(p.cfg.Payloads, raw), &values)
	row := modelRow{}
	var columns []string
	for _, c := range changes {
		if c.Table == t.Table && c.Kind != replay.ChangeRemoved && string(c.After) == string(raw) {
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
				b := line(plain(was))
				c.Before = &b
			}
		}
		row.Cells = append(row.Cells, c)
	}
	return row
}

// redacted hides of a row what is hidden of payloads.
func redacted(rule payload.Rule, raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return nil
	}
	return rule.Show(auth.Identity{Role: auth.Admin}, raw)
}

// plain writes a JSON value as a person would: text without quotes, nothing for null.
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
