package projector

import "slices"

// view is what the registry means to this worker: which sets of tables of its projections it has to keep.
type view struct {
	registry    []registered
	rows        map[string]*registered
	projections []*known // in the order in which they are applied
	names       []string // of those whose pairs this worker brings forward, but for
	rebuilding  []string // those that are being rebuilt
	ahead       bool     // events may be left out that live work comes to
}

// view makes the view of a registry; it is the one before as long as nothing has changed.
func (b *base) view(registry []registered) *view {
	if old := b.seen.Load(); old != nil && slices.EqualFunc(old.registry, registry, registered.same) {
		return old
	}
	v := &view{registry: registry, rows: make(map[string]*registered, len(registry))}
	for i := range registry {
		v.rows[registry[i].Name] = &registry[i]
		v.ahead = v.ahead || registry[i].ResolvedAhead
	}
	for _, k := range b.sets {
		r := v.rows[k.name]
		if r == nil || r.Version != k.spec.Version || r.ConsumerGroup != b.cfg.ConsumerGroup || r.State == stateRequested {
			k.call.Store(nil) // its function is gone, or not in its place
			k.uncallable.Store(false)
			continue
		}
		v.projections = append(v.projections, k)
		if r.State != stateActive {
			continue
		}
		if _, set := split(k.name); set == nextTables {
			v.rebuilding = append(v.rebuilding, k.name)
		} else {
			v.names = append(v.names, k.name)
		}
	}
	b.seen.Store(v)
	return v
}

// known answers the projection that is registered under a name, in the version registered; nil if this worker has none.
func (v *view) known(name string) *known {
	for _, k := range v.projections {
		if k.name == name {
			return k
		}
	}
	return nil
}
