package network_test

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
)

// proxy stands between workers and the server.
type proxy struct {
	*toxiproxy.Proxy
	url string
}

func startProxy(t *testing.T, pool *pgxpool.Pool) *proxy {
	t.Helper()
	server := pool.Config().ConnConfig
	upstream := net.JoinHostPort(server.Host, strconv.Itoa(int(server.Port)))
	p := &proxy{Proxy: toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop()), "postgres", "127.0.0.1:0", upstream)}
	p.start(t)
	t.Cleanup(p.Stop)
	address := url.URL{Scheme: "postgres", User: url.UserPassword(server.User, server.Password), Host: p.Listen, Path: "/" + server.Database, RawQuery: "sslmode=disable"}
	p.url = address.String()
	return p
}

// start listens, again after a Stop.
func (p *proxy) start(t *testing.T) {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
}

// toxic spoils a direction, "upstream" to the server or "downstream" from it, of all connections. attributes are the toxic's.
func (p *proxy) toxic(t *testing.T, kind, direction string, attributes any) toxics.Toxic {
	t.Helper()
	text, err := json.Marshal(map[string]any{"name": kind + direction, "type": kind, "stream": direction, "attributes": attributes})
	if err != nil {
		t.Fatal(err)
	}
	added, err := p.Toxics.AddToxicJson(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return added.Toxic
}
