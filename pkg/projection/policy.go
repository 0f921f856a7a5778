package projection

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"
)

// Action is the response to a failure that is not the infrastructure's.
type Action string

// The actions.
const (
	// the campaign is retried; it is dead after Policy.Attempts failures, or at once if the failure is permanent
	ActionRetry Action = "retry"
	ActionDead  Action = "dead" // the campaign is dead at once
	ActionSkip  Action = "skip" // the projection skips the event; the failure log and a counter record it
	// the campaign waits, and the projection pauses for all campaigns until it is resumed; nothing is ever dead
	ActionPause Action = "pause"
)

// Policy decides what to do about failures. Zero fields come from the next wider policy: event type
// ([Spec].OnFailureOf), projection ([Spec].OnFailure), the projector's Config.OnFailure, [DefaultPolicy].
type Policy struct {
	Action   Action        // default [ActionRetry]
	Attempts int           // failures at one event after which a campaign is dead; default 8
	Base     time.Duration // wait after the first failure; default 1s, at least 1ms
	Max      time.Duration // longest wait; default 5m, at least Base
	Factor   float64       // ratio of each wait to the one before; default 2, from 1 to 100
	Timeout  time.Duration // for applying one group; default: the projector's Config.ApplyTimeout
}

// DefaultPolicy returns the defaults for fields that no wider policy sets.
func DefaultPolicy() Policy {
	return Policy{Action: ActionRetry, Attempts: 8, Base: time.Second, Max: 5 * time.Minute, Factor: 2}
}

// Or returns p with its zero fields from wider.
func (p Policy) Or(wider Policy) Policy {
	return Policy{
		Action: cmp.Or(p.Action, wider.Action), Attempts: cmp.Or(p.Attempts, wider.Attempts),
		Base: cmp.Or(p.Base, wider.Base), Max: cmp.Or(p.Max, wider.Max),
		Factor: cmp.Or(p.Factor, wider.Factor), Timeout: cmp.Or(p.Timeout, wider.Timeout),
	}
}

// Validate returns the mistakes of a policy. Zero fields take the defaults.
func (p Policy) Validate() error {
	p = p.Or(DefaultPolicy())
	var errs []error
	switch p.Action {
	case ActionRetry, ActionDead, ActionSkip, ActionPause:
	default:
		errs = append(errs, fmt.Errorf("action %q: use %s, %s, %s or %s", p.Action, ActionRetry, ActionDead, ActionSkip,
			ActionPause))
	}
	if p.Attempts < 1 || p.Attempts > math.MaxInt32 {
		errs = append(errs, fmt.Errorf("attempts is %d: use 1 … %d", p.Attempts, math.MaxInt32))
	}
	if p.Base < time.Millisecond {
		errs = append(errs, fmt.Errorf("base is %v: use at least 1ms", p.Base))
	}
	if p.Max < p.Base {
		errs = append(errs, fmt.Errorf("max is %v: use at least base, which is %v", p.Max, p.Base))
	}
	if !(p.Factor >= 1 && p.Factor <= 100) { // NaN too
		errs = append(errs, fmt.Errorf("factor is %v: use 1 … 100", p.Factor))
	}
	if p.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout is %v: use a time above zero", p.Timeout))
	}
	return errors.Join(errs...)
}
