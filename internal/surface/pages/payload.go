package pages

import (
	"context"
	"net/http"
	"strings"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// shownPayload is what of an event's payload and metadata a user may see.
type shownPayload struct {
	Hidden   bool // from this role
	Text     text
	Metadata *text
}

func (p *Pages) payloadOf(ctx context.Context, e journal.Event) shownPayload {
	id := auth.From(ctx)
	if unreadable := e.Unreadable(); unreadable != nil {
		return shownPayload{Text: block(unreadable.Error())}
	}
	if !p.cfg.Payloads.Sees(id) {
		return shownPayload{Hidden: true}
	}
	raw := p.cfg.Payloads.Show(id, e.Payload)
	out := shownPayload{Text: blockJSON(raw)}
	if out.Text.Cut {
		out.Text.Whole, _ = link("/event/payload", "campaign", e.CampaignID, "seq", e.Seq)
	}
	if meta := strings.TrimSpace(string(e.Metadata)); meta != "" && meta != "{}" && meta != "null" {
		t := blockJSON(p.cfg.Payloads.Show(id, e.Metadata))
		out.Metadata = &t
	}
	return out
}

// servePayload answers a whole payload as plain text, which no browser takes for anything else.
func (p *Pages) servePayload(w http.ResponseWriter, r *http.Request) {
	e, err := p.event(r.Context(), r)
	if err == nil {
		if id := auth.From(r.Context()); p.cfg.Payloads.Sees(id) {
			h := w.Header()
			h.Set("Content-Type", "text/plain; charset=utf-8")
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Cache-Control", "no-store")
			_, _ = w.Write(p.cfg.Payloads.Show(id, e.Payload))
			return
		}
		err = problem.New(http.StatusForbidden, "payloads are hidden from this role", "ask an operator")
	}
	p.write(r.Context(), w, r, p.failed(r.Context(), err))
}

// short answers the beginning of a long name, for titles.
func short(s string) string {
	runes := []rune(s)
	if len(runes) <= 60 {
		return s
	}
	return string(runes[:60]) + "…"
}
