package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

const (
	secretHeader = "X-Tidemark-Proxy-Secret"
	secretLeast  = 16 // of a shared secret, at least
)

// proxied returns the identity in the headers of a trusted proxy. It ignores the headers of other
// senders.
func (a *Authenticator) proxied(r *http.Request) (Identity, bool, error) {
	users := r.Header.Values(a.cfg.UserHeader)
	if len(users) == 0 || !within(a.cfg.Proxies, peer(r)) {
		return Identity{}, false, nil
	}
	if ok, err := a.proved(r); !ok {
		return Identity{}, false, err
	}
	var roles []string
	if a.cfg.RoleHeader != "" {
		roles = r.Header.Values(a.cfg.RoleHeader)
	}
	if len(users) > 1 || len(roles) > 1 {
		return Identity{}, false, unauthorized("the proxy named several users or roles",
			"have it replace "+a.cfg.UserHeader+" and "+a.cfg.RoleHeader+" and not add to them")
	}
	name := strings.TrimSpace(users[0])
	if name == "" {
		return Identity{}, false, nil
	}
	if !named(name) {
		return Identity{}, false, unauthorized("the proxy's user name is invalid",
			"send up to 256 bytes of printable characters").Of(a.cfg.UserHeader, name, "256 bytes")
	}
	role := Viewer
	if len(roles) == 1 && strings.TrimSpace(roles[0]) != "" {
		var err error
		if role, err = ParseRole(strings.ToLower(strings.TrimSpace(roles[0]))); err != nil {
			return Identity{}, false, unauthorized("the proxy's role is unknown", "send viewer, operator or admin").
				Of(a.cfg.RoleHeader, roles[0], "")
		}
	}
	return Identity{Name: name, Role: role, Via: "proxy"}, true, nil
}

// proved reports whether a request has the shared secret. A wrong secret counts like a wrong token;
// a request without one does not come from the proxy.
func (a *Authenticator) proved(r *http.Request) (bool, error) {
	secrets := r.Header.Values(secretHeader)
	switch {
	case a.cfg.Secret == "":
		return true, nil
	case len(secrets) == 0:
		return false, nil
	}
	_, err := a.checked(r, "", func() (Identity, error) {
		given, want := sha256.Sum256([]byte(secrets[0])), sha256.Sum256([]byte(a.cfg.Secret))
		if len(secrets) != 1 || subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
			return Identity{}, errUnknown
		}
		return Identity{}, nil
	})
	return err == nil, err
}

// forwarded reports whether a request came through a proxy, trusted or not. Its peer address is then
// not the client's.
func forwarded(r *http.Request) bool {
	for name := range r.Header {
		switch {
		case strings.HasPrefix(name, "X-Forwarded-"), name == "Forwarded", name == "Via", name == "X-Real-Ip",
			name == http.CanonicalHeaderKey(secretHeader):
			return true
		}
	}
	return false
}

func within(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// peer returns the address of the other end of the connection.
func peer(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// client returns the client's address: behind forwarders, the last address in X-Forwarded-For that
// is not a forwarder's.
func (a *Authenticator) client(r *http.Request) netip.Addr {
	at := peer(r)
	if !within(a.cfg.Forwarders, at) {
		return at
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		addr, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		if at = addr.Unmap().WithZone(""); !within(a.cfg.Forwarders, at) {
			break
		}
	}
	return at
}

// Secure reports whether the browser's connection is encrypted.
func (a *Authenticator) Secure(r *http.Request) bool {
	return r.TLS != nil || within(a.cfg.Forwarders, peer(r)) && r.Header.Get("X-Forwarded-Proto") == "https"
}
