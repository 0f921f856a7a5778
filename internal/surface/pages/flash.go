package pages

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
)

const (
	flashCookie = "tidemark_flash"
	flashBytes  = 1500 // of each text, because cookies are small
	cookieBytes = 4000 // of the whole cookie: the limit of browsers
)

// flash is a message about an act, shown once on the next page.
type flash struct {
	Tone string `json:"tone"` // ok, warn, bad
	Text string `json:"text"`
	More string `json:"more,omitempty"`
	Path string `json:"path,omitempty"` // of the operation that was started

	Field string `json:"field,omitempty"` // id of the reason's field, if the act was refused
	Typed string `json:"typed,omitempty"` // text in that field
}

// say stores a flash in a cookie for the next page.
func (p *Pages) say(w http.ResponseWriter, r *http.Request, f flash) {
	f.Text, f.More = cut(f.Text), cut(f.More)
	raw, _ := json.Marshal(f)
	for base64.RawURLEncoding.EncodedLen(len(raw)) > cookieBytes && f.Typed != "" {
		f.Typed = strings.ToValidUTF8(f.Typed[:len(f.Typed)/2], "")
		raw, _ = json.Marshal(f)
	}
	http.SetCookie(w, &http.Cookie{
		Name: flashCookie, Value: base64.RawURLEncoding.EncodeToString(raw), Path: "/",
		MaxAge: 60, HttpOnly: true, Secure: p.cfg.Secure(r), SameSite: http.SameSiteStrictMode,
	})
}

func cut(s string) string {
	if len(s) <= flashBytes {
		return s
	}
	return strings.ToValidUTF8(s[:flashBytes], "") + " …"
}

// said returns the flash in the cookie, if any, and deletes the cookie. Requests for live updates
// leave it for the next page that a person sees.
func (p *Pages) said(w http.ResponseWriter, r *http.Request) *flash {
	c, err := r.Cookie(flashCookie)
	if err != nil || r.Header.Get("X-Tidemark-Live") != "" {
		return nil
	}
	http.SetCookie(w, &http.Cookie{
		Name: flashCookie, Path: "/", MaxAge: -1, HttpOnly: true, Secure: p.cfg.Secure(r),
		SameSite: http.SameSiteStrictMode,
	})
	raw, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil {
		return nil
	}
	var f flash
	if json.Unmarshal(raw, &f) != nil || f.Text == "" {
		return nil
	}
	switch f.Tone {
	case "ok", "warn", "bad":
	default:
		f.Tone = "info"
	}
	if !strings.HasPrefix(f.Path, operationPath) {
		f.Path = ""
	}
	return &f
}
