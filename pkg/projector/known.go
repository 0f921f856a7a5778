package projector

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// known is a projection that this worker has.
type known struct {
	Projection
	spec  Spec
	types map[string]bool // with their aliases; nil: all
}

func index(projections []Projection, catalogue *journal.Catalogue) ([]*known, map[string]*known, error) {
	var list []*known
	var errs []error
	byName := map[string]*known{}
	for _, p := range projections {
		k := &known{Projection: p, spec: p.Spec()}
		if err := k.spec.validate(); err != nil {
			errs = append(errs, err)
			continue
		}
		if byName[k.spec.Name] != nil {
			errs = append(errs, fmt.Errorf("projection %s: there are two of this name", k.spec.Name))
			continue
		}
		if k.spec.Types != nil {
			k.types = make(map[string]bool, len(k.spec.Types))
			for _, t := range k.spec.Types {
				for _, name := range catalogue.Names(t) {
					k.types[name] = true
				}
			}
		}
		list, byName[k.spec.Name] = append(list, k), k
	}
	return list, byName, errors.Join(errs...)
}

// wants says whether the event is for the projection.
func (k *known) wants(e *journal.Event) bool {
	return e.Intent == journal.ProjectionAndReplay && (k.types == nil || k.types[e.Type])
}

func (k *known) origin(e journal.Event) origin {
	return origin{projection: k.spec.Name, campaignID: e.CampaignID, seq: e.Seq, eventType: e.Type}
}

// load and apply call the projection and make an error of a panic.
func (p *Projector) load(ctx context.Context, k *known, g *Group) (err error) {
	l, ok := k.Projection.(Loader)
	if !ok {
		return nil
	}
	return guarded(k, g, func() error { return l.Load(ctx, g) })
}

func (p *Projector) apply(ctx context.Context, k *known, g *Group) error {
	return guarded(k, g, func() error { return k.Apply(ctx, g) })
}

func guarded(k *known, g *Group, call func() error) (err error) {
	g.pipeline.at = origin{projection: k.spec.Name}
	defer func() {
		if r := recover(); r != nil {
			err = g.pipeline.at.wrap(&PanicError{Value: r, Stack: string(debug.Stack())})
		}
		g.pipeline.at = origin{}
	}()
	err = call()
	var apply *ApplyError
	if err == nil || errors.As(err, &apply) {
		return err
	}
	return g.pipeline.at.wrap(err)
}

// PanicError is the error of a projection that panicked.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
