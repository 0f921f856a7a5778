package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// gone is the key under which the trigger records the event that deleted the row.
const gone = ""

// Why is [Projector.Why].
func (y *Replayer) Why(ctx context.Context, r lookback.WhyRequest) (why lookback.Why, err error) {
	defer rows.Explain(&err, "why a row of projection %s, campaign %q, is as it is", r.Projection, r.CampaignID)
	err = y.travel(ctx, r.Projection, r.CampaignID, func(s *scratch, to func(int64) error) error {
		t, match, err := s.find(r)
		if err != nil {
			return err
		}
		if r.Seq == 0 {
			r.Seq = s.head
		}
		if s.skips { // trace applies events without the policy, so it must know which ones fail
			skipped, err := y.skippedByPolicy(ctx, r)
			if err != nil {
				return err
			}
			s.leaveOutSkipped(skipped)
			s.skips = false
		}
		if err := s.trace(ctx, t, match); err != nil {
			return err
		}
		if err := to(r.Seq); err != nil {
			return err
		}
		why, err = s.traced(ctx, t, match)
		why.Projection, why.CampaignID, why.Seq = r.Projection, r.CampaignID, r.Seq
		if err != nil {
			return err
		}
		return explain(&why, s.event(ctx, r.CampaignID))
	}, r.Seq)
	return why, err
}

// skippedByPolicy returns the events that the projection's policy skips, up to r.Seq, by campaign or key.
func (y *Replayer) skippedByPolicy(ctx context.Context, r lookback.WhyRequest) (all map[string][]int64, err error) {
	err = y.travel(ctx, r.Projection, r.CampaignID, func(s *scratch, to func(int64) error) error {
		s.tracing = true // from the first event on
		err := to(r.Seq)
		all = s.skipped
		return err
	}, r.Seq)
	return all, err
}

// find returns the requested table and a condition on the row, which is named %s.
func (s *scratch) find(r lookback.WhyRequest) (scratchTable, string, error) {
	i := slices.IndexFunc(s.tables, func(t scratchTable) bool {
		return t.Name == r.Table || r.Table == "" && len(s.tables) == 1
	})
	if i < 0 {
		names := slice.Of(s.tables, func(t scratchTable) string { return t.Name })
		return scratchTable{}, "", fmt.Errorf("%w: there is no table %q, there are %q", ErrNotVerifiable, r.Table, names)
	}
	t := s.tables[i]
	if len(t.Key) == 0 {
		return t, "", fmt.Errorf("%w: table %s has no primary key, so a row cannot be followed: add one",
			ErrNotVerifiable, t.Name)
	}
	columns := slices.Clone(t.Key)
	if r.CampaignID != "" {
		columns = slices.DeleteFunc(columns, func(column string) bool { return column == t.Owner })
	}
	if len(columns) == 0 && len(r.Key) > 0 {
		return t, "", fmt.Errorf("the key has %d values %q, but table %s has one row a %s: leave the key out",
			len(r.Key), r.Key, t.Name, s.unit())
	}
	if len(columns) != len(r.Key) {
		return t, "", fmt.Errorf("the key has %d values %q: name the values of %q, the primary key of %s", len(r.Key), r.Key,
			columns, t.Name)
	}
	all := []string{"true"}
	if len(columns) < len(t.Key) {
		all = append(all, "%[1]s."+strings.ReplaceAll(pgx.Identifier{t.Owner}.Sanitize(), "%", "%%")+"::text = "+
			escaped(r.CampaignID))
	}
	for i, column := range columns {
		name := strings.ReplaceAll(pgx.Identifier{column}.Sanitize(), "%", "%%")
		all = append(all, fmt.Sprintf("%[1]s IN (%%[1]s.%[2]s::text, to_jsonb(%%[1]s.%[2]s) #>> '{}')", escaped(r.Key[i]),
			name))
	}
	return t, strings.Join(all, " AND "), nil
}

// escaped quotes a literal for use in a format.
func escaped(s string) string {
	return strings.ReplaceAll("E"+kind.Literal(strings.ReplaceAll(s, `\`, `\\`)), "%", "%%")
}

// trace installs a trigger that records which event changes which column of the row. The record is
// a setting, since extra rows would get in the way.
func (s *scratch) trace(ctx context.Context, t scratchTable, match string) error {
	s.tracing = true
	function := s.table("tidemark_trace")
	return rows.Do(ctx, s.Conn, "", fmt.Sprintf(formatTrace,
		function, fmt.Sprintf(match, "OLD"), fmt.Sprintf(match, "NEW"), s.table(t.Name)), pgx.QueryExecModeSimpleProtocol)
}

// traced reads the row and the trigger's record. The events hold only their seq so far.
func (s *scratch) traced(ctx context.Context, t scratchTable, match string) (lookback.Why, error) {
	why := lookback.Why{Table: t.Name}
	var noted, row []byte
	if err := s.Conn.QueryRow(ctx, queryTraced).Scan(&noted); err != nil {
		return why, err
	}
	var seqs map[string]int64
	if err := json.Unmarshal(noted, &seqs); err != nil {
		return why, err
	}
	err := s.Conn.QueryRow(ctx, fmt.Sprintf(formatRow, s.table(t.Name),
		fmt.Sprintf(match, "t"))).Scan(&row)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		if seq, ok := seqs[gone]; ok {
			why.Gone = &event.Event{Seq: seq}
		}
		return why, nil
	case err != nil:
		return why, err
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(row, &values); err != nil {
		return why, err
	}
	key := map[string]json.RawMessage{}
	for _, column := range t.Key {
		key[column] = values[column]
	}
	if why.Key, err = json.Marshal(key); err != nil {
		return why, err
	}
	why.Row = row
	for _, column := range t.Columns {
		why.Causes = append(why.Causes, lookback.Cause{
			Column: column, Value: values[column], Event: event.Event{Seq: seqs[column]},
		})
	}
	return why, nil
}

// explain reads the events by get.
func explain(w *lookback.Why, get func(seq int64) (event.Event, error)) (err error) {
	events := map[int64]event.Event{}
	read := func(e *event.Event) error {
		found, ok := events[e.Seq]
		if !ok {
			if found, err = get(e.Seq); err != nil {
				return err
			}
			events[e.Seq] = found
		}
		*e = found
		return nil
	}
	for i := range w.Causes {
		if err := read(&w.Causes[i].Event); err != nil {
			return err
		}
	}
	if w.Gone != nil {
		return read(w.Gone)
	}
	return nil
}

// applyTraced applies events one by one, and names each to the database before its statements.
func (s *scratch) applyTraced(ctx context.Context, events kind.Events) error {
	_, loads := s.k.Projection.(projection.Loader)
	for i := range events.All {
		e := &events.All[i]
		g := kind.NewGroup(events.Part(i, i+1), s.k.Name, "", s.Pipeline)
		s.At = s.k.Origin(*e)
		s.Queue(queryTracing, strconv.FormatInt(s.place(e), 10))
		if loads {
			if err := s.Applier.Load(ctx, s.k, g); err != nil {
				return err
			}
			if err := s.Flush(ctx); err != nil {
				return err
			}
		}
		if err := s.Applier.Apply(ctx, s.k, g); err != nil {
			return err
		}
	}
	return s.Flush(ctx)
}
