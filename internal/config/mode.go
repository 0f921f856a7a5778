package config

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-go/tidemark/pkg/projector"
)

// The variables that resolve to a mode.
const (
	envOutbox = "TIDEMARK_PROJECTION_APPLY_OUTBOX_ENABLED"
	envShadow = "TIDEMARK_PROJECTION_APPLY_OUTBOX_SHADOW_WORKER_ENABLED"
	envWorker = "TIDEMARK_PROJECTION_APPLY_OUTBOX_WORKER_ENABLED"
)

// Outbox holds the switches that resolve to a mode.
type Outbox struct {
	Enabled bool   // appends enqueue
	Shadow  bool   // a shadow worker runs
	Worker  string // an apply worker runs: "true", "false" or "auto" (if the outbox is on and the shadow worker off)

	from map[string]string // by variable: its source
}

// Mode is the mode that an [Outbox] resolves to.
type Mode struct {
	Mode    projector.Mode
	Warning string // a switch that has no effect; empty: none
	From    string // the switches and their sources, for people
}

// OutboxSwitches binds the switches of o.
func OutboxSwitches(s *Set, o *Outbox) {
	s.Bool(&o.Enabled, envOutbox, true,
		"appends enqueue work for the consumer group; off: they apply its projections inline")
	s.Bool(&o.Shadow, envShadow, false, "apply and roll back, to see what would happen")
	same := func(text string) string { return text }
	add(s, &o.Worker, envWorker, "auto",
		"apply what is enqueued, true or false; auto: unless the outbox is off or the shadow worker is on", same,
		func(text string) (string, error) {
			if text == "auto" {
				return text, nil
			}
			b, err := strconv.ParseBool(text)
			if err != nil {
				return "", errors.New("is none of true, false, auto")
			}
			return strconv.FormatBool(b), nil
		})
	s.flags.Lookup(flagOf(envWorker)).NoOptDefVal = "true"
	o.from = s.from
}

// Mode resolves the switches. Both kinds of worker need the outbox. An apply worker takes precedence
// over a shadow worker.
func (o Outbox) Mode() (Mode, error) {
	worker := o.Worker == "true" || o.Worker != "false" && o.Enabled && !o.Shadow
	m := Mode{From: o.origin(worker)}
	if !o.Enabled {
		var errs []error
		if worker {
			errs = append(errs,
				fmt.Errorf("%s is true and %s is false: the apply worker needs the outbox, without which nothing is enqueued; "+
					"turn the outbox on, or the worker off", envWorker, envOutbox))
		}
		if o.Shadow {
			errs = append(errs,
				fmt.Errorf("%s is true and %s is false: the shadow worker needs the outbox, without which nothing is enqueued; "+
					"turn the outbox on, or the shadow worker off", envShadow, envOutbox))
		}
		m.Mode = projector.ModeInlineApplyOnly
		return m, errors.Join(errs...)
	}
	switch {
	case worker:
		m.Mode = projector.ModeOutboxApplyOnly
		if o.Shadow {
			m.Warning = fmt.Sprintf("%s has no effect beside %s: the apply worker takes precedence", envShadow, envWorker)
		}
	case o.Shadow:
		m.Mode = projector.ModeShadowOnly
	default:
		m.Mode = projector.ModeEnqueueOnly
	}
	return m, nil
}

func (o Outbox) origin(worker bool) string {
	parts := make([]string, 0, 3)
	for _, s := range []struct {
		name  string
		value bool
	}{{envOutbox, o.Enabled}, {envWorker, worker}, {envShadow, o.Shadow}} {
		parts = append(parts, fmt.Sprintf("%s=%t (%s)", s.name, s.value, cmp.Or(o.from[s.name], "default")))
	}
	return strings.Join(parts, ", ")
}
