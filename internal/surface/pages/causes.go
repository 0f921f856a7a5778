package pages

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// whyOf is the row that a campaign's page explains: parameters of its address.
type whyOf struct {
	Projection, Table string
	Key               []string // as [projector.WhyRequest] has it
}

func readWhyOf(r *http.Request) whyOf {
	return whyOf{Projection: r.FormValue("why"), Table: r.FormValue("table"), Key: r.Form["key"]}
}

// Address answers the campaign's page that explains the row as it was after event seq.
func (o whyOf) Address(campaign string, seq int64) string {
	path, _ := link("/campaign", "id", campaign, "why", o.Projection, "table", o.Table)
	return path + "&" + url.Values{"seq": {strconv.FormatInt(seq, 10)}, "key": o.Key}.Encode() + "#why-title"
}

// why is a row with the events that wrote it.
type why struct {
	Of     whyOf
	Rows   []whyRow
	Gone   *journal.Event // that deleted it
	Failed string         // why it cannot be told
}

type whyRow struct {
	Column string
	Value  text
	Event  journal.Event
}

// readWhy answers which events wrote a row's values; the campaign's events are applied beside the live tables.
func (p *Pages) readWhy(
	ctx context.Context, registered []rebuild.Registered, of whyOf, campaign string, seq int64,
) (*why, error) {
	out := &why{Of: of}
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
	_ = json.Unmarshal(p.redacted(found.Row), &values)
	for _, c := range found.Causes {
		out.Rows = append(out.Rows, whyRow{Column: c.Column, Value: line(plain(values[c.Column])), Event: c.Event})
	}
	return out, nil
}

// whyAddress answers where a row of a table is explained; "": nowhere, for it has no key, or its
// key is not for everybody's eyes.
func (p *Pages) whyAddress(s replay.State, t replay.StateTable, raw json.RawMessage) string {
	of := whyOf{Projection: s.Projection, Table: t.Table}
	var values, shown map[string]json.RawMessage
	if len(t.Key) == 0 || s.Seq == 0 || json.Unmarshal(raw, &values) != nil ||
		json.Unmarshal(p.redacted(raw), &shown) != nil {
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
func (o whyOf) Name() text {
	name := o.Table
	if len(o.Key) > 0 {
		name += " " + strings.Join(o.Key, ", ")
	}
	return line(name)
}
