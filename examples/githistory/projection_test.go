package main

import (
	"testing"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projector/projectiontest"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestTheTreeProjectionKeepsThePromisesOfProjections(t *testing.T) {
	t.Parallel()
	r := newTestRepository(t)
	furnish(r)
	repo, err := openRepository(t.Context(), r.dir)
	if err != nil {
		t.Fatal(err)
	}
	translator := translator{campaigns: campaigns{repository: "r", depth: 1}}
	var events []event.Event
	for c, err := range repo.history(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		for ch, err := range c.changes {
			if err != nil {
				t.Fatal(err)
			}
			meant, err := translator.events(c, 1, ch)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range meant {
				m.event.CampaignID = m.campaign
				events = append(events, m.event)
			}
		}
	}
	loaded, err := loadProjections()
	if err != nil {
		t.Fatal(err)
	}
	for _, projection := range loaded {
		projectiontest.Run(t, pgtest.New(t), projection, events)
	}
}
