package s3_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rclone/gofakes3"
	"github.com/rclone/gofakes3/s3mem"

	"github.com/tidemark-go/tidemark/adapters/s3"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/archive/archivetest"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestMain sets the credentials, and trusts the certificates of httptest.
func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "")
	certificates := filepath.Join(folder, "certificates.pem")
	secure := httptest.NewTLSServer(nil)
	err = errors.Join(err, os.WriteFile(certificates, pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: secure.Certificate().Raw,
	}), 0o600))
	secure.Close()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "SSL_CERT_FILE": certificates,
	} {
		err = errors.Join(err, os.Setenv(name, value))
	}
	if err != nil {
		panic(err)
	}
	pgtest.Main(m)
}

// server is an S3 with the bucket "shelf". Requests go through what meddle returns, if that is set.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	meddle http.Handler
}

func newServer(t *testing.T, start func(http.Handler) *httptest.Server) *server {
	t.Helper()
	s, kept := &server{}, s3mem.New()
	if err := kept.CreateBucket(t.Context(), "shelf"); err != nil {
		t.Fatal(err)
	}
	real := gofakes3.New(kept, gofakes3.WithV4Auth(map[string]string{"key": "secret"})).Server()
	s.Server = start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		meddle := s.meddle
		s.mu.Unlock()
		if meddle != nil {
			meddle.ServeHTTP(w, r)
		}
		if r.Header.Get("X-Answered") == "" {
			real.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// before has do see each request first. If it returns true it has answered.
func (s *server) before(do func(w http.ResponseWriter, r *http.Request) (answered bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meddle = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if do(w, r) {
			r.Header.Set("X-Answered", "yes")
		}
	})
}

func (s *server) url(path string) string {
	return "s3://" + path + "?region=us-east-1&endpoint=" + s.URL
}

func open(t *testing.T, text string) archive.Store {
	t.Helper()
	store, err := archive.Open(text, archive.Kinds{"s3": s3.Open})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestABucketKeepsTheRulesOfStores(t *testing.T) {
	t.Parallel()
	secure := newServer(t, httptest.NewTLSServer)
	for name, text := range map[string]string{
		"plain": newServer(t, httptest.NewServer).url("shelf/a/b"), "TLS": secure.url("shelf"),
		"TLS without saying": strings.Replace(secure.url("shelf/c/"), "https://", "", 1),
		"without a region":   "s3://shelf?endpoint=" + secure.URL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			archivetest.Run(t, open(t, text))
		})
	}
}

// TestAStoreThatDoesNotKnowSignedChunks keeps bodies as they are sent, as some stores do.
func TestAStoreThatDoesNotKnowSignedChunks(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(http.Handler) *httptest.Server{
		"plain": httptest.NewServer, "TLS": httptest.NewTLSServer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, start)
			var kept []byte
			s.before(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPut {
					var err error
					if kept, err = io.ReadAll(r.Body); err != nil {
						t.Error(err)
					}
					if sum := sha256.Sum256([]byte("an oak")); r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]) ||
						r.Header.Get("Content-Md5") == "" {
						t.Errorf("the headers lack a hash of the content: %v", r.Header)
					}
					return true
				}
				w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
				w.Header().Set("ETag", `"x"`)
				_, _ = w.Write(kept)
				return true
			})
			store := open(t, s.url("shelf"))
			if err := store.Put(t.Context(), "events", []byte("an oak")); err != nil {
				t.Fatal(err)
			}
			if got, err := store.Get(t.Context(), "events", 6); err != nil || string(got) != "an oak" {
				t.Errorf("it kept %q, and Get returned %q, %v", kept, got, err)
			}
		})
	}
}

func TestAnObjectIsUnderThePrefix(t *testing.T) {
	t.Parallel()
	s := newServer(t, httptest.NewServer)
	if err := open(t, s.url("shelf/a/b/")).Put(t.Context(), "oak", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, s.url("shelf/a")).Get(t.Context(), "oak", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("at another prefix is %q, %v", got, err)
	}
	if got, err := open(t, s.url("shelf/a/b")).Get(t.Context(), "oak", 1); err != nil || string(got) != "x" {
		t.Errorf("at the prefix is %q, %v", got, err)
	}
}

func TestAByteThatChangesOnTheWayIsFound(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(http.Handler) *httptest.Server{
		"plain": httptest.NewServer, "TLS": httptest.NewTLSServer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, start)
			s.before(func(_ http.ResponseWriter, r *http.Request) bool {
				content, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				r.Body = io.NopCloser(bytes.NewReader(bytes.Replace(content, []byte("oak"), []byte("oaf"), 1)))
				return false
			})
			store := open(t, s.url("shelf"))
			if err := store.Put(t.Context(), "events", []byte("an oak")); err == nil ||
				!strings.Contains(err.Error(), "write s3://shelf/events at 127.0.0.1") {
				t.Errorf("Put returned %v", err)
			}
			if got, err := store.Get(t.Context(), "events", 1); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("there is %q, %v", got, err)
			}
		})
	}
}

func TestWhatIsWrongWithABucketIsSaid(t *testing.T) {
	t.Parallel()
	s, strangers := newServer(t, httptest.NewServer), newServer(t, httptest.NewServer)
	other := gofakes3.New(s3mem.New(), gofakes3.WithV4Auth(map[string]string{"key": "another"})).Server()
	unknown := gofakes3.New(s3mem.New(), gofakes3.WithV4Auth(map[string]string{"unknown": "secret"})).Server()
	strangers.before(func(w http.ResponseWriter, r *http.Request) bool {
		switch answer := strings.Split(r.URL.Path, "/")[1]; answer {
		case "other-secret":
			other.ServeHTTP(w, r)
		case "other-key":
			unknown.ServeHTTP(w, r)
		case "web-server":
			http.Error(w, "<html>not here</html>", http.StatusNotFound)
		case "other-region":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region is wrong</Message>`+
				`<Region>eu-west-1</Region></Error>`)
		default:
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>`)
		}
		return true
	})
	const check = "check the credentials of the environment, as AWS_ACCESS_KEY_ID"
	for text, want := range map[string]string{
		s.url("empty/old"):                                "create the bucket, or correct its name or the endpoint in the URL",
		strangers.url("forbidden"):                        "allow s3:GetObject, s3:PutObject and s3:ListBucket",
		strangers.url("other-key"):                        check,
		strangers.url("other-secret"):                     check,
		strangers.url("other-region"):                     `the URL says region "us-east-1", the bucket's is "eu-west-1"`,
		strings.Replace(s.url("shelf"), "http://", "", 1): "server gave HTTP response to HTTPS client",
	} {
		store := open(t, text)
		_, get := store.Get(t.Context(), "events", 1)
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		place := "s3://" + u.Host + u.Path + "/events at 127.0.0.1:"
		for does, err := range map[string]error{"read ": get, "write ": store.Put(t.Context(), "events", []byte("x"))} {
			if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), does+place) ||
				!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret\"") {
				t.Errorf("%s: %s: got %v", text, does, err)
			}
		}
	}
	if err := open(t, strangers.url("web-server")).Put(t.Context(), "events", []byte("x")); err == nil ||
		!strings.Contains(err.Error(), "or the endpoint in the URL") {
		t.Errorf("a web server: %v", err)
	}
}

func TestARequestIsTriedThreeTimes(t *testing.T) {
	t.Parallel()
	s := newServer(t, httptest.NewServer)
	store := open(t, s.url("shelf"))
	for fails, want := range map[int64]bool{2: true, 3: false} {
		for does, run := range map[string]func() error{
			"put": func() error { return store.Put(t.Context(), "events", []byte("x")) },
			"get": func() error { _, err := store.Get(t.Context(), "events", 1); return err },
		} {
			if err := store.Put(t.Context(), "events", []byte("x")); err != nil {
				t.Fatal(err)
			}
			var requests atomic.Int64
			s.before(func(w http.ResponseWriter, _ *http.Request) bool {
				if requests.Add(1) > fails {
					return false
				}
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			})
			if err := run(); (err == nil) != want {
				t.Errorf("%s after %d failures: %v", does, fails, err)
			}
			s.before(func(http.ResponseWriter, *http.Request) bool { return false })
		}
	}
}

func TestAServerThatDoesNotAnswerIsLeftInTime(t *testing.T) {
	t.Parallel()
	s, end := newServer(t, httptest.NewServer), make(chan struct{})
	s.before(func(http.ResponseWriter, *http.Request) bool { <-end; return true })
	defer close(end)
	store := open(t, s.url("shelf"))
	for does, run := range map[string]func(context.Context) error{
		"put": func(ctx context.Context) error { return store.Put(ctx, "events", []byte("x")) },
		"get": func(ctx context.Context) error { _, err := store.Get(ctx, "events", 1); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := run(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "s3://shelf/events") {
			t.Errorf("%s: %v", does, err)
		}
		cancel()
	}
}

func TestAnObjectOfAnySizeIsNotRead(t *testing.T) {
	t.Parallel()
	s := newServer(t, httptest.NewServer)
	s.before(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		w.Header().Set("ETag", `"x"`)
		for part := make([]byte, 1<<20); r.Context().Err() == nil; {
			if _, err := w.Write(part); err != nil {
				break
			}
		}
		return true
	})
	if _, err := open(t, s.url("shelf")).Get(t.Context(), "events", 1); !errors.Is(err, archive.ErrObject) ||
		!strings.Contains(err.Error(), "it does not have the 1 bytes") {
		t.Errorf("an object without an end: %v", err)
	}
}

func TestBadURLsSayWhatToDo(t *testing.T) {
	t.Parallel()
	const form = "write s3://bucket/prefix"
	for text, want := range map[string]string{
		"s3://": form, "s3:///old": form, "s3://no_bucket": `bucket is "no_bucket"`, "s3://bucket:9000": form,
		"s3://bucket/a//b": form, "s3://bucket/../b": form, "s3://bucket#x": form,
		"s3://key:secret@bucket":           "credentials come from the environment",
		"s3://bucket?regoin=x":             `the URL has a parameter "regoin": it may have region and endpoint`,
		"s3://bucket?endpoint=ftp://a":     "endpoint: ",
		"s3://bucket?endpoint=https://a/b": "use a host, with its port if that is not 443",
	} {
		_, err := archive.Open(text, archive.Kinds{"s3": s3.Open})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", text, err)
		}
	}
	if _, err := archive.Open("s3://bucket/a/b?region=eu-west-1", archive.Kinds{"s3": s3.Open}); err != nil {
		t.Error(fmt.Errorf("Amazon's: %w", err))
	}
}
