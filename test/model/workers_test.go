package model_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"pgregory.net/rapid"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// drain lets the steady worker do all it can.
func (m *machine) drain(r *rapid.T) {
	_, err := m.steady.Drain(m.t.Context())
	m.must(r, err)
	m.settle()
}

// shadow lets a shadow worker go through the queue. It changes nothing here.
func (m *machine) shadow(r *rapid.T) {
	_, err := m.ghost.Drain(m.t.Context())
	m.must(r, err)
}

// outage makes a worker meet an infrastructure error. Nothing is counted or put aside for it.
func (m *machine) outage(r *rapid.T) {
	call := rapid.IntRange(1, 6).Draw(r, "call") // not under the lock: drawing may end the run
	m.faults.mu.Lock()
	m.faults.outage = call
	m.faults.mu.Unlock()
	// Use a separate worker: one that gives up may leave COMMITs behind that the server still
	// executes.
	struggling := m.mortal()
	_, err := worker(m.t, config(struggling.pool, m.all, rapid.IntRange(1, 6).Draw(r, "events"))).Drain(m.t.Context())
	struggling.bury(m.t, m.pool)
	m.faults.mu.Lock()
	struck := m.faults.outage == 0
	m.faults.outage = 0
	m.faults.mu.Unlock()
	switch {
	case struck != (err != nil), err != nil && !failure.IsInfrastructure(err):
		r.Fatalf("the outage struck: %t, and the worker says: %v", struck, err)
	case !struck:
		m.settle()
	default:
		m.halfDone(r)
	}
}

func (m *machine) mortal() *mortal {
	m.mortals++
	return newMortal(m.t, m.pool.Config().ConnString(), fmt.Sprintf("mortal-%d", m.mortals))
}

// crash lets a worker die in the middle of its work. Its leases stay behind.
func (m *machine) crash(r *rapid.T) {
	step := rapid.SampledFrom(deaths()).Draw(r, "step")
	n := rapid.IntRange(1, 3).Draw(r, "time")
	dying := m.mortal()
	cfg := config(dying.pool, m.all, rapid.IntRange(1, 6).Draw(r, "events"))
	cfg.Concurrency = rapid.IntRange(1, 2).Draw(r, "workers")
	if step == answerless {
		cfg.OnStep = at(kind.StepApplied, n, dying.dieAfterNext)
	} else {
		cfg.OnStep = at(step, n, dying.die)
	}
	_, err := worker(m.t, cfg).Drain(m.t.Context())
	dying.bury(m.t, m.pool)
	if err != nil || dying.dead {
		m.halfDone(r)
		return
	}
	m.settle()
}

// twoAtOnce lets two workers compete while events are appended.
func (m *machine) twoAtOnce(r *rapid.T) {
	other := worker(m.t, config(m.pool, m.all, rapid.IntRange(1, 6).Draw(r, "events")))
	done := make(chan error, 2)
	for _, p := range []*projector.Projector{m.steady, other} {
		go func() {
			_, err := p.Drain(m.t.Context())
			done <- err
		}()
	}
	m.append(r)
	m.append(r)
	for range 2 {
		m.must(r, <-done)
	}
	m.drain(r)
}

// interrupt halts a worker for a while. Its leases expire or not, another worker runs or not, an
// operator acts or not. Then the worker continues, and its work has no effect where it was
// overtaken.
func (m *machine) interrupt(r *rapid.T) {
	step := rapid.SampledFrom([]kind.Step{
		kind.StepClaimed, kind.StepRead, kind.StepApplied,
		kind.StepDeferring, kind.StepCommitted,
	}).Draw(r, "step")
	n := rapid.IntRange(1, 3).Draw(r, "time")
	network := m.mortal()
	cfg := config(network.pool, m.all, rapid.IntRange(1, 6).Draw(r, "events"))
	cfg.Concurrency = 1
	reached, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	cfg.OnStep = at(step, n, func() {
		close(reached)
		<-goOn
	})
	slow := worker(m.t, cfg)
	go func() {
		_, err := slow.Drain(m.t.Context())
		done <- err
	}()
	release := sync.OnceValue(func() error {
		close(goOn)
		err := <-done
		network.bury(m.t, m.pool)
		return err
	})
	select {
	case err := <-done:
		network.bury(m.t, m.pool)
		m.must(r, err)
	case <-reached:
		defer func() { _ = release() }() // whatever fails
		m.meanwhile(r, step)
		err := release()
		if errors.Is(err, context.Canceled) { // it reclaimed the campaigns it halted on, and so dropped its work
			m.halfDone(r)
			m.expire(r)
			m.drain(r)
			return
		}
		m.must(r, err)
	}
	m.settle()
}

// meanwhile runs the steps that happen while a worker is halted.
func (m *machine) meanwhile(r *rapid.T, step kind.Step) {
	deleting := step == kind.StepApplied && m.beginsAnew()
	held := map[string]bool{} // by dead workers, not by the halted one
	for id, c := range m.campaigns {
		held[id] = c.held
	}
	leave := func() {
		for id, c := range m.campaigns {
			c.held = held[id]
			m.campaigns[id] = c
		}
	}
	m.halfDone(r)
	leave()
	expired := rapid.Bool().Draw(r, "leases expire")
	if expired {
		m.expire(r)
		clear(held)
	}
	// A worker that took over rows being deleted would wait until the server ends the transaction
	// of the halted worker, which never happens here.
	if rapid.Bool().Draw(r, "another comes") && (!deleting || !expired) {
		_, err := m.steady.Drain(m.t.Context())
		m.must(r, err)
		m.halfDone(r)
		leave()
	}
	if step == kind.StepDeferring {
		return // it has locked its leases, so acts on their campaigns would wait for it
	}
	switch rapid.IntRange(0, 6).Draw(r, "act") {
	case 0:
		m.append(r)
	case 1:
		m.actOnOne(r, "requeued")
	case 2:
		m.actOnOne(r, "resolved")
	case 3:
		m.actOnMany(r, "resolved")
	case 4:
		m.replay(r)
	case 5:
		m.pauseCampaign(r)
	}
}

// beginsAnew reports whether any rows must be reset before they are applied.
func (m *machine) beginsAnew() bool {
	for _, row := range m.rows {
		if row.reset {
			return true
		}
	}
	return false
}

// halfDone checks the results of unfinished workers against the possible outcomes, and adopts them.
func (m *machine) halfDone(r *rapid.T) {
	found, wrong, err := m.read(m.t.Context(), m.pool)
	m.must(r, err)
	outcomes := map[failed.Key]outcome{}
	more := m.news(found)
	for _, id := range m.ids() {
		before, now := m.campaigns[id], found.campaigns[id]
		left := slices.DeleteFunc(slices.Clone(before.outbox), func(seq int64) bool { return seq <= now.checkpoint })
		if now.checkpoint < before.checkpoint || now.checkpoint > m.goal(id) || !slices.Equal(left, now.outbox) ||
			now.paused != before.paused {
			wrong = append(wrong, fmt.Sprintf("campaign %s was %+v and has become %+v", id, before, now))
		}
		for _, projection := range projectionNames() {
			key := failed.Key{Projection: projection, CampaignID: id}
			o, ok := m.possible(key, found, more[key])
			if !ok {
				wrong = append(wrong, fmt.Sprintf("%s was %+v with %v and has become %+v with %v, and the log says %v", key,
					m.rows[key], m.trails[key], found.rows[key], found.trails[key], more[key]))
			}
			outcomes[key] = o
			delete(more, key)
		}
	}
	for key, lines := range more {
		wrong = append(wrong, fmt.Sprintf("the log says of %s: %v", key, lines))
	}
	m.complain(r, wrong)
	m.adopt(found, outcomes)
}

// possible returns the outcome that the database shows, if it is one of the possible ones.
func (m *machine) possible(key failed.Key, found *world, log []string) (outcome, bool) {
	now, checkpoint := m.unchanged(key), found.campaigns[key.CampaignID].checkpoint
	var may []outcome
	if now.row != nil || checkpoint == m.campaigns[key.CampaignID].checkpoint {
		may = append(may, now)
	}
	if m.reachable(key.CampaignID) {
		may = append(may, m.bring(key, checkpoint))
		if o, ok := m.halfway(key, found.rows[key].next); ok {
			may = append(may, o)
		}
	}
	for _, o := range may {
		row, behind := found.rows[key]
		slices.Sort(o.log)
		if behind == (o.row != nil) && (!behind || *o.row == row) && slices.Equal(o.trail, found.trails[key]) &&
			slices.Equal(o.log, log) {
			return o, true
		}
	}
	return outcome{}, false
}

// news returns the new lines of the log by key, sorted.
func (m *machine) news(found *world) map[failed.Key][]string {
	more := map[failed.Key][]string{}
	for _, text := range slices.Sorted(maps.Keys(found.log)) {
		fields := strings.Fields(text)
		for range found.log[text] - m.log[text] {
			key := failed.Key{Projection: fields[1], CampaignID: fields[2]}
			more[key] = append(more[key], text)
		}
	}
	return more
}
