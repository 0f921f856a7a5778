// Package proxy disturbs a connection from in between, with toxiproxy's toxics and some of its own.
package proxy

import (
	"encoding/json"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/tidemark-go/tidemark/internal/freeport"
)

// Proxy listens on its own port of the loopback interface. Stop closes it and all its connections.
type Proxy struct{ *toxiproxy.Proxy }

// Start starts a proxy for a server. It stops at the end of the test.
func Start(t testing.TB, upstream string) *Proxy {
	t.Helper()
	port, err := freeport.TCP(t.Context()) // fixed, so that it can reopen
	if err != nil {
		t.Fatal(err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	p := &Proxy{Proxy: toxiproxy.NewProxy(server, "server", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), upstream)}
	p.Open(t)
	t.Cleanup(p.Stop)
	return p
}

// ForPostgres starts a proxy for a pool's server, and returns the address of the pool's database
// behind it.
func ForPostgres(t testing.TB, pool *pgxpool.Pool) (p *Proxy, address string) {
	t.Helper()
	server := pool.Config().ConnConfig
	p = Start(t, net.JoinHostPort(server.Host, strconv.Itoa(int(server.Port))))
	u := url.URL{Scheme: "postgres", User: url.UserPassword(server.User, server.Password), Host: p.Listen, Path: "/" +
		server.Database, RawQuery: "sslmode=disable"}
	return p, u.String()
}

// MayStay returns goroutines of toxiproxy that can outlive a proxy. A link that is closed while its
// toxics are removed can leave goroutines that still hold unread data.
func MayStay() []goleak.Option {
	const module = "github.com/Shopify/toxiproxy/v2"
	return []goleak.Option{
		goleak.IgnoreAnyFunction(module + ".(*ToxicLink).read"), goleak.IgnoreAnyFunction(module + ".(*ToxicLink).write"),
		goleak.IgnoreAnyFunction(module + "/toxics.(*ToxicStub).Run"),
	}
}

// Open listens again after a Stop.
func (p *Proxy) Open(t testing.TB) {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
}

// Toxic adds a toxic to one direction of all connections: "upstream" to the server or "downstream"
// from it. attributes are the toxic's.
func (p *Proxy) Toxic(t testing.TB, kind, direction string, attributes any) toxics.Toxic {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"name": kind + direction, "type": kind, "stream": direction,
		"attributes": attributes,
	})
	if err != nil {
		t.Fatal(err)
	}
	added, err := p.Toxics.AddToxicJson(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return added.Toxic
}

// Heal removes all toxics.
func (p *Proxy) Heal(t testing.TB) {
	t.Helper()
	p.Toxics.ResetToxics(t.Context())
}
