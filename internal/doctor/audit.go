package doctor

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const (
	logPage  = 2000 // records a statement
	logPages = 50   // pages of the newest records: bounds the check
)

// operatorLog verifies the chain of hashes through the newest records of tidemark.operator_log. It
// starts at the anchor if the log is short enough.
func operatorLog(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	var link, head int64
	var hash, end []byte
	var beside int64
	if err := tx.QueryRow(ctx, queryLogHead, logPage*logPages).Scan(&link, &hash, &head, &end, &beside); err != nil {
		return Finding{}, err
	}
	remedy := "find out who has the owner's rights: no other role can change the log; compare it with a backup"
	if beside != 0 {
		return fail(fmt.Sprintf("record %d was written without the trigger that chains it", beside),
			remedy), nil
	}
	from := link
	for link < head {
		var fault string
		before := link
		if err := tx.QueryRow(ctx, queryWalkLog, link, hash, logPage).Scan(&link, &hash, &fault); err != nil {
			return Finding{}, err
		}
		if fault == "" && link == before {
			fault = fmt.Sprintf("links %d to %d, the last, are missing", link+1, head)
		}
		if fault != "" {
			return fail(fault, remedy), nil
		}
	}
	return verdict(link == head && string(hash) == string(end), Fail,
		fmt.Sprintf("links %d to %d of the log of operators fit", from+1, head), remedy), nil
}
