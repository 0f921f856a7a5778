package setting

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// TLS secures a connection. Sinks embed it in their settings.
type TLS struct {
	On         bool   `yaml:"tls"`         // use TLS, even if no other field is set
	CA         string `yaml:"ca"`          // PEM file of trusted authorities; default: the system's
	Cert       string `yaml:"cert"`        // PEM file of the client's certificate
	Key        string `yaml:"key"`         // PEM file of its key; both or neither
	ServerName string `yaml:"server_name"` // the name in the broker's certificate; default the host
}

// ReadTLS is [Read] into settings that embed t. It returns t's [TLS.Config]. A URL with scheme
// turns TLS on.
func ReadTLS(s publisher.Settings, into any, t *TLS, scheme string) (*tls.Config, error) {
	t.On = s.URL != nil && s.URL.Scheme == scheme
	if err := Read(s, into); err != nil {
		return nil, err
	}
	return t.Config()
}

// Config reads the files. It returns nil if no field is set.
func (s TLS) Config() (*tls.Config, error) {
	if s == (TLS{}) {
		return nil, nil
	}
	if (s.Cert == "") != (s.Key == "") {
		return nil, fmt.Errorf("cert is %q and key %q: a client's certificate needs both files", s.Cert, s.Key)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.ServerName}
	var errs []error
	if s.CA != "" {
		pem, err := os.ReadFile(s.CA)
		config.RootCAs = x509.NewCertPool()
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("ca: %w: name a PEM file that this process may read", err))
		case !config.RootCAs.AppendCertsFromPEM(pem):
			errs = append(errs, fmt.Errorf("ca is %q, which holds no certificate: name a PEM file of the authorities to trust",
				s.CA))
		}
	}
	if s.Cert != "" {
		pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
		if err != nil {
			errs = append(errs, fmt.Errorf("cert is %q and key %q: %w: name PEM files of a certificate and of its key", s.Cert,
				s.Key, err))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, errors.Join(errs...)
}
