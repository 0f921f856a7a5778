package api

import (
	"io"
	"net/http"
	"reflect"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/ndjson"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/pkg/event"
)

const (
	exportMost = 100_000 // events read per response
	exportNext = "Tidemark-Next"
)

type exported struct {
	CampaignID string   `name:"campaign"`
	Types      []string `name:"type"`
	After      string
	Limit      int64 `min:"1" max:"100000" default:"10000"`
}

// export writes events as lines of JSON, in the format of an import. The trailer has the position to
// continue from if there may be more.
func (a *API) export(w http.ResponseWriter, r *http.Request) {
	params := param.Of(reflect.TypeFor[exported]())
	in, err := input(r, "", params, func(params []param.Param, texts param.Texts) (any, error) {
		return param.Read(reflect.TypeFor[exported](), params, texts)
	})
	if err == nil {
		err = a.sees(r)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	of := in.(*exported)
	after, err := cursorOf(fieldPlace, of.After)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	cfg := ndjson.ExportConfig{
		CampaignID: of.CampaignID, Types: of.Types, After: after, Limit: of.Limit, Look: exportMost,
	}
	id := auth.From(r.Context())
	cfg.Edit = func(e *event.Event) {
		e.Payload, e.Metadata = a.cfg.Payloads.Show(id, e.Payload), a.cfg.Payloads.Show(id, e.Metadata)
	}
	h := w.Header()
	out := &begun{to: w, first: func() {
		h.Set("Content-Type", "application/x-ndjson")
		h.Set("Trailer", exportNext)
	}}
	done, err := ndjson.Export(r.Context(), a.cfg.Pool, out, cfg)
	switch {
	case err != nil && out.first == nil:
		panic(http.ErrAbortHandler) // tells the client that the response is incomplete
	case err != nil:
		a.fail(w, r, err)
		return
	}
	_, _ = out.Write(nil)
	if done.More {
		h.Set(exportNext, done.Position.String())
	}
}

// cursorOf parses a cursor that a request has in a field; "": the beginning.
func cursorOf(field, text string) (event.Cursor, error) {
	if text == "" {
		return event.Cursor{}, nil
	}
	after, err := event.ParseCursor(text)
	if err != nil {
		return after, param.Refuse(field, text, "0 or more, or like 17@8f3c0a5be1d24967", "this is no place of the journal",
			"send the last one unchanged")
	}
	return after, nil
}

// begun calls first before the first write.
type begun struct {
	to    io.Writer
	first func() // nil: already called
}

func (b *begun) Write(p []byte) (int, error) {
	if b.first != nil {
		b.first()
		b.first = nil
	}
	return b.to.Write(p)
}

// event removes payload, metadata and tags for roles that may not see payloads.
func (a *API) event(r *http.Request, e event.Event) event.Event {
	id := auth.From(r.Context())
	e.Payload, e.Metadata = a.cfg.Payloads.Show(id, e.Payload), a.cfg.Payloads.Show(id, e.Metadata)
	if !a.cfg.Payloads.Sees(id) {
		e.Tags = nil // tags have values from payloads
	}
	return e
}
