// Package doctor finds what is wrong with a database as a home for Tidemark, and what to do about
// it. It changes nothing, and each query is bounded in time.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/migrations"
)

// Status is the result of a check.
type Status string

// The statuses.
const (
	OK   Status = "ok"
	Warn Status = "warn" // works, but may not for long
	Fail Status = "fail" // does not work
)

// Finding is the outcome of one check. Detail tells what was found. Remedy tells what to do; it is
// empty if there is nothing to do.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy"`
}

// Options holds what only the caller knows.
type Options struct {
	Mode     string        // of the caller's settings; empty: unknown
	ModeFrom string        // the switches behind Mode, or why there is none
	Timeout  time.Duration // of each query; default 2s
}

// check is one look at the database. look returns an error if it could not look.
type check struct {
	name string
	look func(context.Context, pgx.Tx, Options) (Finding, error)
}

// Run runs all checks, each in its own read-only transaction, and returns the findings in a fixed
// order. A check that takes too long or lacks a privilege becomes a finding. If the server is not
// Postgres or the schema does not fit, the later checks do not run. Run returns an error, and the
// findings so far, if there is no connection or ctx ends.
func Run(ctx context.Context, pool *pgxpool.Pool, opts Options) ([]Finding, error) {
	opts.Timeout = cmp.Or(opts.Timeout, 2*time.Second)
	findings := []Finding{mode(opts)}
	reader := &status.Reader{Pool: pool, Timeout: opts.Timeout}
	for i, c := range checks() {
		var f Finding
		err := reader.Within(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			f, err = c.look(ctx, tx, opts)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return findings, ctx.Err()
		case err != nil && i == 0:
			return findings, fmt.Errorf("doctor: %w", err)
		case errors.Is(err, migrations.ErrUnversioned):
			f = fail(err.Error(), "restore public.goose_db_version too")
		case err != nil && c.name == checkSchema:
			f = fail(err.Error(), "run `tidemark migrate up`, or use the program of the schema's version")
		case err != nil:
			f = warn(fmt.Sprintf("could not look: %v", err), "look again when the server is less busy, or as a role that may "+
				"read the schema tidemark and pg_stat_activity")
		}
		f.Check = c.name
		findings = append(findings, f)
		if (i == 0 || c.name == checkSchema) && f.Status == Fail {
			return findings, nil // the other checks need Postgres and the schema
		}
		if i == 0 {
			f := pooler(ctx, pool, opts.Timeout) // before the other checks, which may fail because of it
			f.Check = "pooler"
			findings = append(findings, f)
		}
	}
	for _, c := range standings() {
		s, err := reader.Read(ctx, c.sections...)
		if err != nil {
			return findings, fmt.Errorf("doctor: %w", err)
		}
		findings = append(findings, c.found(s.Problems()))
	}
	return append(findings, poolSize(pool)), nil
}

// standing is a check of sections of the status.
type standing struct {
	name     string
	critical Status // for critical problems
	sections []status.Section
}

func standings() []standing {
	return []standing{
		{"projections", Warn, []status.Section{status.SectionFailed, status.SectionPauses, status.SectionRebuilds}},
		{"programs", Warn, []status.Section{status.SectionWorkers}},
		{"publishers", Warn, []status.Section{status.SectionPublishers}},
		{"postgres", Fail, []status.Section{status.SectionPostgres}},
	}
}

// found turns problems into one finding. Notes do not change its status.
func (c standing) found(problems []status.Problem) Finding {
	f := Finding{Check: c.name, Status: OK, Detail: "no problem"}
	var details, remedies []string
	for _, p := range problems {
		details = append(details, p.Where+": "+p.What)
		switch {
		case p.Severity == status.Note:
			continue
		case p.Severity == status.Critical && c.critical == Fail:
			f.Status = Fail
		case f.Status == OK:
			f.Status = Warn
		}
		remedies = append(remedies, p.Do)
	}
	if len(details) > 0 {
		f.Detail, f.Remedy = strings.Join(details, ". "), strings.Join(slices.Compact(remedies), ". ")
	}
	return f
}

func mode(opts Options) Finding {
	f := Finding{Check: "mode", Status: OK, Detail: opts.Mode + ": " + opts.ModeFrom}
	if opts.Mode == "" {
		f.Status, f.Detail, f.Remedy = Warn, "the switches do not resolve to a mode: "+opts.ModeFrom,
			"see docs/guides/modes.md for the switches that go together"
	}
	return f
}

func poolSize(pool *pgxpool.Pool) Finding {
	f := Finding{Check: "pool", Status: OK, Detail: fmt.Sprintf("up to %d connections", pool.Config().MaxConns)}
	if pool.Config().MaxConns < 4 {
		f.Status, f.Remedy = Warn, "a worker needs its concurrency and three more: raise pool_max_conns in the URL"
	}
	return f
}

func warn(detail, remedy string) Finding {
	return Finding{Status: Warn, Detail: detail, Remedy: remedy}
}

func fail(detail, remedy string) Finding {
	return Finding{Status: Fail, Detail: detail, Remedy: remedy}
}

func verdict(good bool, bad Status, detail, remedy string) Finding {
	if good {
		return Finding{Status: OK, Detail: detail}
	}
	return Finding{Status: bad, Detail: detail, Remedy: remedy}
}

// Worst returns the worst status of the findings.
func Worst(findings []Finding) Status {
	worst := OK
	for _, f := range findings {
		if f.Status == Fail || f.Status == Warn && worst == OK {
			worst = f.Status
		}
	}
	return worst
}
