package web_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/web"
)

func TestTheListenerSpeaksTLS(t *testing.T) {
	t.Parallel()
	lender := httptest.NewTLSServer(nil) // lends its certificate
	lender.Close()
	s := serve(t, func(c *web.Config) {
		c.TLS = &tls.Config{
			Certificates: lender.TLS.Certificates, MinVersion: tls.VersionTLS12,
			NextProtos: []string{"http/1.1"},
		}
	})
	known := x509.NewCertPool()
	known.AddCert(lender.Certificate())
	do := func(method, path, body string, header http.Header, roots *x509.CertPool) (*http.Response, error) {
		request, err := http.NewRequestWithContext(t.Context(), method, "https://"+
			strings.TrimPrefix(s.base, "http://")+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = header
		return (&http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		}).RoundTrip(request)
	}
	bearer := http.Header{"Authorization": {"Bearer " + s.tokens[auth.Viewer]}}
	response, err := do(http.MethodGet, "/api/v1/me", "", bearer, known)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), `"viewer"`) ||
		response.Header.Get("Strict-Transport-Security") == "" {
		t.Errorf("%s %v %s, %v", response.Status, response.Header, body, err)
	}
	response, err = do(http.MethodPost, "/login", url.Values{"token": {s.tokens[auth.Viewer]}}.Encode(),
		http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, known)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if cookies := response.Cookies(); len(cookies) != 1 || !cookies[0].Secure || !cookies[0].HttpOnly {
		t.Errorf("a login over TLS sets %v", cookies)
	}
	if response, err := do(http.MethodGet, "/api/v1/me", "", bearer, x509.NewCertPool()); err == nil {
		_ = response.Body.Close()
		t.Error("a certificate that nobody knows is trusted")
	}
	if response, text := s.call(t, auth.Viewer, http.MethodGet, "/api/v1/me", "",
		nil); response.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS it is answered %s %s", response.Status, text)
	}
}
