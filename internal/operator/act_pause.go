package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/store/pause"
)

// lasting is how long something is paused.
type lasting struct {
	For time.Duration `offers:"lasting" help:"how long, such as 90s, 2h or 7d (default until it is resumed)"`
}

// until says how long it is.
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
	Group      string `of:"group" required:"true" usual:"default" help:"the consumer group that it concerns"`
}

// pausable is a noun whose things can be paused; In has its name.
type pausable[In any] struct {
	noun, title, path, example string
	stops                      string // what stops
	next                       func(in In) []string
	target                     func(ctx context.Context, acts *admin.Acts, in In) (pause.Target, error)
}

// pausing is the input of a pause of what In names.
type pausing[In any] struct {
	What In
	lasting
}

func pauseActs() []*Act {
	groups := pausable[oneGroup]{
		noun: "group", title: "Group", path: "/groups/{group}", example: "search",
		stops: "Its workers finish what they have and claim no more campaigns.",
		next:  func(oneGroup) []string { return []string{"group", "list"} },
		target: func(_ context.Context, _ *admin.Acts, in oneGroup) (pause.Target, error) {
			return pause.Target{Group: in.Group}, nil
		},
	}
	projections := pausable[oneProjection]{
		noun: "projection", title: "Projection", path: "/projections/{projection}", example: "scores",
		stops: "Its events wait; other projections go on.",
		next:  func(oneProjection) []string { return []string{"projection", "list"} },
		target: func(ctx context.Context, acts *admin.Acts, in oneProjection) (pause.Target, error) {
			group, err := acts.GroupOf(ctx, in.Projection)
			return pause.Target{Group: group, Projection: in.Projection}, err
		},
	}
	campaigns := pausable[campaignInGroup]{
		noun: "campaign", title: "Campaign", path: "/campaigns/{campaign}", example: "oak",
		stops: "Its events wait in that group; other campaigns go on.",
		next:  func(in campaignInGroup) []string { return []string{"campaign", "show", in.CampaignID} },
		target: func(_ context.Context, _ *admin.Acts, in campaignInGroup) (pause.Target, error) {
			return pause.Target{Group: in.Group, CampaignID: in.CampaignID}, nil
		},
	}
	return []*Act{
		groups.pause(), groups.resume(), projections.pause(), projections.resume(), campaigns.pause(), campaigns.resume(),
	}
}

func (p pausable[In]) pause() *Act {
	return act(Act{
		Kind: admin.ActPause, Name: "pause" + p.title, Command: p.noun + " pause", Path: p.path + "/pause",
		Short: "Stop a " + p.noun + " until it is resumed, or for a time",
		Long: "Stop a " + p.noun + " until it is resumed, or for a time. " + p.stops + " Nothing is lost. Paused again, it " +
			"gets the new reason and the new end.",
		Examples: []string{
			p.noun + " pause " + p.example + " --reason 'deploy of 1.4.2'",
			p.noun + " pause " + p.example + " --for 2h --reason 'deploy of 1.4.2'",
		},
		Button: "Pause", Hint: p.stops,
	}, does[*pausing[In]]{
		Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *pausing[In]) (*admin.Outcome, error) {
			target, err := p.target(ctx, acts, in.What)
			if err != nil {
				return nil, err
			}
			return acts.Pause(ctx, by, target, in.For)
		},
		Told: func(in *pausing[In], done *admin.Outcome) Told {
			return Told{fmt.Sprintf("Paused %s %s.", targetOf(done), in.until()), p.next(in.What)}
		},
	})
}

func (p pausable[In]) resume() *Act {
	return act(Act{
		Kind: admin.ActResume, Name: "resume" + p.title, Command: p.noun + " resume", Path: p.path + "/resume",
		Short:    "Let a " + p.noun + " that was paused go on",
		Examples: []string{p.noun + " resume " + p.example + " --reason deployed"},
		Button:   "Resume",
	}, does[*In]{
		Do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in *In) (*admin.Outcome, error) {
			target, err := p.target(ctx, acts, *in)
			if err != nil {
				return nil, err
			}
			return acts.Resume(ctx, by, target)
		},
		Told: func(_ *In, done *admin.Outcome) Told {
			return Told{fmt.Sprintf("Resumed %s.", targetOf(done)), []string{"lag", "--watch"}}
		},
	})
}

// targetOf is what an outcome says was paused or resumed.
func targetOf(done *admin.Outcome) pause.Target {
	return detail[pause.Target](done)
}
