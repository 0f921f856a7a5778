// Package doctor looks at a database and says what is wrong with it as a home for Tidemark, and
// what to do. It changes nothing, and each query is bounded in time.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/status"
)

// Status is how a check went.
type Status string

// The statuses.
const (
	OK   Status = "ok"
	Warn Status = "warn" // works, and may not for long
	Fail Status = "fail" // does not work
)

// Finding is the outcome of one check. Detail says what was found, Remedy what to do; it is empty
// where there is nothing to do.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy"`
}

// Options says what the caller knows.
type Options struct {
	Mode     string        // that its settings resolve to; empty: unknown
	ModeFrom string        // where it came from
	Timeout  time.Duration // of each query; default 2s
}

// check is one look at the database. It returns what it found, or that it could not look.
type check struct {
	name string
	look func(context.Context, pgx.Tx, Options) (Finding, error)
}

// Run runs all checks, each in a read-only transaction of its own, and answers their findings in a
// fixed order. A check that cannot look, because it takes too long or lacks a privilege, is a
// finding. The error says that there is no connection, or that ctx has ended; the findings so far
// come with it.
func Run(ctx context.Context, pool *pgxpool.Pool, opts Options) ([]Finding, error) {
	if opts.Timeout == 0 {
		opts.Timeout = 2 * time.Second
	}
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
		case err != nil && c.name == checkSchema:
			f = fail(err.Error(), "run `tidemark migrate up`, or use the program of the schema's version")
		case err != nil:
			f = warn(fmt.Sprintf("could not look: %v", err), "look again when the server is less busy, or as a role that may "+
				"read the schema tidemark and pg_stat_activity")
		}
		f.Check = c.name
		findings = append(findings, f)
		if (i == 0 || c.name == checkSchema) && f.Status == Fail {
			return findings, nil // the others ask Postgres, and read the schema's tables
		}
		if i == 0 {
			f := pooler(ctx, pool, opts.Timeout) // what follows may fail for that
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

// standing is a check that says what is wrong by sections of the status.
type standing struct {
	name     string
	critical Status // what a critical problem is
	sections []status.Section
}

func standings() []standing {
	return []standing{
		{"projections", Warn, []status.Section{status.SectionDeferred, status.SectionPauses, status.SectionRebuilds}},
		{"programs", Warn, []status.Section{status.SectionWorkers}},
		{"publishers", Warn, []status.Section{status.SectionPublishers}},
		{"postgres", Fail, []status.Section{status.SectionPostgres}},
	}
}

// found sums problems up. Notes are well.
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

// verdict is ok where good holds, and otherwise bad with the remedy.
func verdict(good bool, bad Status, detail, remedy string) Finding {
	if good {
		return Finding{Status: OK, Detail: detail}
	}
	return Finding{Status: bad, Detail: detail, Remedy: remedy}
}

// Worst is the worst status of the findings.
func Worst(findings []Finding) Status {
	worst := OK
	for _, f := range findings {
		if f.Status == Fail || f.Status == Warn && worst == OK {
			worst = f.Status
		}
	}
	return worst
}
