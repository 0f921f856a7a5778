package webhook_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/pkg/webhook"
)

func ExampleVerify() {
	secret := webhook.NewSecret() // in production: webhook.ParseSecret(os.Getenv("WEBHOOK_SECRET"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return
		}
		delivery, err := webhook.Verify(r.Header, body, 0, secret)
		if err != nil {
			http.Error(w, "not for us", http.StatusUnauthorized)
			return
		}
		fmt.Printf("event %s: %s\n", delivery.ID, body)
	}))
	defer server.Close()

	for _, body := range []string{`{"n": 1}`, `{"n": 2}`} {
		now, id := time.Now(), "0197a3c2"
		r, _ := http.NewRequest(http.MethodPost, server.URL, strings.NewReader(body))
		webhook.Sign(r.Header, id, now, []byte(`{"n": 1}`), secret)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(response.Status)
		_ = response.Body.Close()
	}
	// Output:
	// event 0197a3c2: {"n": 1}
	// 200 OK
	// 401 Unauthorized
}
