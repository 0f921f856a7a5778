package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-go/tidemark/internal/projector/registry"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
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

// replayer applies the events of a campaign again beside the live tables.
type replayer struct {
	pool        *pgxpool.Pool
	projections []projector.Projection // whose code this process has
	catalogue   *journal.Catalogue
	payloads    payload.Rule
	log         *slog.Logger
	turn        chan struct{} // has room for one: this is the dearest thing that a page does
}

// asOf is a campaign after one of its events.
type asOf struct {
	Event   *journal.Event // nil: before the first
	Payload shownPayload
	Models  []model
	TooFar  bool    // there are more events than asOfEvents
	Most    int64   // asOfEvents
	NoCode  bool    // this worker has the code of no projection
	Hidden  bool    // rows are hidden from this role, as payloads are
	Causes  *causes // nil: not asked for
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
	Kind   string // "added", "changed", or ""
	Cells  []cell
	Causes string // the address that explains it; "": nothing does
}

type cell struct {
	Text    text
	Before  *text // nil: it is as it was before the event
	Changed bool
}

type change struct {
	Table  string
	Before text
	Causes string
}

// readAsOf applies the campaign's events up to seq beside the live tables, one campaign at a time in this process.
func (p *replayer) readAsOf(ctx context.Context, campaign string, seq int64, of rowKey) (*asOf, error) {
	out := &asOf{
		Most: asOfEvents, TooFar: seq > asOfEvents, NoCode: len(p.projections) == 0,
		Hidden: !p.payloads.Sees(auth.From(ctx)),
	}
	if seq > 0 {
		e, err := journal.Get(ctx, p.pool, campaign, seq)
		if err != nil && !errors.Is(err, feed.ErrUnreadable) {
			return nil, err
		}
		out.Event, out.Payload = &e, showPayload(ctx, p.payloads, e)
	}
	if out.TooFar || out.NoCode || out.Hidden {
		return out, nil
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	registered, err := rebuild.Projections(ctx, p.pool)
	if err != nil {
		return nil, err
	}
	for _, reg := range registered {
		if !p.has(reg.Name) {
			continue
		}
		m, err := p.readModel(ctx, reg, campaign, seq)
		if err != nil {
			return nil, err
		}
		out.Models = append(out.Models, m)
	}
	out.NoCode = len(out.Models) == 0
	if of.Projection != "" && seq > 0 && !out.NoCode {
		if out.Causes, err = p.readCauses(ctx, registered, of, campaign, seq); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// has says whether this process has a projection's code.
func (p *replayer) has(projection string) bool {
	return slices.ContainsFunc(p.projections, func(c projector.Projection) bool { return c.Spec().Name == projection })
}

// projector answers what applies events for one projection, which the process must have the code of.
func (p *replayer) projector(reg rebuild.Registered) (*projector.Projector, error) {
	versions := slices.DeleteFunc(slices.Clone(p.projections), func(c projector.Projection) bool {
		return c.Spec().Name != reg.Name
	})
	return projector.New(projector.Config{
		Pool: p.pool, Projections: versions, ConsumerGroup: reg.Group, Schema: reg.Schema, Catalogue: p.catalogue,
		Logger: p.log,
	})
}

func (p *replayer) readModel(ctx context.Context, reg rebuild.Registered, campaign string, seq int64) (model, error) {
	m := model{Projection: reg.Name, Version: reg.Version}
	one, err := p.projector(reg)
	if err != nil {
		return m, err
	}
	state, err := one.AsOf(ctx, reg.Name, campaign, seq)
	var changes []replay.Change
	if err == nil && seq > 0 {
		changes, err = one.Diff(ctx, reg.Name, campaign, seq-1, seq)
	}
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
func (p *replayer) lay(m model, state replay.State, changes []replay.Change) model {
	m.Changed = len(changes)
	for _, c := range changes {
		if c.Kind == replay.ChangeRemoved {
			gone := change{Table: c.Table, Before: line(string(redacted(p.payloads, c.Before)))}
			if i := slices.IndexFunc(state.Tables, func(t replay.StateTable) bool { return t.Table == c.Table }); i >= 0 {
				gone.Causes = p.causesAddress(state, state.Tables[i], c.Before)
			}
			m.Gone = append(m.Gone, gone)
		}
	}
	for _, t := range state.Tables {
		table := modelTable{Name: t.Table, Columns: t.Columns}
		// What changed comes first, so that it is on the page however many rows there are.
		rows := make([]modelRow, 0, min(len(t.Rows), asOfRows))
		var same []modelRow
		for _, raw := range t.Rows {
			row := p.layRow(t, raw, changes)
			row.Causes = p.causesAddress(state, t, raw)
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

func (p *replayer) layRow(t replay.StateTable, raw json.RawMessage, changes []replay.Change) modelRow {
	var values, before map[string]json.RawMessage
	_ = json.Unmarshal(redacted(p.payloads, raw), &values)
	row := modelRow{}
	var columns []string
	for _, c := range changes {
		if c.Table == t.Table && c.Kind != replay.ChangeRemoved && string(c.After) == string(raw) {
			row.Kind, columns = string(c.Kind), c.Columns
			_ = json.Unmarshal(redacted(p.payloads, c.Before), &before)
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

// rowKey is the row that a campaign's page explains: parameters of its address.
type rowKey struct {
	Projection, Table string
	Key               []string // as [projector.WhyRequest] has it
}

func readRowKey(r *http.Request) rowKey {
	return rowKey{Projection: r.FormValue("why"), Table: r.FormValue("table"), Key: r.Form["key"]}
}

// Address answers the campaign's page that explains the row as it was after event seq.
func (o rowKey) Address(campaign string, seq int64) string {
	path, _ := link("/campaign", "id", campaign, "why", o.Projection, "table", o.Table)
	return path + "&" + url.Values{"seq": {strconv.FormatInt(seq, 10)}, "key": o.Key}.Encode() + "#causes-title"
}

// causes is a row with the events that wrote it.
type causes struct {
	Of     rowKey
	Rows   []cause
	Gone   *journal.Event // that deleted it
	Failed string         // why it cannot be told
}

type cause struct {
	Column string
	Value  text
	Event  journal.Event
}

// readCauses answers which events wrote a row's values; the campaign's events are applied beside the live tables.
func (p *replayer) readCauses(
	ctx context.Context, registered []rebuild.Registered, of rowKey, campaign string, seq int64,
) (*causes, error) {
	out := &causes{Of: of}
	i := slices.IndexFunc(registered, func(reg rebuild.Registered) bool { return reg.Name == of.Projection })
	if i < 0 || !p.has(of.Projection) {
		out.Failed = "This worker has no code of projection " + of.Projection + "."
		return out, nil
	}
	one, err := p.projector(registered[i])
	if err != nil {
		return nil, err
	}
	found, err := one.Why(ctx, projector.WhyRequest{
		Projection: of.Projection, CampaignID: campaign, Table: of.Table,
		Key: of.Key, Seq: seq,
	})
	if err != nil {
		out.Failed, err = unreached(err)
		return out, err
	}
	out.Gone = found.Gone
	var values map[string]json.RawMessage
	_ = json.Unmarshal(redacted(p.payloads, found.Row), &values)
	for _, c := range found.Causes {
		out.Rows = append(out.Rows, cause{Column: c.Column, Value: line(plain(values[c.Column])), Event: c.Event})
	}
	return out, nil
}

// causesAddress answers where a row of a table is explained; "": nowhere, for it has no key, or its
// key is not for everybody's eyes.
func (p *replayer) causesAddress(s replay.State, t replay.StateTable, raw json.RawMessage) string {
	of := rowKey{Projection: s.Projection, Table: t.Table}
	var values, shown map[string]json.RawMessage
	if len(t.Key) == 0 || s.Seq == 0 || json.Unmarshal(raw, &values) != nil ||
		json.Unmarshal(redacted(p.payloads, raw), &shown) != nil {
		return ""
	}
	for _, column := range t.Key {
		if plain(values[column]) != plain(shown[column]) {
			return ""
		}
		if column != "campaign_id" {
			of.Key = append(of.Key, plain(values[column]))
		}
	}
	return of.Address(s.CampaignID, s.Seq)
}

// Name answers what row it is, for a heading.
func (o rowKey) Name() text {
	name := o.Table
	if len(o.Key) > 0 {
		name += " " + strings.Join(o.Key, ", ")
	}
	return line(name)
}
