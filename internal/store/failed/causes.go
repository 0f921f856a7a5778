package failed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Cause is the pairs of a projection that failed or are dead for one reason, as far as fingerprints tell.
type Cause struct {
	Projection  string
	Fingerprint string // empty: unknown
	Failed      int64  // pairs, counted up to the bound
	Dead        int64  // pairs, counted up to the bound
	About       int64  // pairs of this fingerprint in all projections, by the table's statistics; 0: they do not say

	// Of one of the pairs.
	Group         string
	Class         string
	Code          string
	Message       string
	EventType     string
	CampaignID    string
	FirstFailedAt *time.Time
	LastFailedAt  *time.Time
}

// Pairs is how many pairs were counted.
func (c Cause) Pairs() int64 { return c.Failed + c.Dead }

// CauseFilter chooses causes.
type CauseFilter struct {
	Projection  string // "": any
	Fingerprint string // "": any
	After       *CauseKey
	Limit       int // causes; 0: 100
	Bound       int // up to which pairs of each status are counted; 0: 1000
}

// CauseKey is a cause's place in the order of [Causes].
type CauseKey struct{ Projection, Fingerprint string }

// Causes answers what pairs have failed of, by projection and fingerprint, in the order of these.
// It steps from cause to cause along an index and counts each up to the bound, so that it costs no
// more when millions have failed than when thousands have.
func Causes(ctx context.Context, db journal.Querier, f CauseFilter) ([]Cause, error) {
	if f.Limit == 0 {
		f.Limit = 100
	}
	if f.Bound == 0 {
		f.Bound = 1000
	}
	after := CauseKey{}
	if f.After != nil {
		after = *f.After
	}
	return rows.All(ctx, db, pgx.RowToStructByPos[Cause], "list causes of failures",
		queryCauses, f.Projection, f.Fingerprint, f.After != nil, after.Projection, after.Fingerprint, f.Limit, f.Bound)
}

// varying matches what differs between failures of one cause.
var varying = regexp.MustCompile(`"[^"]*"|'[^']*'|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|\d+`)

// Fingerprint answers twelve hexadecimal digits that failures of one cause have in common, whatever
// the projection, the campaign and the event: those of the code and of the message without its
// numbers, UUIDs and quoted texts.
func Fingerprint(code, message string) string {
	normal := varying.ReplaceAllString(message, "?")
	sum := sha256.Sum256([]byte(code + "\x00" + normal))
	return hex.EncodeToString(sum[:6])
}

// Pattern answers a regular expression, as a filter's MessagePattern has it, for messages that
// differ from this one in numbers, UUIDs and quoted texts alone. Of a long message it has the
// beginning of the first line.
func Pattern(message string) string {
	const (
		most   = 120
		varies = `(?:"[^"]*"|'[^']*'|[0-9a-fA-F-]{36}|\d+)`
	)
	whole := true
	if i := strings.IndexAny(message, "\r\n"); i >= 0 {
		message, whole = message[:i], false
	}
	if len(message) > most {
		message, whole = strings.ToValidUTF8(message[:most], ""), false
	}
	var b strings.Builder
	b.WriteString("^")
	from := 0
	for _, at := range varying.FindAllStringIndex(message, -1) {
		b.WriteString(regexp.QuoteMeta(message[from:at[0]]) + varies)
		from = at[1]
	}
	b.WriteString(regexp.QuoteMeta(message[from:]))
	if whole {
		b.WriteString("$")
	}
	return b.String()
}
