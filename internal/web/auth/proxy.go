package auth

import (
	"net/http"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-go/tidemark/internal/web/problem"
)

// proxied reads the headers of a proxy that is trusted. What anybody else writes into them means nothing.
func (a *Authenticator) proxied(r *http.Request) (Identity, bool, error) {
	users := r.Header.Values(a.cfg.UserHeader)
	if len(users) == 0 || !a.trusts(peer(r)) {
		return Identity{}, false, nil
	}
	roles := r.Header.Values(a.cfg.RoleHeader)
	if len(users) > 1 || len(roles) > 1 {
		return Identity{}, false, problem.New(http.StatusUnauthorized, "the proxy named several users or roles", "have it replace "+a.cfg.UserHeader+" and "+a.cfg.RoleHeader+" and not add to them")
	}
	name := strings.TrimSpace(users[0])
	if name == "" {
		return Identity{}, false, nil
	}
	if len(name) > 2*nameBytes || !utf8.ValidString(name) || strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return Identity{}, false, problem.New(http.StatusUnauthorized, "the proxy's user is no name", "send up to 256 bytes of printable characters").Of(a.cfg.UserHeader, name, "256 bytes")
	}
	role := Viewer
	if len(roles) == 1 && strings.TrimSpace(roles[0]) != "" {
		var err error
		if role, err = ParseRole(strings.ToLower(strings.TrimSpace(roles[0]))); err != nil {
			return Identity{}, false, problem.New(http.StatusUnauthorized, "the proxy's role is unknown", "send viewer, operator or admin").Of(a.cfg.RoleHeader, roles[0], "")
		}
	}
	return Identity{Name: name, Role: role, Via: "proxy"}, true, nil
}

func (a *Authenticator) trusts(addr netip.Addr) bool {
	for _, network := range a.cfg.Proxies {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

// peer is the other end of the connection.
func peer(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// client is the address a request comes from: behind proxies that are trusted, the last one that none of them is.
func (a *Authenticator) client(r *http.Request) netip.Addr {
	at := peer(r)
	if !a.trusts(at) {
		return at
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		addr, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		if at = addr.Unmap().WithZone(""); !a.trusts(at) {
			break
		}
	}
	return at
}

// secure says whether the browser's connection is encrypted.
func (a *Authenticator) secure(r *http.Request) bool {
	return r.TLS != nil || a.trusts(peer(r)) && r.Header.Get("X-Forwarded-Proto") == "https"
}
