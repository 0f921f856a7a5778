package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// parkedRecords is the length of the log beside a parked event.
const parkedRecords = 20

// parkedLook is how many parked events a page that groups them, or looks for a cause, reads: it
// reads their messages too.
const parkedLook = 1000

// parkedPages answers /parked.
type parkedPages struct {
	pool     *pgxpool.Pool
	payloads payload.Rule
}

type parkedPage struct {
	Filter       publications.ParkedFilter
	Cause        string // a fingerprint: only events refused so
	Any          bool   // the filter leaves something out
	All          bool   // event by event, not grouped
	Act          string // the address of an act on all that match; "": by the filter's other parts
	Publications []publications.Key
	Causes       *shownTable // of refusals; nil: event by event
	Rows         []publications.Parked
	Pager        pager
	One          *parkedOne // the filter names one
}

// parkedOne is an event with what is known of it.
type parkedOne struct {
	publications.Parked
	Event   *journal.Event // nil: what is parked is the place of a campaign behind one
	Payload shownPayload
	History []publications.Record
}

// refusal is what a sink refuses events with.
type refusal struct {
	publications.Key
	Fingerprint string
	Message     string // of the first of them
	Types       []string
	Parked      int64
	Others      int64      // on their way, or behind
	Since       *time.Time // when the first was refused
}

// list shows events that publishers' sinks have refused: by cause or, with a filter, one by one.
func (p parkedPages) list(ctx context.Context, r *http.Request) (view, error) {
	seq, err := number(r, "seq", 0)
	if err != nil {
		return view{}, err
	}
	status, err := choice(r, "status", publications.ParkedStatuses())
	if err != nil {
		return view{}, err
	}
	page := parkedPage{Cause: r.FormValue("fingerprint"), Filter: publications.ParkedFilter{
		Topic: r.FormValue("topic"), Publisher: r.FormValue("publisher"), CampaignID: r.FormValue("campaign"),
		EventType: r.FormValue("type"), Status: status, Seq: seq, Limit: perPage,
	}}
	f := page.Filter
	page.Any = f.Topic+f.Publisher+f.CampaignID+f.EventType+f.Status+page.Cause != ""
	page.All = page.Any || r.FormValue("all") != ""
	all, err := publications.List(ctx, p.pool, publications.Key{})
	if err != nil {
		return view{}, err
	}
	for _, pub := range all {
		page.Publications = append(page.Publications, pub.Key)
	}
	if page.Act, err = link("/bulk/parked", "topic", f.Topic, "publisher", f.Publisher, "campaign", f.CampaignID, "type",
		f.EventType); err != nil {
		return view{}, err
	}
	v := view{Title: "Parked", Data: &page}
	switch {
	case f.CampaignID != "" && f.Topic != "" && f.Publisher != "" && page.Cause == "":
		page.Rows, err = publications.ListParked(ctx, p.pool, f)
		if err == nil && len(page.Rows) == 1 && seq > 0 {
			page.One, err = p.one(ctx, page.Rows[0])
		}
		return v, err
	case page.All:
		return v, p.rows(ctx, r, &page)
	}
	return v, p.refusals(ctx, r, &page)
}

func (p parkedPages) one(ctx context.Context, row publications.Parked) (*parkedOne, error) {
	one := &parkedOne{Parked: row}
	if row.EventID != nil {
		e, err := journal.Get(ctx, p.pool, row.CampaignID, row.Seq)
		if err != nil && !errors.Is(err, feed.ErrUnreadable) {
			return nil, err
		}
		one.Event, one.Payload = &e, showPayload(ctx, p.payloads, e)
	}
	var err error
	one.History, err = publications.Log(ctx, p.pool,
		publications.LogFilter{Topic: row.Topic, Publisher: row.Publisher, CampaignID: row.CampaignID, Limit: parkedRecords})
	return one, err
}

// walk reads the next rows of the list, and where it goes on.
func (p parkedPages) walk(
	ctx context.Context, r *http.Request, f publications.ParkedFilter, look int,
) ([]publications.Parked, *publications.ParkedPlace, error) {
	var place publications.ParkedPlace
	there, err := after(r, &place)
	if err != nil {
		return nil, nil, err
	}
	from := &place
	if !there {
		from = nil
	}
	return publications.WalkParked(ctx, p.pool, f, from, look)
}

func (p parkedPages) rows(ctx context.Context, r *http.Request, page *parkedPage) error {
	f, look := page.Filter, searchLook
	if page.Cause != "" {
		f.Limit, look = parkedLook, parkedLook
	}
	rows, end, err := p.walk(ctx, r, f, look)
	if err != nil {
		return err
	}
	if page.Cause != "" {
		rows = slices.DeleteFunc(rows, func(row publications.Parked) bool {
			return failed.Fingerprint("", row.Message) != page.Cause
		})
		if len(rows) > 0 {
			page.Act, _ = link("/bulk/parked", "kind", "retry_parked", "topic", f.Topic, "publisher", f.Publisher, "campaign",
				f.CampaignID, "type", f.EventType, "message", failed.Pattern(rows[0].Message))
		}
		if len(rows) > perPage {
			rows = rows[:perPage]
			last := rows[perPage-1].Place()
			end = &last
		}
	}
	page.Rows = rows
	page.Pager = pages(r, end, plural(len(rows), "event")+" on this page")
	return nil
}

// refusals groups what is parked by publisher and fingerprint of the message.
func (p parkedPages) refusals(ctx context.Context, r *http.Request, page *parkedPage) error {
	f := page.Filter
	f.Limit = parkedLook
	rows, end, err := p.walk(ctx, r, f, parkedLook)
	if err != nil {
		return err
	}
	var causes []refusal
	for _, row := range rows {
		cause := refusal{
			Key:         publications.Key{Topic: row.Topic, Publisher: row.Publisher},
			Fingerprint: failed.Fingerprint("", row.Message), Message: row.Message,
		}
		i := slices.IndexFunc(causes, func(c refusal) bool {
			return c.Key == cause.Key && c.Fingerprint == cause.Fingerprint
		})
		if i < 0 {
			i = len(causes)
			causes = append(causes, cause)
		}
		causes[i] = causes[i].and(row)
	}
	slices.SortStableFunc(causes, func(a, b refusal) int { return int(b.Parked - a.Parked) })
	var cells [][]table.Cell
	for _, c := range causes {
		cells = append(cells, []table.Cell{
			table.Text(c.Message), table.Text(c.Fingerprint), table.Text(c.Topic), table.Text(c.Publisher),
			table.Number(c.Parked, table.Plain), table.Number(c.Others, table.Plain), table.Text(strings.Join(c.Types, " ")),
			table.IfKnown(c.Since),
		})
	}
	page.Causes = newTable(strings.Split("ERROR|FINGERPRINT|TOPIC|PUBLISHER|REFUSED|ON THEIR WAY|TYPES|FIRST", "|"), cells)
	page.Causes.Name, page.Causes.Empty = "Causes of refusals", "Nothing is parked."
	shown := plural(len(causes), "cause") + " among " + plural(len(rows), "event")
	if end != nil {
		shown = fmt.Sprintf("%s among the %s looked at; the next page looks at more", plural(len(causes), "cause"),
			plural(len(rows), "event"))
	}
	page.Pager = pages(r, end, shown)
	return nil
}

// and answers the cause with one event more.
func (c refusal) and(row publications.Parked) refusal {
	if row.Status == "parked" {
		c.Parked++
	} else {
		c.Others++
	}
	if !slices.Contains(c.Types, row.EventType) && len(c.Types) < 3 && row.EventType != "" {
		c.Types = append(c.Types, row.EventType)
	}
	if row.FirstFailedAt != nil && (c.Since == nil || row.FirstFailedAt.Before(*c.Since)) {
		c.Since = row.FirstFailedAt
	}
	return c
}
