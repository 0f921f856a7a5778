package web

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

// policy lets pages load only scripts, styles and images of this server, and forbids other sites to
// frame them.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; " +
	"connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

const (
	bodyBytes      = 1 << 20          // maximum of a request
	requestTimeout = 30 * time.Second // for all requests but event streams
)

func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		h.Set("Cache-Control", "no-store")
		if r.TLS != nil {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}

func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > bodyBytes {
			problem.Write(w, problem.New(http.StatusRequestEntityTooLarge, "the body is too large",
				"send less").Of("Content-Length", r.Header.Get("Content-Length"), "1 MiB"))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, bodyBytes)
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// sameOrigin refuses requests that another site makes a browser send.
func sameOrigin(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		problem.Write(w, problem.New(http.StatusForbidden, "the request comes from another site",
			"send it from a page of this server, or without a browser").Of("Origin", r.Header.Get("Origin"), ""))
	}))
	return protection.Handler(next)
}

// localHost refuses Host headers that do not name this machine. It protects listeners without
// credentials from DNS rebinding: a site could point its own name at the listener.
func localHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if host != "localhost" && (err != nil || !addr.IsLoopback()) {
			problem.Write(w, problem.New(http.StatusMisdirectedRequest, "the host is not this machine",
				"use 127.0.0.1, or credentials in place of TIDEMARK_ADMIN_ANONYMOUS").Of("Host", r.Host, ""))
			return
		}
		next.ServeHTTP(w, r)
	})
}

type observed struct {
	http.ResponseWriter
	status int
}

func (o *observed) WriteHeader(status int) {
	o.status = cmp.Or(o.status, status)
	o.ResponseWriter.WriteHeader(status)
}

func (o *observed) Write(b []byte) (int, error) {
	o.status = cmp.Or(o.status, http.StatusOK)
	return o.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the wrapped writer.
func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// logged logs each request without its query, headers and body, and recovers from panics.
func logged(logger *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		o := &observed{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(p)
				}
				logger.ErrorContext(r.Context(), "a request panicked", "method", r.Method, "path", r.URL.Path, "panic", p,
					"stack", string(debug.Stack()))
				if o.status == 0 {
					problem.Write(o, problem.New(http.StatusInternalServerError, "the server failed",
						"its log says why"))
				}
			}
			level, status := slog.LevelDebug, o.status
			if gone(r) && (status == 0 || status >= http.StatusInternalServerError) {
				status = statusGone
			}
			if r.Method != http.MethodGet && r.Method != http.MethodHead || status >= http.StatusInternalServerError {
				level = slog.LevelInfo
			}
			logger.Log(r.Context(), level, "request", "method", r.Method, "path", r.URL.Path, "status", status, "duration",
				time.Since(began), "remote", r.RemoteAddr)
		}()
		next.ServeHTTP(o, r)
	})
}

// statusGone is logged for a request whose client has left, instead of an error that no client saw.
// Other servers use the same number.
const statusGone = 499

// gone reports whether the client has left, such as a browser that opened another page meanwhile.
func gone(r *http.Request) bool { return errors.Is(r.Context().Err(), context.Canceled) }

func failed(logger *slog.Logger) func(w http.ResponseWriter, r *http.Request, err error) {
	return func(w http.ResponseWriter, r *http.Request, err error) {
		problem.Write(w, problemOf(err))
		if _, refused := errors.AsType[*problem.Problem](err); refused {
			return
		}
		if code := redact.SQLState(err); strings.HasPrefix(code, "22") { // its message quotes data
			err = errors.New("SQLSTATE " + code)
		}
		level := slog.LevelWarn
		if gone(r) { // the error is only its cancellation
			level = slog.LevelDebug
		}
		logger.Log(r.Context(), level, "a request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
}

// problemOf returns what a client gets to know of an error.
func problemOf(err error) *problem.Problem {
	code := redact.SQLState(err)
	if refused, ok := errors.AsType[*problem.Problem](err); ok {
		return refused
	}
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	switch {
	case code == "57014", errors.Is(err, context.DeadlineExceeded):
		return problem.New(http.StatusServiceUnavailable, "the database took too long", "ask for less, or try again later")
	case code == "55P03":
		return problem.New(http.StatusConflict, "another session holds a lock that this needs", "try again in a moment")
	case connect, slices.Contains([]string{"57P01", "57P02", "57P03", "53300"}, code):
		return problem.New(http.StatusServiceUnavailable, "the database cannot be reached, or takes no more connections",
			"look at Postgres; tidemark doctor and the worker's log say more")
	}
	return problem.New(http.StatusInternalServerError, "the server failed", "the worker's log says why")
}
