package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/copies"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/keys"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/migrations"
)

const (
	checkSchema = "schema"

	oldestVersion = 150000      // of Postgres that Tidemark is tested with
	longAppend    = time.Minute // age of an open append, which all readers of the whole journal wait for
	gapsLook      = 1000        // campaigns of each group that are searched for gaps
)

// checks returns the checks that run in a transaction of the Reader, in their order. The first one
// tests the connection.
func checks() []check {
	return []check{
		{"connection", connection},
		{"recovery", recovery},
		{"encoding", encoding},
		{checkSchema, schema},
		{"extensions", extensions},
		{"row-security", rowSecurity},
		{"groups", groups},
		{"durability", durability},
		{"idle-transactions", idleTransactions},
		{"autovacuum", autovacuum},
		{"privileges", privileges},
		{"writer-floor", writerFloor},
		{"sequence", sequence},
		{"gaps", gaps},
		{"listen", listen},
		{"connections", connections},
		{"operator-log", operatorLog},
		{"archive", archives},
		{"keys", unopened},
	}
}

func connection(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	var version, product string
	var number int
	if err := tx.QueryRow(ctx, queryServer).Scan(&version, &number, &product); err != nil {
		return Finding{}, err
	}
	if !isPostgres(product) {
		return fail("the server is "+strings.TrimSpace(product)+", not Postgres",
			"use Postgres: order and exclusion rest on its sequences, snapshots and advisory locks, which others "+
				"only resemble"), nil
	}
	return verdict(number >= oldestVersion, Warn, "Postgres "+version,
		"Tidemark is tested with Postgres 15 and newer: upgrade the server"), nil
}

// isPostgres reports whether version() is of Postgres itself. Some derivatives say its name first.
func isPostgres(product string) bool {
	return strings.HasPrefix(product, "PostgreSQL ") &&
		!slices.ContainsFunc([]string{"-YB-", "Redshift", "Greenplum", "CockroachDB"}, func(other string) bool {
			return strings.Contains(product, other)
		})
}

func recovery(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	var standby, readOnly bool
	var isolation string
	if err := tx.QueryRow(ctx, queryRecovery).Scan(&standby, &readOnly, &isolation); err != nil {
		return Finding{}, err
	}
	if standby {
		return fail("the server is a read-only standby",
			"connect to the primary: several hosts in the URL and target_session_attrs=read-write find it"), nil
	}
	if isolation != "read committed" && isolation != "read uncommitted" {
		return fail("transactions are "+
			strings.ToUpper(isolation)+" by default, and sessions cannot change that through a pooler",
			"ALTER ROLE … IN DATABASE … SET default_transaction_isolation = 'read committed' for the role of the "+
				"workers"), nil
	}
	return verdict(!readOnly, Fail, fmt.Sprintf("a primary, default_transaction_read_only is %t", readOnly),
		"switch default_transaction_read_only off for this role and database"), nil
}

// encoding looks at the database's own encoding, and at settings by which Postgres would convert text on
// its way to programs that do not pin UTF8.
func encoding(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	var server string
	var everyone, appenders []string
	if err := tx.QueryRow(ctx, queryEncoding).Scan(&server, &everyone, &appenders); err != nil {
		return Finding{}, err
	}
	if server != "UTF8" {
		return fail("the database has the encoding "+server, "make a new one with CREATE DATABASE … ENCODING 'UTF8' "+
			"TEMPLATE template0: this one cannot store the text of all events"), nil
	}
	detail, status := "the database and its sessions have UTF8", OK
	if set := slices.Concat(everyone, appenders); len(set) > 0 {
		detail = "sessions get " + strings.Join(set, ", ")
		if status = Warn; len(everyone) > 0 {
			status = Fail
		}
	}
	return verdict(status == OK, status, detail, "ALTER DATABASE … or ALTER ROLE … RESET client_encoding: Tidemark's "+
		"programs ask for UTF8 themselves, and appends of other Go programs are refused unless their URL has "+
		"client_encoding=UTF8"), nil
}

func schema(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	return Finding{Status: OK, Detail: "at the version of this program"}, migrations.Check(ctx, tx)
}

func groups(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	all, err := outbox.Groups(ctx, tx)
	if err != nil {
		return Finding{}, err
	}
	if len(all) == 0 {
		return warn("none is registered: appends enqueue nothing", "start a worker, or call Register"), nil
	}
	list := slice.Of(all, func(g outbox.Group) string { return g.Name + " " + g.State })
	filing := slices.ContainsFunc(all, func(g outbox.Group) bool { return g.State == "filing" })
	return verdict(!filing, Warn, strings.Join(list, ", "),
		"a group that stays 'filing' was interrupted: start its worker, which continues"), nil
}

func durability(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	var fsync, pages bool
	var commit string
	if err := tx.QueryRow(ctx, queryDurability).Scan(&fsync, &pages, &commit); err != nil {
		return Finding{}, err
	}
	detail := fmt.Sprintf("fsync %t, full_page_writes %t, synchronous_commit %s", fsync, pages, commit)
	if !fsync || !pages {
		return fail(detail,
			"turn fsync and full_page_writes on: a crash of the machine may ruin the database"), nil
	}
	return verdict(commit != "off", Warn, detail,
		"with synchronous_commit off a crash loses the last commits: turn it on, or accept that"), nil
}

func writerFloor(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	oldest, err := feed.OldestAppend(ctx, tx)
	if err != nil {
		return Finding{}, err
	}
	detail := "no append is open"
	if oldest.Holder != "" {
		detail = fmt.Sprintf("the oldest append is open for %s: %s", oldest.Age.Round(time.Millisecond), oldest.Holder)
	}
	return verdict(oldest.Age < longAppend, Warn, detail, "end it: "+
		oldest.Remedy+"; commit soon after appending: readers of the whole journal wait for the oldest append"), nil
}

func sequence(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	var cache, least int64
	if err := tx.QueryRow(ctx, querySequence).Scan(&cache, &least); err != nil {
		return Finding{}, err
	}
	faults, err := copies.Faults(ctx, tx)
	switch {
	case err != nil:
		return Finding{}, err
	case least != 0:
		return fail(fmt.Sprintf("tidemark.journal_position has MINVALUE %d", least),
			"ALTER SEQUENCE tidemark.journal_position MINVALUE 0: the writer floor is not below the first events"), nil
	case len(faults) > 0:
		return fail(strings.Join(slice.Of(faults, copies.Fault.String), "; "),
			"stop all that append, run `tidemark copy repair`, and start them again: a copy without its sequences hands "+
				"positions and ids out twice"), nil
	}
	return verdict(cache == 1, Fail, fmt.Sprintf("tidemark.journal_position has CACHE %d", cache),
		"ALTER SEQUENCE tidemark.journal_position CACHE 1: with more, readers of the whole journal miss events"), nil
}

func gaps(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	all, err := outbox.Groups(ctx, tx)
	if err != nil {
		return Finding{}, err
	}
	found := 0
	for _, g := range all {
		some, _, err := outbox.Gaps(ctx, tx, g.Name, "", gapsLook)
		if err != nil {
			return Finding{}, err
		}
		found += len(some)
	}
	return verdict(found == 0, Warn, fmt.Sprintf("%d among the first %d campaigns of each group", found, gapsLook),
		"run `tidemark gaps repair`; a worker also repairs them when it starts"), nil
}

func listen(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	var waiting bool
	var workers int
	if err := tx.QueryRow(ctx, queryListening).Scan(&waiting, &workers); err != nil {
		return Finding{}, err
	}
	if workers == 0 {
		return warn("no worker was seen in the last 10 seconds",
			"start one, unless appends apply inline"), nil
	}
	detail := fmt.Sprintf("%d workers; one waits for NOTIFY, or has just done so", workers)
	if !waiting {
		detail = fmt.Sprintf("%d workers; none waits for NOTIFY now: they are busy, or poll "+
			"(TIDEMARK_LISTEN=false, or PgBouncer in transaction mode)", workers)
	}
	return Finding{Status: OK, Detail: detail}, nil
}

func archives(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	var requests, policies, erasures int
	if err := tx.QueryRow(ctx, queryArchives).Scan(&requests, &policies, &erasures); err != nil {
		return Finding{}, err
	}
	detail := fmt.Sprintf("%d requests for campaigns wait longer than a minute, %d policies have stopped, %d erasures "+
		"hold up archives", requests, policies, erasures)
	return verdict(requests+policies+erasures == 0, Warn, detail, "look at `tidemark campaign requests`, `tidemark "+
		"campaign policies` and `tidemark erase list`: repeat an erasure that has not ended"), nil
}

// unopened names the keys of subjects that workers and publishers could not open.
func unopened(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	const named = 5
	found, err := keys.List(ctx, tx, named+1)
	if err != nil || len(found) == 0 {
		return Finding{Status: OK, Detail: "no failure names a key of a subject that does not open"}, err
	}
	list := slice.Of(found[:min(len(found), named)], func(k keys.Unopened) string {
		return fmt.Sprintf("%s (%d failed campaigns, %d parked events, %d readers held)", k.ID, k.Failed, k.Parked, k.Held)
	})
	detail := "these keys do not open: " + strings.Join(list, ", ")
	if len(found) > named {
		detail += ", and others"
	}
	return warn(detail, "give the programs the wrapping keys that the errors name; a key that is garbage: "+
		"`tidemark keys delete ID --dry-run` (docs/guides/sealing.md)"), nil
}

func connections(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	var limit, others, workers int
	if err := tx.QueryRow(ctx, queryConnections).Scan(&limit, &others, &workers); err != nil {
		return Finding{}, err
	}
	wanted := others + workers*perWorker
	detail := fmt.Sprintf("other programs use %d of %d; %d workers may open %d", others, limit, workers, workers*perWorker)
	return verdict(wanted*10 < limit*9, Warn, detail,
		"raise max_connections, lower the pools, or use PgBouncer: see docs/guides/operations/sizing.md"), nil
}

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
	remedy := "find who has the owner's rights: no other role can change the log; compare it with a backup"
	if beside != 0 {
		return fail(fmt.Sprintf("record %d is not in the chain: it was written without the trigger that chains it, or a "+
			"session holds the row of tidemark.operator_log_head", beside),
			"end transactions that are idle (the check idle-transactions names them); "+remedy), nil
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
