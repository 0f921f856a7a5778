package s3

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"
)

func TestAServerThatStopsHalfWayIsLeftAfterAWhile(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse("s3://shelf?region=us-east-1&endpoint=" + server.URL)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := Open(u)
	if err != nil {
		t.Fatal(err)
	}
	store := opened.(*Store)
	store.patience = 50 * time.Millisecond
	if _, err := store.Get(t.Context(), "events", 10); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Get returned %v", err)
	}
	if err := store.Put(t.Context(), "events", []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Put returned %v", err)
	}
}
