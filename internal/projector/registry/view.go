package registry

import (
	"slices"
	"time"
)

// View is the registry as this worker uses it: the sets of tables that it must apply.
type View struct {
	Registry    []Registered
	Rows        map[string]*Registered
	Projections []*Projection // in the order in which they are applied
	Names       []string      // sets whose failed campaigns this worker retries, except
	Rebuilding  []string      // those being rebuilt
	Ahead       bool          // live work may reach events that are left out
	Across      []*Projection // sets of projections across campaigns
}

// View returns the view of a registry, or the previous view if nothing has changed.
func (b *Base) View(registry []Registered) *View {
	if old := b.Seen.Load(); old != nil && slices.EqualFunc(old.Registry, registry, Registered.same) {
		return old
	}
	v := &View{Registry: registry, Rows: make(map[string]*Registered, len(registry))}
	for i := range registry {
		v.Rows[registry[i].Name] = &registry[i]
		v.Ahead = v.Ahead || registry[i].ResolvedAhead
	}
	for _, k := range b.Sets {
		r := v.Rows[k.Name]
		if k.Described.Across() {
			if r != nil && r.Version == k.Described.Version && r.ConsumerGroup == b.Cfg.ConsumerGroup &&
				r.State == StateActive {
				v.Across = append(v.Across, k)
			}
			continue
		}
		if r == nil || r.Version != k.Described.Version || r.ConsumerGroup != b.Cfg.ConsumerGroup ||
			r.State == StateRequested {
			k.Call.Store(nil) // its function is gone or has moved
			k.uncallable.Store(false)
			continue
		}
		v.Projections = append(v.Projections, k)
		if r.State != StateActive {
			continue
		}
		if _, set := Split(k.Name); set == NextTables {
			v.Rebuilding = append(v.Rebuilding, k.Name)
		} else {
			v.Names = append(v.Names, k.Name)
		}
	}
	b.Seen.Store(v)
	return v
}

// Building returns the sets of tables that are being built and apply events.
func (v *View) Building() (building []*Projection) {
	for _, k := range slices.Concat(v.Projections, v.Across) {
		if _, set := Split(k.Name); set == NextTables && v.Rows[k.Name].State == StateActive {
			building = append(building, k)
		}
	}
	return building
}

// Projection returns the projection of a registered name, in the registered version, or nil.
func (v *View) Projection(name string) *Projection {
	for _, k := range v.Projections {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// Registered is a row of tidemark.projections.
type Registered struct {
	Name          string
	Version       int
	State         string
	ConsumerGroup string
	SchemaName    string
	TableNames    []string
	Paused        bool
	RegisteredAt  time.Time
	ResolvedAhead bool // live work may reach events that are left out
	Across        bool // it sees the events of all campaigns, in the order of position
}

// Moves reports whether the projection moves with its group, if a worker has this version.
func (r *Registered) Moves() bool {
	return r.State == StateActive && !r.Paused
}

func (r Registered) same(other Registered) bool {
	return r.Name == other.Name && r.Version == other.Version && r.State == other.State &&
		r.ConsumerGroup == other.ConsumerGroup && r.SchemaName == other.SchemaName &&
		r.Paused == other.Paused && r.ResolvedAhead == other.ResolvedAhead && r.RegisteredAt.Equal(other.RegisteredAt) &&
		slices.Equal(r.TableNames, other.TableNames)
}
