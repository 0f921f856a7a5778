package setting

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Servers answers the servers that a URL names, with commas between them.
func Servers(u *url.URL) []string {
	return strings.FieldsFunc(u.Host, func(r rune) bool { return r == ',' })
}

// WithPorts answers servers as host:port, with the default port where a server has none. There must
// be one; name is the setting's.
func WithPorts(name string, servers []string, port string) ([]string, error) {
	if len(servers) == 0 {
		return nil, fmt.Errorf("%s are missing: name at least one as host:port", name)
	}
	var errs []error
	whole := slices.Clone(servers)
	for i, server := range servers {
		host, own, err := net.SplitHostPort(server)
		if err != nil {
			host, own, err = net.SplitHostPort(server + ":" + port)
		}
		if n, convErr := strconv.ParseUint(own, 10, 16); err != nil || convErr != nil || n == 0 || host == "" {
			errs = append(errs, fmt.Errorf("%s holds %q: write host:port", name, server))
			continue
		}
		whole[i] = net.JoinHostPort(host, own)
	}
	return whole, errors.Join(errs...)
}
