package sqlfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// across reads a header of a projection across campaigns. They stand before the tables.
func (p *sqlParser) across(line int, header, value string) {
	if p.handler != nil || len(p.pending) > 0 {
		p.errs.add(line, "%s after the tables: it belongs to the headers at the beginning", header)
		return
	}
	spec := &p.file.spec
	switch header {
	case "scope":
		spec.Scope = projection.Scope(value)
		if spec.Scope != projection.ScopeCampaign && spec.Scope != projection.ScopeJournal {
			p.errs.add(line, "scope %q: write %s or %s", value, projection.ScopeCampaign, projection.ScopeJournal)
		}
	case "partitions":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			p.errs.add(line, "partitions %q: a whole number from 1", value)
		}
		spec.Partitions = n
	case "key":
		column, expression, _ := strings.Cut(value, "=")
		spec.KeyColumn = strings.TrimSpace(column)
		if spec.Key = keyOf(strings.TrimSpace(expression)); spec.Key == nil || !columnName.MatchString(spec.KeyColumn) {
			p.errs.add(line, "key %q: write the tables' column, = and the event's field, such as "+
				"player = event.payload->>'player', day = event.occurred_at::date or owner = event.actor", value)
		}
	}
}

var (
	columnName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)
	keyField   = regexp.MustCompile(`^event\.(campaign_id|aggregate_type|aggregate_id|actor|occurred_at::date)$`)
	keyPath    = regexp.MustCompile(`^event\.(payload|metadata)((?:\s*->\s*'[^']+')*)\s*->>\s*'([^']+)'$`)
	pathStep   = regexp.MustCompile(`'([^']+)'`)
)

// keyOf returns the function that finds an event's key as Postgres would, or nil for an expression
// that is not one of a few. Dates are those of UTC. NULL is "": the projection does not want the event.
func keyOf(expression string) func(event.Event) (string, error) {
	if m := keyField.FindStringSubmatch(expression); m != nil {
		return func(e event.Event) (string, error) {
			return map[string]string{
				"campaign_id": e.CampaignID, "aggregate_type": e.AggregateType, "aggregate_id": e.AggregateID,
				"actor": e.Actor, "occurred_at::date": e.OccurredAt.UTC().Format(time.DateOnly),
			}[m[1]], nil
		}
	}
	m := keyPath.FindStringSubmatch(expression)
	if m == nil {
		return nil
	}
	steps := slice.Of(pathStep.FindAllStringSubmatch(m[2], -1), func(step []string) string { return step[1] })
	path := append(steps, m[3])
	return func(e event.Event) (string, error) {
		value := feed.Stored(&e)
		if m[1] == "metadata" {
			value = e.Metadata
		}
		for _, name := range path {
			object := map[string]json.RawMessage{}
			if len(value) == 0 || value[0] != '{' {
				return "", nil
			}
			if err := json.Unmarshal(value, &object); err != nil {
				return "", fmt.Errorf("read the key %s: %w", expression, err)
			}
			value = object[name]
		}
		if len(value) == 0 || bytes.Equal(value, []byte("null")) {
			return "", nil
		}
		if value[0] != '"' {
			return string(value), nil
		}
		var text string
		err := json.Unmarshal(value, &text)
		return text, err
	}
}
