package appends

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
)

const (
	untaggedCalls = 4000 // timed, on each side
	untaggedTurn  = 10   // consecutive calls on one side
	untaggedWarm  = 200  // turns of both sides before timing starts

	appendSource = `SELECT pg_get_functiondef('tidemark.append(text, jsonb, bigint)'::regprocedure) || ';' ||
		pg_get_functiondef('tidemark.append_rows'::regproc)`
	callAppend = `SELECT seq FROM tidemark.append($1, $2::jsonb, NULL)`
	callBare   = `SELECT seq FROM tidemark.append_bare($1, $2::jsonb, NULL)`

	lockUntagged = `tidemark.lock_untagged(p_campaign_id, one ->> 'type')`
	lockCampaign = `tidemark.lock_campaign(p_campaign_id)`

	// Time the function and the round trips, not the disk.
	noFlush = `SET synchronous_commit = off`
)

// conditionParts are the parts of tidemark.append that serve conditions, and their replacements
// without them.
var conditionParts = []struct {
	part *regexp.Regexp
	left string
}{
	{regexp.MustCompile(`FUNCTION tidemark\.append\(`), `FUNCTION tidemark.append_bare(`},
	{regexp.MustCompile(`one \?\| '\{tags,id\}'`), `one ? 'id'`},
	{regexp.MustCompile(`FUNCTION tidemark\.append_rows\(`), `FUNCTION tidemark.append_rows_bare(`},
	{
		regexp.MustCompile(`(?s)    IF jsonb_path_exists\(p_events, '\$\[\*\]\.tags\[\*\]'\) THEN\n        taken := .*?    END IF;\n`),
		"    taken := tidemark.lock_campaign(p_campaign_id);\n",
	},
	{regexp.MustCompile(`(?s)    IF jsonb_path_exists\(p_events, '\$\[\*\]\.tags\[\*\]'\) THEN\n        INSERT INTO tidemark\.event_tags .*?    END IF;\n`), ``},
}

// bareAppend returns the source of tidemark.append without its parts for conditions.
func bareAppend(source string) (string, error) {
	for _, p := range conditionParts {
		if len(p.part.FindAllString(source, 2)) != 1 {
			return "", fmt.Errorf("tidemark.append has not exactly one part that looks like %s: bring bench/untagged.go up "+
				"to date", p.part)
		}
		source = p.part.ReplaceAllLiteralString(source, p.left)
	}
	source = strings.ReplaceAll(source, `FROM tidemark.append_rows(`, `FROM tidemark.append_rows_bare(`)
	return strings.ReplaceAll(source, lockUntagged, lockCampaign), nil
}

// untagged times calls of both functions on one connection, in alternating short series. It returns
// the median of each in milliseconds.
func untagged(ctx context.Context, db *harness.Database, perCall, calls int) (with, without float64, err error) {
	conn, err := db.Connect(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var source string
	if err := conn.QueryRow(ctx, appendSource).Scan(&source); err != nil {
		return 0, 0, fmt.Errorf("read the source of tidemark.append: %w", err)
	}
	bare, err := bareAppend(source)
	if err != nil {
		return 0, 0, err
	}
	for _, statement := range []string{bare, noFlush} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return 0, 0, fmt.Errorf("make tidemark.append without its parts for conditions: %w", err)
		}
	}
	payload, err := harness.DamagePayload(1)
	if err != nil {
		return 0, 0, err
	}
	type event struct {
		Type    string          `json:"type"`
		Payload json.RawMessage `json:"payload"`
	}
	events := make([]event, perCall)
	for i := range events {
		events[i] = event{harness.EventType, payload}
	}
	document, err := json.Marshal(events)
	if err != nil {
		return 0, 0, fmt.Errorf("encode events: %w", err)
	}
	statements := [2]string{callAppend, callBare}
	var times [2]harness.Samples
	for turn := range untaggedWarm + 2*calls/untaggedTurn {
		side := turn % 2
		if turn/2%2 == 1 {
			side = 1 - side // A B B A: neither always comes first
		}
		for n := range untaggedTurn {
			campaign := harness.CampaignID((turn*untaggedTurn + n) % harness.AppendCampaigns)
			begin := time.Now()
			err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, statements[side], campaign, string(document))
				return err
			})
			if err != nil {
				return 0, 0, fmt.Errorf("append: %w", err)
			}
			if turn >= untaggedWarm {
				times[side] = append(times[side], float64(time.Since(begin).Nanoseconds())/1e6)
			}
		}
	}
	return times[0].Median(), times[1].Median(), nil
}

// MeasureUntagged measures the cost of conditions for appends without tags while no condition is in
// use.
func MeasureUntagged(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	template, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))

	var figures []harness.Figure
	for _, f := range []struct {
		name    string
		perCall int
		calls   int
	}{
		{"condition_unused_one", 1, untaggedCalls},
		{"condition_unused_twenty", 20, untaggedCalls},
	} {
		var with, without harness.Samples
		for round := range b.Rounds {
			db, err := b.Server.Clone(ctx, template.Name)
			if err != nil {
				return nil, err
			}
			one, other, err := untagged(ctx, db, f.perCall, b.Scaled(f.calls))
			if dropErr := db.Drop(context.WithoutCancel(ctx)); err == nil {
				err = dropErr
			}
			if err != nil {
				return nil, err
			}
			b.Logf("round %d  %d a call: %.4f ms, and %.4f ms without the parts for conditions", round+1, f.perCall, one, other)
			with, without = append(with, one), append(without, other)
		}
		figures = append(figures, harness.AtMost(1.03, harness.Figure{
			Name: f.name, Value: with.Median(), Unit: "ms", Ratio: with.Over(without),
			To: fmt.Sprintf("tidemark.append without its parts for conditions, %d events without tags, one client", f.perCall),
		}))
	}
	return figures, nil
}
