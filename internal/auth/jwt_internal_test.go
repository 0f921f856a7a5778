package auth

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A discovery or a redirect may name another address than the configuration.
func TestKeysBehindARedirectNeverComeInTheClear(t *testing.T) {
	t.Parallel()
	moved := httptest.NewServer(http.RedirectHandler("http://keys.example.com/jwks", http.StatusFound))
	t.Cleanup(moved.Close)
	client := &http.Client{Transport: &patient{last: map[string]fetch{}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, moved.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err == nil {
		_ = response.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "http://keys.example.com/jwks is not an https URL") {
		t.Errorf("it was followed: %v", err)
	}
}
