package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestScanObjectAgreesWithPostgres(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	documents := rapid.Custom(func(t *rapid.T) string { return string(drawDocument(t)) })
	rapid.Check(t, func(rt *rapid.T) {
		for _, document := range rapid.SliceOfN(documents, 20, 20).Draw(rt, "documents") {
			checkAgainstPostgres(t.Context(), rt, pool, document)
		}
	})
}

// checkAgainstPostgres holds the scanner against jsonb: what it accepts, Postgres takes and prints
// in no more bytes than foretold; what it refuses for a reason that is not a limit of ours,
// Postgres refuses too.
func checkAgainstPostgres(ctx context.Context, t *rapid.T, pool *pgxpool.Pool, document string) {
	printed, fault := scanObject([]byte(document), 10)
	var length int
	err := pool.QueryRow(ctx, "SELECT octet_length($1::text::jsonb::text)", document).Scan(&length)
	var refused *pgconn.PgError
	if err != nil && !errors.As(err, &refused) {
		t.Fatalf("ask Postgres about %.200q: %v", document, err)
	}
	switch fault.problem {
	case jsonFine:
		if err != nil {
			t.Fatalf("accepted %.200q, Postgres does not: %v", document, err)
		}
		if length > printed {
			t.Fatalf("%.200q: foretold at most %d bytes, Postgres prints %d", document, printed, length)
		}
	case jsonSyntax, jsonNotUTF8, jsonNUL, jsonSurrogate:
		if err == nil {
			t.Fatalf("refused %.200q (%s), Postgres accepts it", document, fault.reason(10))
		}
	}
}

// atTheLimit is an event that is as large as the default limits allow.
func atTheLimit() Event {
	var tags []string
	for i := range 64 {
		tags = append(tags, fmt.Sprintf("%03d%s", i, strings.Repeat("é", 126))+"x")
	}
	full := func(size int) []byte {
		head, tail := `{"numbers": [1e1000, 1.5e-1000], "text": "`, `"}`
		return []byte(head + strings.Repeat("x", size-printedLength(head+tail)) + tail)
	}
	e := Event{
		Type:          strings.Repeat("t", 256),
		AggregateType: strings.Repeat("a", 256),
		AggregateID:   strings.Repeat("i", 256),
		Actor:         strings.Repeat("é", 128),
		Tags:          tags,
		Payload:       full(1 << 20),
		Metadata:      full(64 << 10),
	}
	return e
}

func printedLength(document string) int {
	printed, _ := scanObject([]byte(document), 128)
	return printed
}

func TestAppendAtTheLimits(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	campaign := strings.Repeat("c", 256)
	nested := func(depth int) []byte {
		return []byte(strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth))
	}

	t.Run("stores an event that is as large as they allow", func(t *testing.T) {
		t.Parallel()
		deep := Event{Type: "deep", Payload: nested(128), Metadata: nested(128)}
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := Append(t.Context(), tx, campaign, None, atTheLimit(), deep)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})

	for name, change := range map[string]func(*Event){
		"type":           func(e *Event) { e.Type += "t" },
		"aggregate_type": func(e *Event) { e.AggregateType += "a" },
		"aggregate_id":   func(e *Event) { e.AggregateID += "i" },
		"actor":          func(e *Event) { e.Actor += "x" },
		"tags":           func(e *Event) { e.Tags = append(e.Tags, "one more") },
		"tags[3]":        func(e *Event) { e.Tags[3] += "x" },
		"payload":        func(e *Event) { e.Payload = append([]byte(`{"more":1,`), e.Payload[1:]...) },
		"metadata":       func(e *Event) { e.Metadata = nested(129) },
	} {
		t.Run("refuses, without asking the database, one byte more of "+name, func(t *testing.T) {
			t.Parallel()
			e := atTheLimit()
			change(&e)
			_, err := Append(t.Context(), nil, campaign, Any, Event{Type: "fine"}, e)
			var invalid *InvalidEventError
			if !errors.As(err, &invalid) || invalid.Field != name || invalid.Index != 1 ||
				invalid.Campaign != campaign {
				t.Fatalf("got %v", err)
			}
			if message := err.Error(); len(message) > 600 {
				t.Errorf("a message of %d bytes: %s", len(message), message)
			}
		})
	}
}
