package docstest

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/web"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const (
	adminPage = "docs/guides/api.md"
	adminBase = "http://127.0.0.1:8081"

	// adminWorld holds the rows that the page's calls refer to.
	adminWorld = `INSERT INTO tidemark.consumer_groups (name) VALUES ('default');
		INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
			VALUES ('scores', 'default', 1, 'tidemark_views', '{scores}', 'active');
		CREATE TABLE scores (campaign_id text PRIMARY KEY, n int);
		SELECT tidemark.append('oak', '[{"type": "noted"}]'); SELECT tidemark.append('elm', '[{"type": "noted"}]');
		INSERT INTO tidemark.leases (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
			VALUES ('default', 'oak', '', 1, '-infinity', 1), ('default', 'elm', '', 1, '-infinity', 1);
		INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, next_attempt_at)
			VALUES ('oak', 'scores', 'default', 1, 'dead', 'infinity'), ('elm', 'scores', 'default', 1, 'dead', 'infinity');
		INSERT INTO tidemark.readers (topic, publisher, position) VALUES ('orders', 'archive', 0)`
)

// TestAdminCalls makes the calls of the page on the admin listener, in order.
func TestAdminCalls(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), adminWorld); err != nil {
		t.Fatal(err)
	}
	acts, err := admin.New(admin.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	server, err := web.New(t.Context(), web.Config{Addr: "127.0.0.1:0", Pool: pool, Acts: acts})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	token, err := auth.Create(t.Context(), pool, "ada", auth.Admin, 0, auth.Identity{Name: "the test"}, "")
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, p := range pages(t) {
		if p.path != adminPage {
			continue
		}
		for _, s := range p.in("sh") {
			for line := range strings.Lines(s.text) {
				if !strings.HasPrefix(line, "curl ") {
					continue
				}
				calls++
				line = strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(line), "$TOKEN", token), adminBase, "http://"+
					server.Addr().String())
				curl(t, line)
			}
		}
	}
	if calls < 10 {
		t.Errorf("%s has %d calls, there were more", adminPage, calls)
	}
}

// curl makes a request as curl does. It supports the options that the page uses.
func curl(t *testing.T, line string) {
	t.Helper()
	words := shellWords(line)
	method, address, body := http.MethodGet, "", ""
	header, user := http.Header{}, ""
	for i := 1; i < len(words); i++ {
		switch words[i] {
		case "-X":
			i++
			method = words[i]
		case "-H":
			i++
			name, value, _ := strings.Cut(words[i], ": ")
			header.Set(name, value)
		case "-u":
			i++
			user = words[i]
		case "-d":
			i++
			body = words[i]
		default:
			address = words[i]
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	request.Header = header
	if name, password, ok := strings.Cut(user, ":"); ok {
		request.SetBasicAuth(name, password)
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%s\nis answered %s %s %v", line, response.Status, answer, err)
	}
}

// shellWords splits a line into words as a shell does. It supports both kinds of quotes and nothing
// else.
func shellWords(line string) (words []string) {
	var word strings.Builder
	var quote rune
	for _, r := range line {
		switch {
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case r == quote:
			quote = 0
		case r == ' ' && quote == 0:
			words = append(words, word.String())
			word.Reset()
		default:
			word.WriteRune(r)
		}
	}
	return append(words, word.String())
}
