package webhook

import (
	"net/netip"
	"strings"
	"testing"
)

func mustNetwork(t *testing.T, text string) netip.Prefix {
	t.Helper()
	network, err := networkOf(text)
	if err != nil {
		t.Fatal(err)
	}
	return network
}

func TestOnlyPublicAddressesAreDialled(t *testing.T) {
	t.Parallel()
	refused := strings.Fields(`
		0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 127.255.255.255 168.63.129.16 169.254.0.1 169.254.169.254 172.16.0.1 172.31.255.255
		192.0.0.192 192.0.2.1 192.168.0.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
		:: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::ffff:a00:1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 100::1 2001::1 2001:db8::1 2002:7f00:1::1 2002:a9fe:a9fe::1
		3fff::1 4000::1 fc00::1 fd00:ec2::254 fdff::1 fe80::1 fe80::1%eth0 febf::1 fec0::1 ff00::1 ff02::1`)
	for _, text := range refused {
		if err := (guard{}).control("tcp", netip.AddrPortFrom(netip.MustParseAddr(text), 443).String(), nil); err == nil {
			t.Errorf("%s is dialled", text)
		}
	}
	for _, text := range strings.Fields("1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 " +
		"172.15.255.255 172.32.0.0 192.167.255.255 192.169.0.0 223.255.255.255 " +
		"2606:4700::1111 2a00:1450::1 64:ff9b::808:808 ::ffff:8.8.8.8") {
		if err := (guard{}).control("tcp", netip.AddrPortFrom(netip.MustParseAddr(text), 443).String(), nil); err != nil {
			t.Errorf("%s is not dialled: %v", text, err)
		}
	}
	for _, address := range []string{"", "localhost:80", "/run/socket", "127.0.0.1", "1.1.1.1"} {
		if (guard{}).control("tcp", address, nil) == nil {
			t.Errorf("%q is dialled", address)
		}
	}
}

func TestWhatIsAllowedIsDialledAndNothingElse(t *testing.T) {
	t.Parallel()
	g := guard{[]netip.Prefix{
		mustNetwork(t, "10.1.0.0/16"), mustNetwork(t, "::ffff:192.168.0.7"),
		mustNetwork(t, "fd00:1::/64"),
	}}
	for text, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.2.0.0": false, "192.168.0.7": true, "192.168.0.8": false,
		"fd00:1::5": true, "fd00:1:0:1::5": false, "169.254.169.254": false, "1.1.1.1": true,
	} {
		if err := g.check(netip.MustParseAddr(text)); (err == nil) != want {
			t.Errorf("%s: %v, want it allowed: %t", text, err, want)
		}
	}
	for _, text := range []string{"", "localhost", "10.0.0.0/33", "::ffff:10.0.0.0/104"} {
		if _, err := networkOf(text); err == nil || !strings.Contains(err.Error(), "allow_networks holds") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}
