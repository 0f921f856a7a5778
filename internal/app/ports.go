package app

import (
	"context"
	"fmt"
	"net"

	"github.com/tidemark-go/tidemark/internal/config"
)

// ports are a worker's open ports. They are bound before anything else is started, so a port
// that is taken is the first and only thing that a worker reports.
type ports struct {
	http, admin net.Listener // nil: off
}

func openPorts(ctx context.Context, settings config.Worker) (l ports, err error) {
	if l.http, err = bind(ctx, settings.HTTPAddr); err != nil {
		return ports{}, fmt.Errorf("health and metrics: %w: choose another address with --http-addr or "+
			"TIDEMARK_HTTP_ADDR, or turn it \"off\"", err)
	}
	if l.admin, err = bind(ctx, settings.Admin.Addr); err != nil {
		l.close()
		return ports{}, fmt.Errorf("admin listener: %w: choose another address with --admin-addr or "+
			"TIDEMARK_ADMIN_ADDR, or turn it \"off\"", err)
	}
	return l, nil
}

func bind(ctx context.Context, addr string) (net.Listener, error) {
	if addr == "off" {
		return nil, nil
	}
	return (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
}

// close closes both. They may be closed already.
func (l ports) close() {
	for _, listener := range []net.Listener{l.http, l.admin} {
		if listener != nil {
			_ = listener.Close()
		}
	}
}

// addressOf returns where the listener is, or "off".
func addressOf(l net.Listener) string {
	if l == nil {
		return "off"
	}
	return l.Addr().String()
}
