package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/cli"
	"github.com/tidemark-go/tidemark/internal/progress"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// rebuildVersion changes when a field goes or changes its meaning.
const rebuildVersion = 1

// rebuildInterval is how long a wait sleeps between looks, at least: a look reads all pairs that are behind, and must not be what keeps the database busy.
const rebuildInterval = time.Second

// rebuildJSON says what was done, or how far a rebuild is.
type rebuildJSON struct {
	Version    int            `json:"version"`
	Act        string         `json:"act"` // begun, changed, paused, resumed, aborted; progress; exchanged, gone
	Projection string         `json:"projection"`
	Rebuild    *rebuildOfJSON `json:"rebuild"` // null: there is none
}

type rebuildOfJSON struct {
	FromVersion   int        `json:"from_version"`
	ToVersion     int        `json:"to_version"` // 0: not known yet
	State         string     `json:"state"`
	Paused        bool       `json:"paused"`
	MaxShare      float64    `json:"max_share"`
	AllowFailed   int64      `json:"allow_failed"`
	KeepSeconds   float64    `json:"keep_seconds"`
	VerifySample  int        `json:"verify_sample"`
	StartedAt     time.Time  `json:"started_at"`
	ActiveAt      *time.Time `json:"active_at"` // null: campaigns are still being filed
	Campaigns     int64      `json:"campaigns"`
	Events        int64      `json:"events"`
	CampaignsLeft int64      `json:"campaigns_left"`
	EventsLeft    int64      `json:"events_left"`
	EventsASecond float64    `json:"events_a_second"` // since they catch up
	SecondsLeft   *float64   `json:"seconds_left"`    // at that rate; null: nobody knows
	Failed        int64      `json:"failed"`          // campaigns, as the next
	Dead          int64      `json:"dead"`
	Refusal       string     `json:"refusal"` // why the tables were not exchanged; empty: they were not ready
}

func rebuildDocument(act, name string, all []projector.Rebuild) rebuildJSON {
	document := rebuildJSON{Version: rebuildVersion, Act: act, Projection: name}
	for _, r := range all {
		of := &rebuildOfJSON{
			FromVersion: r.FromVersion, ToVersion: r.Version, State: r.State, Paused: r.Paused, MaxShare: r.MaxShare, AllowFailed: r.AllowFailed, KeepSeconds: r.Keep.Seconds(), VerifySample: r.Verify,
			StartedAt: r.StartedAt.UTC(), ActiveAt: utc(r.ActiveAt), Campaigns: r.Campaigns, Events: r.Events, CampaignsLeft: r.Left, EventsLeft: r.LeftEvents, Failed: r.Failed, Dead: r.Dead,
			Refusal: r.Refusal,
		}
		if done := r.Events - r.LeftEvents; r.ActiveAt != nil && done > 0 {
			of.EventsASecond = float64(done) / max(r.At.Sub(*r.ActiveAt).Seconds(), 1e-3)
			left := float64(r.LeftEvents) / of.EventsASecond
			of.SecondsLeft = &left
		}
		document.Rebuild = of
	}
	return document
}

// tell says what was done.
func (r rebuild) tell(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, act, format string) error {
	if !r.asJSON {
		env.Note(format, cli.Quote(r.name))
		return nil
	}
	all, err := projector.Rebuilds(ctx, pool, r.name)
	if err != nil {
		return err
	}
	return env.PrintJSON(rebuildDocument(act, r.name, all))
}

// await shows progress until the rebuild has ended.
func (r rebuild) await(ctx context.Context, env *cli.Env, pool *pgxpool.Pool) error {
	var meter *progress.Meter
	var last projector.Rebuild
	verifies := false
	for {
		start := time.Now()
		all, err := projector.Rebuilds(ctx, pool, r.name)
		switch {
		case ctx.Err() != nil:
			return r.interrupted()
		case err != nil:
			return err
		case len(all) == 0:
			if meter != nil {
				meter.Set(last.Campaigns, last.Events)
				meter.Done()
			}
			return r.ended(ctx, env, pool, last)
		}
		now := all[0]
		switch {
		case r.asJSON:
			if err := env.PrintJSONLine(rebuildDocument("progress", r.name, all)); err != nil {
				return err
			}
		case now.ActiveAt != nil:
			if meter == nil {
				meter = progress.New(env.Err, "campaigns rebuilt", now.Campaigns)
			}
			if text := standstill(now); text != "" && text != standstill(last) {
				meter.Note(text)
			}
			if !verifies && now.State == "active" && now.Left+now.Failed+now.Dead == 0 && now.Verify > 0 && standstill(now) == "" {
				verifies = true // live events leave campaigns behind again, for a moment
				meter.Note(fmt.Sprintf("All campaigns have caught up. Before the tables are exchanged their rows are counted, and a sample of %d campaigns is verified.", now.Verify))
			}
			meter.Set(max(0, now.Campaigns-now.Left-now.Failed-now.Dead), max(0, now.Events-now.LeftEvents))
		}
		last = now
		select {
		case <-ctx.Done():
			return r.interrupted()
		case <-time.After(max(rebuildInterval, 5*time.Since(start))):
		}
	}
}

// standstill says what keeps a rebuild from its end; empty: nothing that is known.
func standstill(r projector.Rebuild) string {
	switch {
	case r.Paused:
		return "The rebuild is paused."
	case r.Refusal != "":
		return "The tables are not exchanged yet: " + r.Refusal
	case r.Failed+r.Dead > 0:
		return fmt.Sprintf("%d campaigns have failed and are tried again, %d are dead: maintenance deferred list --projection %s", r.Failed, r.Dead, cli.Quote(projector.RebuildName(r.Projection)))
	}
	return ""
}

func (r rebuild) interrupted() error {
	err := cli.Exitf(cli.ExitPartial, "interrupted: the wait, not the rebuild, which goes on by itself")
	return cli.Hint(err, "maintenance projection rebuild %s --wait", cli.Quote(r.name))
}

// ended says how a rebuild has ended that was there a moment ago.
func (r rebuild) ended(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, last projector.Rebuild) error {
	found, err := registered(ctx, pool, r.name)
	if err != nil {
		return err
	}
	act := "exchanged"
	if found.RegisteredAt.Before(last.StartedAt) {
		act = "gone" // the tables that are read are older than the rebuild
	}
	if r.asJSON {
		if err := env.PrintJSONLine(rebuildDocument(act, r.name, nil)); err != nil {
			return err
		}
	}
	if act == "gone" {
		return cli.Hint(cli.Exitf(cli.ExitConflict, "the rebuild of projection %s was aborted", r.name), "maintenance deferred log --projection %s", cli.Quote(r.name))
	}
	if !r.asJSON {
		env.Note("Projection %s is rebuilt and its tables are exchanged; to go back: maintenance projection rollback %[1]s", cli.Quote(r.name))
	}
	return nil
}
