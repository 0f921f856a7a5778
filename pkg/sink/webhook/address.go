package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// errAddress is the reason an address is not dialled.
var errAddress = errors.New("the address is not public")

type guard struct{ allowed []netip.Prefix }

// control is a net.Dialer's Control. It gets the resolved address just before connecting.
func (g guard) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %q cannot be checked", errAddress, address)
	}
	return g.check(to.Addr())
}

func (g guard) check(addr netip.Addr) error {
	addr = addr.WithZone("").Unmap()
	if public(addr) || slices.ContainsFunc(g.allowed, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return nil
	}
	return fmt.Errorf("%w: %s is private, local or reserved: to allow it, name it or its network in allow_networks",
		errAddress, addr)
}

// public reports whether an address is public, by IANA's registries of special-purpose addresses.
func public(addr netip.Addr) bool {
	if addr.Is4() {
		return !in(addr, reserved4())
	}
	if nat64 := netip.MustParsePrefix("64:ff9b::/96"); nat64.Contains(addr) { // an IPv4 address in its last bytes
		b := addr.As16()
		return public(netip.AddrFrom4([4]byte(b[12:])))
	}
	return netip.MustParsePrefix("2000::/3").Contains(addr) && !in(addr, reserved6())
}

func in(addr netip.Addr, networks []string) bool {
	return slices.ContainsFunc(networks, func(network string) bool {
		return netip.MustParsePrefix(network).Contains(addr)
	})
}

func reserved4() []string {
	return []string{
		"0.0.0.0/8",        // this host
		"10.0.0.0/8",       // private
		"100.64.0.0/10",    // carriers' NAT, and a cloud's metadata at 100.100.100.200
		"127.0.0.0/8",      // loopback
		"168.63.129.16/32", // a cloud's host, in a public network
		"169.254.0.0/16",   // link-local, and most clouds' metadata at 169.254.169.254
		"172.16.0.0/12",    // private
		"192.0.0.0/24",     // protocols, and a cloud's metadata at 192.0.0.192
		"192.0.2.0/24",     // documentation
		"192.88.99.0/24",   // relays into 6to4
		"192.168.0.0/16",   // private
		"198.18.0.0/15",    // benchmarks
		"198.51.100.0/24",  // documentation
		"203.0.113.0/24",   // documentation
		"224.0.0.0/4",      // multicast
		"240.0.0.0/4",      // reserved, broadcast
	}
}

// reserved6 lists what is not public in 2000::/3. Nothing outside that network is public, e.g.
// loopback, fe80::/10, fc00::/7 and ff00::/8.
func reserved6() []string {
	return []string{
		"2001::/23",     // protocols, with Teredo, which hides an IPv4 address
		"2001:db8::/32", // documentation
		"2002::/16",     // 6to4, likewise
		"3fff::/20",     // documentation
	}
}

// networkOf parses a network, such as 10.1.0.0/16, or a single address.
func networkOf(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.WithZone("").Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{},
			fmt.Errorf("allow_networks holds %q: give networks such as 10.1.0.0/16 or fd00:1::/64, or addresses", text)
	}
	if p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("allow_networks holds %q: write IPv4 networks as such, e.g. 10.1.0.0/16", text)
	}
	return p.Masked(), nil
}
