package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/lookback"
)

const (
	// verifyCampaigns is the most campaigns verified in one transaction.
	verifyCampaigns = 64

	// verifyPage is the number of campaigns listed at once.
	verifyPage = 1000
)

// ErrNotVerifiable is returned by [Projector.Verify] and the other replays for a projection whose
// rows cannot be assigned to campaigns. Its message names the remedy.
var ErrNotVerifiable = errors.New("projection cannot be verified")

// Verify is [Projector.Verify].
func (y *Replayer) Verify(ctx context.Context, r lookback.VerifyRequest) (_ lookback.VerifyReport, err error) {
	defer rows.Explain(&err, "verify projection %s", r.Projection)
	if err := validate(r); err != nil {
		return lookback.VerifyReport{}, err
	}
	v := &verification{p: y, request: r}
	if v.k, v.still, err = y.live(ctx, r.Projection); err != nil {
		return lookback.VerifyReport{}, err
	}
	if v.k.Described.Across() {
		err := v.verifyAcross(ctx)
		return v.report, err
	}
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
		err = v.findStrays(ctx)
	}
	return v.report, err
}

// live returns the named set of tables as registered, if this session may read them. still returns an
// error once the set has changed.
func (y *Replayer) live(
	ctx context.Context, name string,
) (k *registry.Projection, still func(context.Context, event.Querier) error, err error) {
	base, set := registry.Split(name)
	if y.Newest(base) == nil {
		return nil, nil, fmt.Errorf("%w: there is no projection %q here, there are %q", registry.ErrRegistered, name,
			y.Names())
	}
	row, err := y.Lookup(ctx, y.Cfg.Pool, name)
	switch {
	case err != nil:
		return nil, nil, err
	case row == nil:
		return nil, nil, fmt.Errorf("%w: it is not registered: start a worker that has it", registry.ErrRegistered)
	}
	if k = y.Set(base, set, row.Version); k == nil {
		return nil, nil, fmt.Errorf("%w: version %d of %s is registered, but this program has version %d: run the program "+
			"with version %[2]d", registry.ErrRegistered, row.Version, name, y.Newest(base).Described.Version)
	}
	still = func(ctx context.Context, db event.Querier) error {
		now, err := y.Lookup(ctx, db, name)
		switch {
		case err != nil:
			return err
		case now == nil || now.Version != row.Version || !now.RegisteredAt.Equal(row.RegisteredAt):
			return fmt.Errorf("%w: its tables were swapped or removed meanwhile: start again", registry.ErrRegistered)
		case now.State != registry.StateActive:
			return fmt.Errorf("%w: it is joining its consumer group, try again when it is active", registry.ErrRegistered)
		}
		return nil
	}
	if err := still(ctx, y.Cfg.Pool); err != nil {
		return nil, nil, err
	}
	if y.Entered.Load() {
		return k, still, nil
	}
	return k, still, registry.Readable(ctx, y.Cfg.Pool, k.Schema, row.TableNames)
}

// hold is [registry.HoldReadable]. A process that applies events to the tables runs their code in any case.
func (y *Replayer) hold(ctx context.Context, tx registry.Session, schema string, tables []string) error {
	if y.Entered.Load() {
		return nil
	}
	return registry.HoldReadable(ctx, tx, schema, tables)
}

// verification is a call of Verify.
type verification struct {
	p       *Replayer
	request lookback.VerifyRequest
	k       *registry.Projection
	still   func(context.Context, event.Querier) error

	mu     sync.Mutex
	report lookback.VerifyReport
}

// begin lists the projection's tables in the report.
func (v *verification) begin(ctx context.Context) error {
	s, err := v.p.openScratch(ctx, v.k)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	for _, t := range s.tables {
		if t.Campaign {
			v.report.Tables = append(v.report.Tables, lookback.VerifiedTable{Table: t.Name})
		} else {
			v.report.Unchecked = append(v.report.Unchecked, t.Name)
		}
	}
	if len(v.report.Tables) == 0 {
		return fmt.Errorf("%w: none of its %d tables has a column campaign_id of type text, so a campaign's rows cannot "+
			"be found: add one", ErrNotVerifiable, len(s.tables))
	}
	return nil
}

// choose passes the campaigns to verify to page.
func (v *verification) choose(ctx context.Context, page func([]string) error) error {
	if v.request.All {
		n := 0
		count := func(ids []string) error { n += len(ids); return nil }
		if err := eachPage(ctx, v.p.Cfg.Pool, count); err != nil {
			return err
		}
		v.expect(n)
		return eachPage(ctx, v.p.Cfg.Pool, page)
	}
	ids := slices.Compact(slices.Sorted(slices.Values(v.request.Campaigns)))
	if v.request.Sample > 0 {
		var err error
		if ids, err = sample(ctx, v.p.Cfg.Pool, v.request.Sample); err != nil {
			return err
		}
	}
	v.expect(len(ids))
	return page(ids)
}

func (v *verification) expect(campaigns int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Total = int64(campaigns)
}

// eachPage lists the journal's campaigns, page by page.
func eachPage(ctx context.Context, db event.Querier, page func([]string) error) error {
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

// verifyTogether verifies campaigns in one transaction. If one fails, or differs and may have
// skipped events, it verifies each campaign by itself.
func (v *verification) verifyTogether(ctx context.Context, ids []string) error {
	f, err := v.look(ctx, ids, nil)
	if err != nil {
		return err
	}
	if f.failed != nil || len(f.campaigns) > 0 {
		skipped, err := failed.Skipped(ctx, v.p.Cfg.Pool, v.request.Projection, ids)
		switch {
		case err != nil:
			return err
		case len(ids) > 1 && (f.failed != nil || len(skipped) > 0):
			for _, id := range ids {
				if err := v.verifyTogether(ctx, []string{id}); err != nil {
					return err
				}
			}
			return nil
		case len(skipped) > 0:
			if f, err = v.look(ctx, ids, skipped[ids[0]]); err != nil {
				return err
			}
		}
	}
	v.settle(f, ids)
	return nil
}

// settle adds findings to the report.
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
		v.tell(lookback.Difference{Kind: lookback.DifferenceFailed, CampaignID: ids[0], Err: f.failed})
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

func (v *verification) tell(d lookback.Difference) {
	if v.request.OnDifference != nil {
		v.request.OnDifference(d)
	}
}

// findStrays finds rows of campaigns that are not in the journal.
func (v *verification) findStrays(ctx context.Context) error {
	for _, t := range v.report.Tables {
		var campaign *string
		var row []byte
		err := pgx.BeginFunc(ctx, v.p.Cfg.Pool, func(tx pgx.Tx) error {
			if err := v.p.hold(ctx, tx, v.k.Schema, []string{t.Table}); err != nil {
				return err
			}
			return rows.Each(ctx, tx, []any{&campaign, &row}, func() {
				d := lookback.Difference{Kind: lookback.DifferenceStray, Table: t.Table, Got: slices.Clone(row)}
				if campaign != nil {
					d.CampaignID = *campaign
				}
				v.report.Strays++
				v.tell(d)
			}, "", fmt.Sprintf(formatStrays, pgx.Identifier{v.k.Schema, t.Table}.Sanitize()))
		})
		if err != nil {
			return fmt.Errorf("look for rows of unknown campaigns in %s: %w", t.Table, err)
		}
	}
	return nil
}
