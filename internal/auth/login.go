package auth

import (
	"context"
	"errors"
	"html/template"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

const loginBytes = 8 << 10

const loginPage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in · Tidemark</title>
<link rel="stylesheet" href="/static/tidemark.css">
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
</head>
<body class="login">
<main>
<h1>Tidemark</h1>
<form method="post" action="/login">
{{if .Fault}}<p role="alert">{{.Fault}}</p>{{end}}
<p><label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus></p>
<input type="hidden" name="next" value="{{.Next}}">
<p><button type="submit">Log in</button></p>
</form>
</main>
</body>
</html>
`

// Login returns a handler that serves a form for a token and starts a session when it is posted.
// The cookie is hidden from scripts, is not sent with requests from other sites, and lives for
// SessionTTL. Guard the handler with http.CrossOriginProtection.
func (a *Authenticator) Login(failed Failed) http.Handler {
	page := template.Must(template.New("login").Parse(loginPage))
	show := func(w http.ResponseWriter, status int, fault, next string) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_ = page.Execute(w, struct{ Fault, Next string }{fault, next})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			show(w, http.StatusOK, "", Local(r.URL.Query().Get("next")))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, loginBytes)
		if err := r.ParseForm(); err != nil {
			show(w, http.StatusBadRequest, "The form is invalid or larger than 8 KiB.", "/")
			return
		}
		next := Local(r.PostForm.Get("next"))
		token, cookie := strings.TrimSpace(r.PostForm.Get("token")), random()
		_, err := a.checked(r, token, func() (Identity, error) { return a.begin(r.Context(), token, cookie) })
		switch refused, ok := errors.AsType[*problem.Problem](err); {
		case ok:
			if refused.Status == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", refused.Limit)
			}
			show(w, refused.Status, strings.ToUpper(refused.Detail[:1])+refused.Detail[1:]+".", next)
			return
		case err != nil:
			failed(w, r, err)
			return
		}
		a.setCookie(w, r, cookie, int(a.cfg.SessionTTL.Seconds()))
		http.Redirect(w, r, next, http.StatusSeeOther)
	})
}

// begin starts a session of the token and stores its cookie's hash.
func (a *Authenticator) begin(ctx context.Context, token, cookie string) (Identity, error) {
	id, err := a.token(ctx, token, "")
	if err != nil {
		return Identity{}, err
	}
	var holds bool
	err = a.cfg.Pool.QueryRow(ctx, queryLogin, id.secret[:], hash(cookie), a.cfg.SessionTTL).Scan(&holds)
	if err == nil && !holds {
		err = errUnknown // revoked since
	}
	return id, err
}

// Logout returns a handler that ends the session.
func (a *Authenticator) Logout(failed Failed) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cookie, err := r.Cookie(a.cookieName(r)); err == nil {
			if _, err := a.cfg.Pool.Exec(r.Context(), queryLogout, hash(cookie.Value)); err != nil {
				failed(w, r, err)
				return
			}
		}
		a.clearCookie(w, r)
		http.Redirect(w, r, "/login", http.StatusSeeOther)
	})
}

// cookieName returns the cookie's name. Over TLS it has the prefix __Host-: browsers then send it
// only over TLS and only to this host.
func (a *Authenticator) cookieName(r *http.Request) string {
	if a.Secure(r) {
		return "__Host-tidemark"
	}
	return "tidemark"
}

func (a *Authenticator) clearCookie(w http.ResponseWriter, r *http.Request) {
	a.setCookie(w, r, "", -1)
}

func (a *Authenticator) setCookie(w http.ResponseWriter, r *http.Request, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name:     a.cookieName(r),
		Value:    value,
		Path:     "/",
		MaxAge:   seconds,
		HttpOnly: true,
		Secure:   a.Secure(r),
		SameSite: http.SameSiteStrictMode,
	})
}

// Local returns next if it is a path of this server, else "/", so that no redirect leaves the site.
func Local(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") ||
		strings.ContainsAny(next, "\\\r\n\t") {
		return "/"
	}
	return next
}

const (
	limitBurst   = 10              // wrong credentials that an address may send at once
	limitEach    = 6 * time.Second // wait for each further one
	limitEntries = 4096            // addresses remembered
)

// limiter counts wrong credentials by address. An IPv6 address counts as its /64.
type limiter struct {
	now func() time.Time

	mu   sync.Mutex
	full map[netip.Addr]time.Time // when the address may send limitBurst wrong credentials again
}

// wait returns how long the address has to wait; 0: it may try now.
func (l *limiter) wait(addr netip.Addr) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	full, known := l.full[whole(addr)]
	if !known {
		return 0
	}
	return max(0, full.Sub(l.now())-(limitBurst-1)*limitEach)
}

func (l *limiter) wrong(addr netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, addr := l.now(), whole(addr)
	from := l.full[addr]
	if from.Before(now) {
		from = now
	}
	if _, known := l.full[addr]; !known && len(l.full) >= limitEntries {
		l.forget(now)
	}
	l.full[addr] = from.Add(limitEach)
}

// forget drops addresses that no longer count, then any others until there is room.
func (l *limiter) forget(now time.Time) {
	maps.DeleteFunc(l.full, func(_ netip.Addr, at time.Time) bool { return !at.After(now) })
	for addr := range l.full {
		if len(l.full) < limitEntries {
			return
		}
		delete(l.full, addr)
	}
}

func whole(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if addr.Is6() {
		if p, err := addr.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return addr
}
