package pages

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/views"
	"github.com/tidemark-go/tidemark/internal/slice"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

type view struct {
	Name   string // of the template file, without .html
	Title  string
	Status int // HTTP status; 0: 200
	Data   any
}

// frame is the data of the layout and of every page's template.
type frame struct {
	Title  string
	Place  string // the database's name
	Back   string // URL of this page, to which acts return
	Key    string // for the forms of this rendering: a form that is sent twice acts once
	Menu   []menuItem
	User   string
	Role   string
	Flash  *flash
	Now    time.Time
	Data   any
	id     auth.Identity
	across func() (map[string]bool, error) // the names of projections across campaigns
	bare   bool                            // payloads are hidden from the user
	LogOut bool                            // the user has a session to end
}

// Operates and Administers report which acts the page shows. The server checks the role again when an
// act is requested.
func (f frame) Operates() bool    { return f.id.Role >= auth.Operator }
func (f frame) Administers() bool { return f.id.Role >= auth.Admin }

// loadTemplates parses each page's template together with the layout and the parts.
func loadTemplates() (map[string]*template.Template, error) {
	all := map[string]*template.Template{}
	base, err := template.New("").Funcs(functions()).ParseFS(templateFiles, "templates/layout.html",
		"templates/parts.html", "templates/act.html", "templates/table.html")
	if err != nil {
		return nil, err
	}
	pages, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	for _, file := range pages {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if base.Lookup(name+".html") != nil { // a part of all pages
			continue
		}
		page, err := template.Must(base.Clone()).ParseFS(templateFiles, file)
		if err != nil {
			return nil, err
		}
		all[name] = page
	}
	return all, nil
}

func functions() template.FuncMap {
	return template.FuncMap{
		"iso":     iso,
		"utc":     utc,
		"ago":     func(t time.Time) string { return ago(time.Now(), t) },
		"count":   count,
		"span":    span,
		"bytes":   bytesText,
		"boxed":   block,
		"line":    line,
		"tone":    tone,
		"word":    word,
		"link":    link,
		"options": options,
		"plural":  plural,
		"stateOf": func(o admin.Operation) string { return views.OperationState(o).Text },
	}
}

// link returns a URL from a path and pairs of parameter and value. It omits empty values and zeros.
func link(path string, pairs ...any) (string, error) {
	if len(pairs)%2 != 0 {
		return "", fmt.Errorf("link %s: a parameter has no value", path)
	}
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if value := fmt.Sprint(pairs[i+1]); value != "" && value != "0" {
			q.Set(fmt.Sprint(pairs[i]), value)
		}
	}
	if len(q) == 0 {
		return path, nil
	}
	return path + "?" + q.Encode(), nil
}

// filterField is a field of a filter's form. With options it is a select.
type filterField struct {
	Name, Label, Value, Help string
	Options                  []option
	Lines                    bool // without options: each line is a value
}

func (f filterField) values() []string {
	return strings.FieldsFunc(f.Value, func(r rune) bool { return f.Lines && (r == '\r' || r == '\n') })
}

type option struct{ Value, Name string }

// options parses texts of the form "value=Name".
func options(texts ...string) []option {
	return slice.Of(texts, func(text string) option {
		value, name, _ := strings.Cut(text, "=")
		return option{Value: value, Name: name}
	})
}

// write renders the whole page before it sends the first byte, so that no page is incomplete.
func (p *Pages) write(ctx context.Context, w http.ResponseWriter, r *http.Request, v view) {
	t, ok := p.templates[v.Name]
	if !ok {
		p.crash(ctx, w, fmt.Errorf("no template %q", v.Name))
		return
	}
	var body bytes.Buffer
	if err := t.ExecuteTemplate(&body, "layout", p.frame(w, r, v)); err != nil {
		p.crash(ctx, w, fmt.Errorf("page %s: %w", v.Name, err))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	if v.Status != 0 {
		w.WriteHeader(v.Status)
	}
	_, _ = w.Write(body.Bytes())
}

// crash responds to an error that should never happen, without its details.
func (p *Pages) crash(ctx context.Context, w http.ResponseWriter, err error) {
	p.cfg.Logger.ErrorContext(ctx, "render a page", "error", err)
	http.Error(w, "this page cannot be shown; the worker's log says why", http.StatusInternalServerError)
}

// serveAsset serves the stylesheet, the script or the icon. Browsers cache them and revalidate by ETag.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	body, err := staticFiles.ReadFile("static/" + r.PathValue("name"))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	sum := sha256.Sum256(body)
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:6])+`"`)
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, r.URL.Path, time.Time{}, bytes.NewReader(body))
}

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
