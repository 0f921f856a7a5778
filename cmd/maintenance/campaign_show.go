package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/cli"
	"github.com/tidemark-go/tidemark/pkg/deferred"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lease"
	"github.com/tidemark-go/tidemark/pkg/outbox"
	"github.com/tidemark-go/tidemark/pkg/pause"
)

const (
	// campaignVersion changes when a field goes or changes its meaning.
	campaignVersion = 1

	// campaignRecords is how much of the log is shown, campaignPairs how many projections.
	campaignRecords = 10
	campaignPairs   = 1000

	// similarCampaigns is how many ids are named where there is no such campaign.
	similarCampaigns = 5
)

// campaignJSON is what a person on call needs to know of a campaign.
type campaignJSON struct {
	Version    int              `json:"version"`
	CampaignID string           `json:"campaign_id"`
	Head       headJSON         `json:"head"`
	Groups     []standingJSON   `json:"groups"`
	Pairs      []pairJSON       `json:"pairs"`       // projections that are behind
	Pauses     []pauseJSON      `json:"pauses"`      // that concern it
	Resolved   []resolutionJSON `json:"resolutions"` // events that are left out of a projection
	History    []recordJSON     `json:"history"`
	pairs      []deferred.Pair  // as the tables show them
	pauses     []pause.Pause
	history    []deferred.Record
	resolved   []deferred.Resolution
}

// headJSON is the last event of the campaign.
type headJSON struct {
	Seq        int64     `json:"seq"`
	Position   int64     `json:"position"`
	Type       string    `json:"type"`
	RecordedAt time.Time `json:"recorded_at"`
}

// standingJSON is where a consumer group stands.
type standingJSON struct {
	Group      string     `json:"group"`
	Checkpoint int64      `json:"checkpoint"`
	Behind     int64      `json:"behind"` // events
	Lease      *leaseJSON `json:"lease"`  // null: no worker has ever had it
}

type leaseJSON struct {
	Held       bool       `json:"held"`
	Owner      string     `json:"owner"`
	Host       *string    `json:"host"` // null: the owner has left no record
	PID        *int       `json:"pid"`
	Generation int64      `json:"generation"`
	ExpiresAt  *time.Time `json:"expires_at"` // null: given back, or where it is held without an end
}

func newCampaignShow(env *cli.Env) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:     "show CAMPAIGN",
		Short:   "Show how it stands with one campaign: head, checkpoints, leases, what is behind, pauses, the last failures",
		Example: `  maintenance campaign show oak`,
		Args:    oneName("campaign"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				document, err := readCampaign(ctx, pool, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(document)
				}
				return printCampaign(env, document)
			})
		},
	}
	command.ValidArgsFunction = env.CompleteOne(campaignIDs)
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

// noSuchCampaign says that no event has ever been appended to it, and which ids begin most like it.
func noSuchCampaign(ctx context.Context, pool *pgxpool.Pool, campaignID string) error {
	err := fmt.Errorf("no campaign %q: it has no event; ids are told apart to the letter", campaignID)
	for prefix := []rune(campaignID); ; prefix = prefix[:len(prefix)/2] {
		near, failure := journal.Campaigns(ctx, pool, string(prefix), similarCampaigns)
		switch {
		case failure != nil:
			return errors.Join(err, failure)
		case len(near) > 0:
			return cli.Hint(fmt.Errorf("%w; there are %s", err, strings.Join(near, ", ")), "maintenance campaign show %s", cli.Quote(near[0]))
		case len(prefix) == 0:
			return fmt.Errorf("%w; the journal has no event at all", err)
		}
	}
}

func readCampaign(ctx context.Context, pool *pgxpool.Pool, campaignID string) (*campaignJSON, error) {
	head, err := journal.Last(ctx, pool, campaignID)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, noSuchCampaign(ctx, pool, campaignID)
	}
	if err != nil {
		return nil, err
	}
	d := &campaignJSON{
		Version: campaignVersion, CampaignID: campaignID,
		Head: headJSON{Seq: head.Seq, Position: head.Position, Type: head.Type, RecordedAt: head.RecordedAt.UTC()},
	}
	if d.Groups, err = readStandings(ctx, pool, campaignID, head.Seq); err != nil {
		return nil, err
	}
	if d.pairs, err = deferred.List(ctx, pool, deferred.Filter{CampaignID: campaignID, Limit: campaignPairs}); err != nil {
		return nil, err
	}
	pauses, err := pause.List(ctx, pool, "")
	if err != nil {
		return nil, err
	}
	for _, p := range pauses {
		if p.CampaignID == "" || p.CampaignID == campaignID {
			d.pauses = append(d.pauses, p)
		}
	}
	if d.resolved, err = deferred.Resolutions(ctx, pool, deferred.ResolutionFilter{CampaignID: campaignID}); err != nil {
		return nil, err
	}
	d.Resolved = resolutionDocuments(d.resolved)
	if d.history, err = deferred.History(ctx, pool, deferred.LogFilter{CampaignID: campaignID, Limit: campaignRecords}); err != nil {
		return nil, err
	}
	d.Pairs, d.Pauses, d.History = pairDocuments(d.pairs), pauseDocuments(d.pauses), recordDocuments(d.history)
	return d, nil
}

func readStandings(ctx context.Context, pool *pgxpool.Pool, campaignID string, head int64) ([]standingJSON, error) {
	groups, err := outbox.Groups(ctx, pool)
	if err != nil {
		return nil, err
	}
	places, err := lease.Places(ctx, pool, campaignID)
	if err != nil {
		return nil, err
	}
	standings := []standingJSON{}
	for _, g := range groups {
		s := standingJSON{Group: g.Name, Behind: head}
		for _, p := range places {
			if p.Group == g.Name {
				s.Checkpoint, s.Behind = p.Checkpoint, max(0, head-p.Checkpoint)
				s.Lease = &leaseJSON{Held: p.Held, Owner: p.Owner, Host: present(p.Host), PID: present(p.PID), Generation: p.Generation, ExpiresAt: utc(p.ExpiresAt)}
			}
		}
		standings = append(standings, s)
	}
	return standings, nil
}

func printCampaign(env *cli.Env, d *campaignJSON) error {
	page := &cli.Page{Env: env}
	page.Facts(
		cli.Fact{Name: "campaign", Value: d.CampaignID},
		cli.Fact{Name: "head", Value: fmt.Sprintf("event %d, %s, recorded %s, position %d", d.Head.Seq, d.Head.Type, stamp(&d.Head.RecordedAt), d.Head.Position)},
	)
	if len(d.Groups) > 0 {
		var rows [][]cli.Cell
		for _, s := range d.Groups {
			rows = append(rows, []cli.Cell{cli.Text(s.Group), cli.Number(s.Checkpoint, cli.Plain), cli.Number(s.Behind, cli.Warning), leaseCell(s.Lease)})
		}
		page.Heading("Consumer groups")
		page.Table([]string{"GROUP", "CHECKPOINT", "BEHIND", "LEASE"}, rows)
	}
	if len(d.pairs) > 0 {
		page.Heading("Projections that are behind")
		page.Table(pairColumns(), pairRows(d.pairs))
	}
	if len(d.pauses) > 0 {
		page.Heading("Paused")
		page.Table(pauseColumns(), pauseRows(d.pauses))
	}
	if len(d.resolved) > 0 {
		page.Heading("Left out")
		page.Table(resolutionColumns(), resolutionRows(d.resolved))
	}
	if len(d.history) > 0 {
		page.Heading("Log")
		page.Table(recordColumns(), recordRows(d.history))
	}
	return page.Err()
}

func leaseCell(l *leaseJSON) cli.Cell {
	switch {
	case l == nil:
		return cli.Cell{Text: "never claimed", Tone: cli.Faint}
	case !l.Held && l.ExpiresAt == nil:
		return cli.Cell{Text: fmt.Sprintf("free, generation %d", l.Generation), Tone: cli.Faint}
	}
	owner := l.Owner
	if l.Host != nil && l.PID != nil {
		owner += fmt.Sprintf(" (%s, pid %d)", *l.Host, *l.PID)
	}
	switch {
	case !l.Held:
		return cli.Cell{Text: fmt.Sprintf("expired %s, was %s, generation %d", stamp(l.ExpiresAt), owner, l.Generation), Tone: cli.Warning}
	case l.ExpiresAt == nil:
		return cli.Text(fmt.Sprintf("%s, generation %d", owner, l.Generation))
	default:
		return cli.Text(fmt.Sprintf("%s, generation %d, until %s", owner, l.Generation, stamp(l.ExpiresAt)))
	}
}
