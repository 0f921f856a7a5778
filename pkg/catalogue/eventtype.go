package catalogue

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// EventType describes a type of event to a [Catalogue]. Only Name or Type is required.
type EventType struct {
	Name    string           // the current name
	Type    event.Named      // an [event.Type], in place of Name: fields that its Go type lacks are mistakes
	Aliases []string         // former names; events stored under them are read under the current one
	Version int              // the current version of the payload's shape, from 1; zero: 1
	Intent  event.Intent     // what its events are for; zero: ProjectionAndReplay
	Upcast  map[int]Upcaster // from the key's version to the next one; no gap up to Version
	Schema  Schema           // what payloads of the current version must be; nil: anything

	// Subject are the fields whose value names the person that the event is about, such as "customer.id".
	// Personal are the fields that an erasure of personal data takes. A path through an array, such as
	// "guests.name", is of all its elements. "$actor", "$aggregate_id", "$tags", "$tags.KEY", "$metadata" and
	// "$metadata.FIELD" are what is beside the payload: erasures take it, nothing seals it. Both count for
	// all versions. The former names of fields that [Rename] and [Move] change are known; list those that
	// [Convert] changes.
	Subject, Personal []string
}

// catalogued is an [EventType] with its defaults filled in.
type catalogued struct {
	EventType
	given  EventType
	names  []string // the current name, then the aliases
	sealed []string // personal fields of the payload
	oldest int      // the lowest version with an unbroken chain of upcasters
}

// add adds a type and returns its mistakes.
func (c *Catalogue) add(t *EventType) (mistakes []error) {
	known := &catalogued{EventType: *t, given: *t, names: append([]string{t.Name}, t.Aliases...)}
	known.Version, known.Intent = max(t.Version, 1), cmp.Or(t.Intent, event.ProjectionAndReplay)
	known.Upcast = maps.Clone(t.Upcast)
	for _, name := range known.names {
		if err := c.free(name); err != nil {
			mistakes = append(mistakes, err)
		} else {
			c.types[name] = known
		}
	}
	if t.Version < 0 {
		mistakes = append(mistakes, fmt.Errorf("version is %d: versions count from 1", t.Version))
	}
	if !slices.Contains([]event.Intent{event.ProjectionAndReplay, event.ReplayOnly, event.AuditOnly}, known.Intent) {
		mistakes = append(mistakes, fmt.Errorf("intent is %s: it must be %s, %s or %s", text.Shortened(string(t.Intent)),
			event.ProjectionAndReplay, event.ReplayOnly, event.AuditOnly))
	}
	mistakes = append(mistakes, t.checkFields()...)
	mistakes = append(mistakes, t.checkPayload()...)
	known.Subject, known.Personal = known.withFormer(t.Subject), known.withFormer(t.Personal)
	for _, path := range known.Personal {
		if !strings.HasPrefix(path, "$") {
			known.sealed = append(known.sealed, path)
		}
	}
	return append(mistakes, known.checkUpcasters()...)
}

// free returns why a type cannot have a name.
func (c *Catalogue) free(name string) error {
	if reason := text.CheckName(name, text.MaxName); reason != "" {
		return fmt.Errorf("a name %s", reason)
	}
	if name == feed.Notice {
		return fmt.Errorf("the name %s is reserved for the notices of erasures: give the type another name", name)
	}
	if other, taken := c.types[name]; taken {
		return fmt.Errorf("the name %s belongs to %s already: a name leads to one type", text.Shortened(name),
			text.Shortened(other.Name))
	}
	return nil
}

// withoutBrackets matches what other languages write for the elements of an array.
var withoutBrackets = regexp.MustCompile(`\[[^\]]*\]?`)

// checkFields finds subject and personal fields that cannot be.
func (t *EventType) checkFields() (mistakes []error) {
	for _, path := range slices.Concat(t.Subject, t.Personal) {
		if _, err := parsePath(path); err != nil {
			mistakes = append(mistakes, err)
		} else if strings.Contains(path, "[") {
			mistakes = append(mistakes, fmt.Errorf("field %q: write %q: a path leads through all elements of an array", path,
				withoutBrackets.ReplaceAllString(path, "")))
		}
	}
	for _, path := range t.Personal {
		if err := checkPersonal(path); err != nil {
			mistakes = append(mistakes, err)
		}
	}
	return mistakes
}

// checkPersonal returns what is wrong with the path of a personal field.
func checkPersonal(path string) error {
	first, rest, more := strings.Cut(path, ".")
	switch {
	case !strings.HasPrefix(path, "$"):
	case slices.Contains([]string{"$actor", "$aggregate_id"}, path):
	case slices.Contains([]string{"$tags", "$metadata"}, first) && (!more || rest != ""):
	default:
		return fmt.Errorf("personal field %q: beside the payload there are $actor, $aggregate_id, $tags, $tags.KEY, "+
			"$metadata and $metadata.FIELD", path)
	}
	return nil
}

// withFormer returns paths, and the ones that older versions had in their place.
func (t *EventType) withFormer(paths []string) []string {
	all := slices.Clone(paths)
	for version := t.Version - 1; version > 0; version-- {
		for _, m := range slices.Backward(t.Upcast[version].moves) {
			for _, path := range slices.Clone(all) {
				former := path
				if rest, of := strings.CutPrefix(path+".", m.to+"."); of {
					former = strings.TrimSuffix(m.from+"."+rest, ".")
				} else if strings.HasPrefix(m.to, path+".") {
					former = m.from
				}
				if !slices.Contains(all, former) {
					all = append(all, former)
				}
			}
		}
	}
	return all
}

// checkUpcasters sets the oldest version that can be read, and finds upcasters that lead nowhere.
func (t *catalogued) checkUpcasters() (mistakes []error) {
	t.oldest = t.Version
	for !t.Upcast[t.oldest-1].isZero() {
		t.oldest--
	}
	for _, from := range slices.Sorted(maps.Keys(t.Upcast)) {
		switch upcaster := t.Upcast[from]; {
		case upcaster.err != nil:
			mistakes = append(mistakes, fmt.Errorf("upcaster from version %d: %w", from, upcaster.err))
		case from < 1 || from >= t.Version:
			mistakes = append(mistakes, fmt.Errorf("upcaster from version %d: upcasters start from versions below the current "+
				"one, which is %d", from, t.Version))
		case upcaster.isZero():
			mistakes = append(mistakes, fmt.Errorf("upcaster from version %d is empty: make it with Rename, Move, Default, "+
				"Remove, Chain or Convert", from))
		case from < t.oldest:
			mistakes = append(mistakes, fmt.Errorf("upcaster from version %d leads nowhere: the one from version %d is missing",
				from, t.oldest-1))
		}
	}
	return mistakes
}
