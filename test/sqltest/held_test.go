package sqltest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const (
	heldCampaigns = 1000
	heldDead      = 200_000 // work items, 200 of each campaign
	heldVersions  = 100     // of each lease that is claimed
	heldSeq       = heldDead / heldCampaigns
)

// fillHeld gives each campaign a lease at its checkpoint, and the last 64 one more event.
const fillHeld = `
	INSERT INTO tidemark.leases SELECT 'g', 'c' || c, 'w', 1, '-infinity', %[1]d FROM generate_series(1, %[2]d) AS c;
	INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload,
		payload_bytes, occurred_at, recorded_at)
	SELECT 'c' || c, %[1]d + 1, nextval('tidemark.journal_position'), md5(c::text)::uuid, 'noted', 1,
		'projection_and_replay', '{"a": 1}', 20, now(), now() FROM generate_series(%[2]d - 63, %[2]d) AS c;
	INSERT INTO tidemark.outbox SELECT 'g', campaign_id, seq, now(), 1 FROM tidemark.journal;`

// dieHeld deletes the work items of %[1]d events of each campaign, and updates the leases with work
// %[3]d times.
const dieHeld = `
	DO $$ BEGIN
		FOR s IN 1..%[1]d LOOP
			INSERT INTO tidemark.outbox SELECT 'g', 'c' || c, s, now(), 1 FROM generate_series(1, %[2]d) AS c;
		END LOOP;
		COMMIT;
		DELETE FROM tidemark.outbox WHERE seq <= %[1]d;
		COMMIT;
		FOR v IN 1..%[3]d LOOP
			UPDATE tidemark.leases l SET owner = 'w' || v FROM tidemark.outbox o WHERE l.campaign_id = o.campaign_id;
			COMMIT;
		END LOOP;
	END $$`

// TestASnapshotThatKeepsDeadRowsDoesNotMakeClaimsDearer compares statements before and after many
// rows have died that an open snapshot still sees.
func TestASnapshotThatKeepsDeadRowsDoesNotMakeClaimsDearer(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := open(t, url)
	exec := func(conn *pgx.Conn, statement string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	exec(s.Conn, "ALTER TABLE tidemark.leases SET (autovacuum_enabled = false)")
	exec(s.Conn, "ALTER TABLE tidemark.outbox SET (autovacuum_enabled = false)")
	exec(s.Conn, fmt.Sprintf(fillHeld, heldSeq, heldCampaigns))
	exec(s.Conn, "VACUUM ANALYZE tidemark.leases")
	var ids []string
	var from, upTo []int64
	var leases []lease.Lease
	var steps []lease.Step
	for c := heldCampaigns - group + 1; c <= heldCampaigns; c++ {
		id := fmt.Sprint("c", c)
		ids, from, upTo = append(ids, id), append(from, heldSeq), append(upTo, heldSeq+1)
		leases = append(leases, lease.Lease{CampaignID: id, Generation: 2})
		steps = append(steps, lease.Step{CampaignID: id, Generation: 2, From: heldSeq, To: heldSeq + 1, Release: true})
	}
	k := lease.Keeper{Group: "g", Owner: "w", TTL: time.Minute}
	var met int64
	claims := map[string]call{
		"claim around": func(t *testing.T, tx pgx.Tx, _ int) error {
			claimed, err := k.Claim(t.Context(), tx, "", group+1, 0)
			met = claimed.Dead
			return enough(err, len(claimed.Leases), group)
		},
		"claim recent": func(t *testing.T, tx pgx.Tx, _ int) error {
			claimed, err := k.ClaimRecent(t.Context(), tx, lease.Recent{}, group+1, 0)
			return enough(err, len(claimed.Leases), group)
		},
	}
	after := map[string]func(tx pgx.Tx) error{ // what follows a claim
		"complete": func(tx pgx.Tx) error {
			batch := &pgx.Batch{}
			outbox.Complete(batch, "g", ids, from, upTo)
			return tx.SendBatch(t.Context(), batch).Close()
		},
		"complete one": func(tx pgx.Tx) error {
			batch := &pgx.Batch{}
			outbox.Complete(batch, "g", ids[:1], from[:1], upTo[:1])
			return tx.SendBatch(t.Context(), batch).Close()
		},
		"advance": func(tx pgx.Tx) error {
			batch := &pgx.Batch{}
			k.Advance(batch, steps)
			return tx.SendBatch(t.Context(), batch).Close()
		},
		"advance one": func(tx pgx.Tx) error {
			batch := &pgx.Batch{}
			k.Advance(batch, steps[:1])
			return tx.SendBatch(t.Context(), batch).Close()
		},
		"renew": func(tx pgx.Tx) error {
			held, err := k.Renew(t.Context(), tx, leases)
			return enough(err, len(held), group)
		},
	}
	measure := func() map[string]cost {
		costs := map[string]cost{}
		for name, call := range claims {
			costs[name] = s.settled(t, func(tx pgx.Tx) error { return call(t, tx, 0) })
		}
		for name, call := range after {
			costs[name] = s.settled(t, func(tx pgx.Tx) error {
				if _, err := tx.Exec(t.Context(), `SET LOCAL auto_explain.log_min_duration = -1`); err != nil {
					return err
				}
				if _, err := k.ClaimRecent(t.Context(), tx, lease.Recent{}, group, 0); err != nil {
					return err
				}
				if _, err := tx.Exec(t.Context(), `SET LOCAL auto_explain.log_min_duration = 0`); err != nil {
					return err
				}
				return call(tx)
			})
		}
		return costs
	}
	base := measure()
	if met > 2*group {
		t.Errorf("a claim without dead rows says that it has met %d entries", met)
	}
	holder, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Close(context.WithoutCancel(t.Context())) }()
	exec(holder, "BEGIN ISOLATION LEVEL REPEATABLE READ")
	exec(holder, "SELECT pg_current_xact_id()")
	exec(s.Conn, fmt.Sprintf(dieHeld, heldSeq, heldCampaigns, heldVersions))

	for name, c := range measure() {
		t.Logf("%-14s %6d blocks, without dead rows %4d", name, c.Blocks, base[name].Blocks)
		// A new version of a lease that has left its page checks all entries of the lease in the unique index.
		updates := 0
		if name != "complete" && name != "complete one" {
			updates = group * heldVersions
		}
		if limit := 2*base[name].Blocks + updates; name != "claim around" && c.Blocks > limit {
			t.Errorf("%s touches %d blocks, without dead rows %d", name, c.Blocks, base[name].Blocks)
		}
		for _, plan := range c.plans {
			for _, n := range plan.all() {
				if n.Index == "leases_pkey" && n.Loops > 0 && float64(n.Hit+n.Read) > 8*n.Loops {
					t.Errorf("%s: %.0f probes of leases touch %d blocks", name, n.Loops, n.Hit+n.Read)
				}
			}
		}
	}
	if met < heldDead {
		t.Errorf("a claim around %d dead rows says that it has met %d entries", heldDead, met)
	}
}
