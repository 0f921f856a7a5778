package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

const (
	// verifyCampaigns is how many campaigns are verified in one transaction, at most.
	verifyCampaigns = 64

	// verifyPage is how many campaigns are listed at once.
	verifyPage = 1000
)

// ErrNotVerifiable is returned by [Projector.Verify] and its like for a projection whose rows
// cannot be told apart by campaign; its message names the remedy.
var ErrNotVerifiable = errors.New("projection cannot be verified")

// Verify is [Projector.Verify].
func (y *Replayer) Verify(ctx context.Context, r VerifyRequest) (_ VerifyReport, err error) {
	defer rows.Explain(&err, "verify projection %s", r.Projection)
	if err := r.validate(); err != nil {
		return VerifyReport{}, err
	}
	source, err := y.live(ctx, r.Projection)
	if err != nil {
		return VerifyReport{}, err
	}
	return y.verifyAgainst(ctx, source, r)
}

// compared is what the rows that the journal makes are compared with.
type compared struct {
	k      *registry.Projection
	schema string                                                    // of the tables
	pair   string                                                    // the projection in tidemark.deferred
	still  func(ctx context.Context, db journal.Querier) (err error) // fails once that is no longer so
}

// live is the projection as it is registered, with the set of tables that goes by the name.
func (y *Replayer) live(ctx context.Context, name string) (compared, error) {
	base, set := registry.Split(name)
	if y.Newest(base) == nil {
		return compared{}, fmt.Errorf("%w: there is no projection %q here, there are %q", registry.ErrRegistered, name,
			y.Names())
	}
	row, err := y.Lookup(ctx, y.Cfg.Pool, name)
	if err != nil {
		return compared{}, err
	}
	if row == nil {
		return compared{}, fmt.Errorf("%w: it is not registered, a worker does that when it starts", registry.ErrRegistered)
	}
	k := y.Set(base, set, row.Version)
	if k == nil {
		return compared{},
			fmt.Errorf("%w: version %d of %s is registered, there is version %d here: it takes the code of version %[2]d",
				registry.ErrRegistered, row.Version, name, y.Newest(base).Described.Version)
	}
	still := func(ctx context.Context, db journal.Querier) error {
		now, err := y.Lookup(ctx, db, name)
		switch {
		case err != nil:
			return err
		case now == nil || now.Version != row.Version || !now.RegisteredAt.Equal(row.RegisteredAt):
			return fmt.Errorf("%w: its tables have been exchanged, or removed, meanwhile: begin again", registry.ErrRegistered)
		case now.State != registry.StateActive:
			return fmt.Errorf("%w: it is joining its consumer group, try again when it is active", registry.ErrRegistered)
		}
		return nil
	}
	return compared{k: k, schema: k.Schema, pair: name, still: still}, still(ctx, y.Cfg.Pool)
}

// verification is a call of Verify.
type verification struct {
	p       *Replayer
	source  compared
	request VerifyRequest

	mu     sync.Mutex
	report VerifyReport
}

func (y *Replayer) verifyAgainst(ctx context.Context, source compared, r VerifyRequest) (VerifyReport, error) {
	v := &verification{p: y, source: source, request: r}
	if err := v.begin(ctx); err != nil {
		return v.report, err
	}
	concurrency := r.Concurrency
	if concurrency < 1 {
		concurrency = y.Cfg.Concurrency
	}
	work := make(chan []string)
	g, inner := errgroup.WithContext(ctx)
	for range concurrency {
		g.Go(func() error {
			for ids := range work {
				if err := v.verifyTogether(inner, ids); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(work)
		return v.choose(inner, func(ids []string) error {
			for some := range slices.Chunk(ids, verifyCampaigns) {
				select {
				case work <- some:
				case <-inner.Done():
					return inner.Err()
				}
			}
			return nil
		})
	})
	if err := g.Wait(); err != nil {
		return v.report, err
	}
	if r.All {
		if err := v.findStrays(ctx); err != nil {
			return v.report, err
		}
	}
	return v.report, nil
}

// begin looks at the projection's tables.
func (v *verification) begin(ctx context.Context) error {
	s, err := v.p.openScratch(ctx, v.source.k)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	for _, t := range s.tables {
		if t.Campaign {
			v.report.Tables = append(v.report.Tables, VerifiedTable{Table: t.Name})
		} else {
			v.report.Unchecked = append(v.report.Unchecked, t.Name)
		}
	}
	if len(v.report.Tables) == 0 {
		return fmt.Errorf("%w: none of its %d tables has a column campaign_id of type text, so a campaign's rows cannot "+
			"be told: give them one", ErrNotVerifiable, len(s.tables))
	}
	return nil
}

// choose hands out the campaigns to verify, page by page.
func (v *verification) choose(ctx context.Context, page func([]string) error) error {
	switch {
	case len(v.request.Campaigns) > 0:
		ids := slices.Compact(slices.Sorted(slices.Values(v.request.Campaigns)))
		v.expect(int64(len(ids)))
		return page(ids)
	case v.request.Sample > 0:
		ids, err := sample(ctx, v.p.Cfg.Pool, v.request.Sample)
		if err != nil {
			return err
		}
		v.expect(int64(len(ids)))
		return page(ids)
	default:
		n := 0
		count := func(ids []string) error { n += len(ids); return nil }
		if err := eachPage(ctx, v.p.Cfg.Pool, count); err != nil {
			return err
		}
		v.expect(int64(n))
		return eachPage(ctx, v.p.Cfg.Pool, page)
	}
}

func (v *verification) expect(campaigns int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Total = campaigns
}

// eachPage lists the campaigns of the journal.
func eachPage(ctx context.Context, db journal.Querier, page func([]string) error) error {
	for after := ""; ; {
		ids, err := feed.Campaigns(ctx, db, "", after, verifyPage)
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := page(ids); err != nil {
			return err
		}
		after = ids[len(ids)-1]
	}
}

// verifyTogether verifies campaigns in one transaction, or each in its own if one of them fails.
func (v *verification) verifyTogether(ctx context.Context, ids []string) error {
	f, err := v.look(ctx, ids, nil)
	var apply *failure.ApplyError
	switch {
	case errors.As(err, &apply) && len(ids) > 1 && !v.p.Infrastructure(ctx, err):
		for _, id := range ids {
			if err := v.verifyTogether(ctx, []string{id}); err != nil {
				return err
			}
		}
		return nil
	case errors.As(err, &apply) && !v.p.Infrastructure(ctx, err):
		f.failed = apply
	case err != nil:
		return err
	}
	if f.differs() {
		return v.doubt(ctx, ids, f)
	}
	v.settle(f, ids)
	return nil
}

// doubt looks again at campaigns in which something differs, one by one: events may have been skipped in them.
func (v *verification) doubt(ctx context.Context, ids []string, f *findings) error {
	skipped, err := failed.Skipped(ctx, v.p.Cfg.Pool, v.source.pair, ids)
	if err != nil {
		return err
	}
	if len(ids) > 1 && len(skipped) > 0 {
		for _, id := range ids {
			if err := v.verifyTogether(ctx, []string{id}); err != nil {
				return err
			}
		}
		return nil
	}
	if len(skipped) > 0 {
		again, err := v.look(ctx, ids, func(_ string, seq int64) bool { return slices.Contains(skipped[ids[0]], seq) })
		var apply *failure.ApplyError
		switch {
		case errors.As(err, &apply) && !v.p.Infrastructure(ctx, err):
			again.failed = apply
		case err != nil:
			return err
		}
		f = again
	}
	v.settle(f, ids)
	return nil
}

// settle adds what was found to the report.
func (v *verification) settle(f *findings, ids []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := &v.report
	r.Campaigns += int64(len(ids)) - f.passed
	r.Skipped += f.passed
	r.Events += f.events
	r.Resolved += int64(len(f.resolutions))
	if v.request.OnResolution != nil {
		for _, one := range f.resolutions {
			v.request.OnResolution(one)
		}
	}
	if f.failed != nil {
		r.Failed++
		f.campaigns = []string{ids[0]}
		v.tell(Difference{Kind: DifferenceFailed, CampaignID: ids[0], Err: f.failed})
	}
	r.Differing += int64(len(f.campaigns))
	if v.request.OnCampaign != nil {
		for _, id := range f.campaigns {
			v.request.OnCampaign(id)
		}
	}
	for i, t := range f.tables {
		r.Tables[i].Rows += t.Rows
		r.Tables[i].Missing += t.Missing
		r.Tables[i].Extra += t.Extra
		r.Tables[i].Different += t.Different
	}
	for _, d := range f.differences {
		v.tell(d)
	}
	if v.request.OnProgress != nil {
		progress := *r
		progress.Tables = slices.Clone(r.Tables)
		v.request.OnProgress(progress)
	}
}

func (v *verification) tell(d Difference) {
	if v.request.OnDifference != nil {
		v.request.OnDifference(d)
	}
}

// findStrays looks for rows of campaigns that the journal does not have.
func (v *verification) findStrays(ctx context.Context) error {
	for _, t := range v.report.Tables {
		var campaign *string
		var row []byte
		err := rows.Each(ctx, v.p.Cfg.Pool, []any{&campaign, &row}, func() error {
			d := Difference{Kind: DifferenceStray, Table: t.Table, Got: slices.Clone(row)}
			if campaign != nil {
				d.CampaignID = *campaign
			}
			v.report.Strays++
			v.tell(d)
			return nil
		}, "", straysOf(pgx.Identifier{v.source.schema, t.Table}.Sanitize()))
		if err != nil {
			return fmt.Errorf("look for rows of unknown campaigns in %s: %w", t.Table, err)
		}
	}
	return nil
}
