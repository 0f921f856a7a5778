package ndjson

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// reserved reports whether an append would refuse the event's type or a key of its metadata.
func (e entry) reserved() bool {
	if e.event.Type == feed.Notice {
		return true
	}
	if !bytes.Contains(e.event.Metadata, []byte("$")) && !bytes.Contains(e.event.Metadata, []byte(`\`)) {
		return false
	}
	var metadata map[string]json.RawMessage
	if json.Unmarshal(e.event.Metadata, &metadata) != nil {
		return false
	}
	_, erased := metadata["$erased"]
	_, archived := metadata["$archived"]
	return erased || archived
}

// appendErased appends batches with erased events or their notices.
func appendErased(ctx context.Context, tx pgx.Tx, batches []journal.Batch) ([]journal.Appended, error) {
	type document struct {
		Campaign string          `json:"campaign_id"`
		Events   json.RawMessage `json:"events"`
	}
	all := make([]document, len(batches))
	for i, b := range batches {
		events, err := journal.Journal{}.Encode(ctx, nil, b.CampaignID, b.Events)
		if err != nil {
			return nil, err
		}
		all[i] = document{b.CampaignID, json.RawMessage(events)}
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, queryImportErased, string(encoded))
	if err != nil {
		return nil, err
	}
	places, err := pgx.CollectRows(rows, pgx.RowToStructByPos[journal.Appended])
	const insufficientPrivilege = "42501"
	if server, ok := errors.AsType[*pgconn.PgError](err); ok && server.Code == insufficientPrivilege {
		err = fmt.Errorf("lines of erased events need the owner of the schema tidemark, or a member of it: %w", err)
	}
	return places, err
}
