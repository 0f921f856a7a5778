package acts

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/store/pause"
)

type lasting struct {
	For time.Duration `offers:"lasting" help:"duration, such as 90s, 2h or 7d (default until it is resumed)"`
}

func (l lasting) until() string {
	if l.For == 0 {
		return "until it is resumed"
	}
	text := strings.TrimSuffix(l.For.String(), "m0s")
	if text != l.For.String() {
		text = strings.TrimSuffix(text+"m", "h0m")
		if !strings.HasSuffix(text, "m") {
			text += "h"
		}
	}
	return "for " + text
}

type oneGroup struct {
	Group string `arg:"GROUP" of:"group" help:"the consumer group"`
}

type oneProjection struct {
	Projection string `arg:"PROJECTION" of:"projection" help:"the projection"`
}

type campaignInGroup struct {
	CampaignID string `arg:"CAMPAIGN" name:"campaign" of:"campaign" help:"the campaign"`
	Group      string `of:"group" required:"true" usual:"default" help:"the consumer group"`
}

// pausable describes a kind of thing that can be paused. In names one.
type pausable[In any] struct {
	noun, title, path, example string
	stops                      string // effect of a pause, a sentence
	next                       func(in In) []string
	target                     func(ctx context.Context, tx pgx.Tx, in In) (pause.Target, error)
}

type pausing[In any] struct {
	What In
	lasting
}

func pauseActs() []*Act {
	groups := pausable[oneGroup]{
		noun: "group", title: "Group", path: "/groups/{group}", example: "search",
		stops: "Its workers finish what they have and claim no more campaigns.",
		next:  func(oneGroup) []string { return []string{"group", "list"} },
		target: func(_ context.Context, _ pgx.Tx, in oneGroup) (pause.Target, error) {
			return pause.Target{Group: in.Group}, nil
		},
	}
	projections := pausable[oneProjection]{
		noun: "projection", title: "Projection", path: "/projections/{projection}", example: "scores",
		stops: "Its events wait; other projections go on.",
		next:  func(oneProjection) []string { return []string{"projection", "list"} },
		target: func(ctx context.Context, tx pgx.Tx, in oneProjection) (pause.Target, error) {
			p, err := admin.Registered(ctx, tx, in.Projection)
			return pause.Target{Group: p.Group, Projection: in.Projection}, err
		},
	}
	campaigns := pausable[campaignInGroup]{
		noun: "campaign", title: "Campaign", path: "/campaigns/{campaign}", example: "oak",
		stops: "Its events wait in that group; other campaigns go on.",
		next:  func(in campaignInGroup) []string { return []string{"campaign", "show", in.CampaignID} },
		target: func(_ context.Context, _ pgx.Tx, in campaignInGroup) (pause.Target, error) {
			return pause.Target{Group: in.Group, CampaignID: in.CampaignID}, nil
		},
	}
	return []*Act{
		groups.pause(), groups.resume(), projections.pause(), projections.resume(), campaigns.pause(), campaigns.resume(),
	}
}

func (p pausable[In]) pause() *Act {
	return define(Act{
		Kind: admin.ActPause, Name: "pause" + p.title, Command: p.noun + " pause", Path: p.path + "/pause",
		Short: "Pause a " + p.noun,
		Long: "Pause a " + p.noun + " until it is resumed or for a time. " + p.stops + " Nothing is lost. Pausing it again " +
			"sets the new reason and end.",
		Examples: []string{
			p.noun + " pause " + p.example + " --reason 'deploy of 1.4.2'",
			p.noun + " pause " + p.example + " --for 2h --reason 'deploy of 1.4.2'",
		},
		Button: "Pause", Hint: p.stops,
	}, func(in *pausing[In], d *does) {
		d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
			target, err := p.target(ctx, tx, in.What)
			if err != nil {
				return nil, err
			}
			return pausedAt(target, in.For), pause.Set(ctx, tx, target, by.Who.Name, by.Reason, in.For)
		}
		d.Told = func(done *admin.Outcome) Told {
			return Told{fmt.Sprintf("Paused %s %s.", detail[paused](done).target(), in.until()), p.next(in.What)}
		}
	})
}

func (p pausable[In]) resume() *Act {
	return define(Act{
		Kind: admin.ActResume, Name: "resume" + p.title, Command: p.noun + " resume", Path: p.path + "/resume",
		Short:    "Resume a paused " + p.noun,
		Examples: []string{p.noun + " resume " + p.example + " --reason deployed"},
		Button:   "Resume",
	}, func(in *In, d *does) {
		d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
			target, err := p.target(ctx, tx, *in)
			if err != nil {
				return nil, err
			}
			return pausedAt(target, 0), pause.Resume(ctx, tx, target, by.Who.Name, by.Reason)
		}
		d.Told = func(done *admin.Outcome) Told {
			return Told{fmt.Sprintf("Resumed %s.", detail[paused](done).target()), []string{"lag"}}
		}
	})
}

type paused struct {
	Group      string `json:"group"`
	Projection string `json:"projection,omitempty"`
	CampaignID string `json:"campaign_id,omitempty"`
	For        string `json:"for,omitempty"` // a Go duration; "": until it is resumed
}

func pausedAt(t pause.Target, d time.Duration) paused {
	p := paused{Group: t.Group, Projection: t.Projection, CampaignID: t.CampaignID}
	if d != 0 {
		p.For = d.String()
	}
	return p
}

func (p paused) target() pause.Target {
	return pause.Target{Group: p.Group, Projection: p.Projection, CampaignID: p.CampaignID}
}
