package failed

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
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

// Key is the cause's place in the order of [Causes].
func (c Cause) Key() CauseKey { return CauseKey{c.Projection, c.Fingerprint} }

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
	after := CauseKey{}
	if f.After != nil {
		after = *f.After
	}
	return rows.All(ctx, db, pgx.RowToStructByPos[Cause], "list causes of failures",
		queryCauses, f.Projection, f.Fingerprint, f.After != nil, after.Projection, after.Fingerprint,
		cmp.Or(f.Limit, listLimit), cmp.Or(f.Bound, 1000))
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

const (
	exactRows   = 5000 // counted one by one
	samplePages = 24   // read where there are more
)

// Sum is how many pairs of a projection have a status and, if they have failed, a class of error.
type Sum struct {
	Group      string // consumer group
	Projection string
	Status     Status
	Class      string // infrastructure, transient, permanent or lock; empty: unknown, or rebuilding
	Campaigns  int64
	Estimated  bool       // there are too many to count: Pairs is near
	Since      *time.Time // when the first of them failed; nil: rebuilding
}

// Report sums up all pairs, in the order of group, projection, status and class, at one moment. It
// takes no longer for ten million than for ten thousand: about 5,000 that failed and 5,000 that are
// due are counted, those of other sums are estimated from some pages of the table.
func Report(ctx context.Context, db journal.Querier) ([]Sum, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Sum], "sum up failed campaigns", queryReport, exactRows, samplePages)
}
