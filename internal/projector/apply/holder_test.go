package apply

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

func TestAClaimEndsTheWorkUnderTheLeaseThatHasRunOut(t *testing.T) {
	t.Parallel()
	metrics, err := registry.NewMetrics(prometheus.NewRegistry(), nil)
	if err != nil {
		t.Fatal(err)
	}
	o := NewHolder(&registry.Base{Metrics: metrics})
	first := lease.Lease{CampaignID: "a", Generation: 1}
	dropped := 0
	o.Hold([]lease.Lease{first}, time.Now())
	o.Work([]*Unit{{Lease: first}}, func() { dropped++ })
	if fresh := o.Hold([]lease.Lease{first}, time.Now()); len(fresh) != 0 || dropped != 0 {
		t.Fatalf("the same generation again: %d to work on, %d dropped, want none", len(fresh), dropped)
	}
	fresh := o.Hold([]lease.Lease{{CampaignID: "a", Generation: 2}}, time.Now())
	if len(fresh) != 1 || dropped != 1 {
		t.Fatalf("the next generation: %d to work on, %d dropped, want 1 and 1", len(fresh), dropped)
	}
}

func TestAClaimLeavesTheWorkAloneWhoseLeaseWasGivenBack(t *testing.T) {
	t.Parallel()
	metrics, err := registry.NewMetrics(prometheus.NewRegistry(), nil)
	if err != nil {
		t.Fatal(err)
	}
	o := NewHolder(&registry.Base{Cfg: registry.Settings{LeaseTTL: time.Hour}, Metrics: metrics})
	done, next := lease.Lease{CampaignID: "a", Generation: 1}, lease.Lease{CampaignID: "b", Generation: 1}
	o.Hold([]lease.Lease{done, next}, time.Now())
	o.Work([]*Unit{{Lease: done}, {Lease: next}}, func() { t.Error("the work on what else was assigned has ended") })
	if fresh := o.Hold([]lease.Lease{{CampaignID: "a", Generation: 2}}, time.Now()); len(fresh) != 1 {
		t.Errorf("%d to work on, want 1", len(fresh))
	}
}
