package doctor

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/lease"
)

// liveFor is how long ago a worker may have been seen: workers say once a second that they live.
const liveFor = 10 * time.Second

// programs names the groups whose workers do not have the same projections.
func programs(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	workers, err := lease.Workers(ctx, tx)
	if err != nil {
		return Finding{}, err
	}
	var now time.Time
	if err := tx.QueryRow(ctx, queryNow).Scan(&now); err != nil {
		return Finding{}, err
	}
	var live []lease.Worker
	for _, w := range workers {
		if now.Sub(w.SeenAt) < liveFor {
			live = append(live, w)
		}
	}
	mixtures := lease.Mixtures(live)
	if len(mixtures) == 0 {
		return Finding{Status: OK, Detail: "the workers of each group have the same projections"}, nil
	}
	var details []string
	lasting := false
	for _, m := range mixtures {
		detail := "group " + m.Group + ": " + m.String()
		if m.Upgrade(now) {
			detail += " (for less than ten minutes, as during a rolling upgrade)"
		}
		lasting = lasting || !m.Upgrade(now)
		details = append(details, detail)
	}
	return verdict(!lasting, Warn, strings.Join(details, ". "), mixtures[0].Remedy()), nil
}
