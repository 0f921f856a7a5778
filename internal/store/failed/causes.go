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
	"github.com/tidemark-go/tidemark/pkg/event"
)

// CauseBound is how many campaigns of a cause are counted in each status. It is also in queryCauses.
const CauseBound = 100

// Cause groups the failed and dead campaigns of a projection that share a fingerprint.
type Cause struct {
	Projection  string
	Fingerprint string // empty: unknown
	Failed      int64  // campaigns, counted up to CauseBound
	Dead        int64  // campaigns, counted up to CauseBound

	// Taken from one of the campaigns.
	Group      string
	Class      string
	Code       string
	Message    string
	EventType  string
	CampaignID string

	// The first and the last failure of the campaigns that are counted.
	FirstFailedAt *time.Time
	LastFailedAt  *time.Time
}

// Key returns the cause's place in the order of [Causes].
func (c Cause) Key() CauseKey { return CauseKey{c.Projection, c.Fingerprint} }

// CauseFilter chooses causes.
type CauseFilter struct {
	Projection  string // "": any
	Fingerprint string // "": any
	After       *CauseKey
	Limit       int // causes; 0: 100
}

// CauseKey is a cause's place in the order of [Causes].
type CauseKey struct{ Projection, Fingerprint string }

// Causes returns the causes of failures, ordered by projection and fingerprint. It steps along an
// index and counts each cause up to CauseBound, so millions of failures cost no more than thousands.
func Causes(ctx context.Context, db event.Querier, f CauseFilter) ([]Cause, error) {
	limit := cmp.Or(f.Limit, listLimit)
	var found []Cause
	for {
		after := CauseKey{}
		if f.After != nil {
			after = *f.After
		}
		page, err := rows.All(ctx, db, pgx.RowToStructByPos[Cause], "list causes of failures",
			queryCauses, f.Projection, f.Fingerprint, f.After != nil, after.Projection, after.Fingerprint, limit)
		if err != nil {
			return nil, err
		}
		for _, c := range page {
			if f.Projection != "" || !Replaced(c.Projection) {
				found = append(found, c)
			}
		}
		if len(page) < limit || len(found) >= limit {
			return found[:min(len(found), limit)], nil
		}
		last := page[len(page)-1].Key()
		f.After = &last
	}
}

// varying matches the parts of a message that differ between failures of one cause.
var varying = regexp.MustCompile(`"[^"]*"|'[^']*'|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|\d+`)

// Fingerprint returns twelve hexadecimal digits that all failures of one cause share. It hashes the
// code and the message without numbers, UUIDs and quoted texts; projection, campaign and event do
// not matter.
func Fingerprint(code, message string) string {
	normal := varying.ReplaceAllString(message, "?")
	sum := sha256.Sum256([]byte(code + "\x00" + normal))
	return hex.EncodeToString(sum[:6])
}

const (
	exactRows   = 5000 // counted exactly
	samplePages = 24   // pages read beyond that
)

// Sum counts the campaigns of a projection by status and, if they failed, by class of error.
type Sum struct {
	Group      string // consumer group
	Projection string
	Status     Status
	Class      string // infrastructure, transient, permanent or lock; empty: unknown, or catching up
	Campaigns  int64
	Estimated  bool       // too many to count: Campaigns is approximate
	Since      *time.Time // when the first of them failed; nil: catching up
}

// Report sums up all failed campaigns as of one moment, ordered by group, projection, status and
// class. About 5,000 failed and 5,000 due campaigns are counted. Other sums are estimated from some
// pages of the table, so ten million rows take no longer than ten thousand.
func Report(ctx context.Context, db event.Querier) ([]Sum, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Sum], "sum up failed campaigns", queryReport, exactRows, samplePages)
}
