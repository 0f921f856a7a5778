package journal

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// EventType describes a type of event to a [Catalogue]. Only Name is required.
type EventType struct {
	Name    string           // the current name
	Aliases []string         // former names; events stored under them are read under the current one
	Version int              // the current version of the payload's shape, from 1; zero: 1
	Intent  event.Intent     // what its events are for; zero: ProjectionAndReplay
	Upcast  map[int]Upcaster // from the key's version to the next one; no gap up to Version
	Schema  json.RawMessage  // a JSON Schema for payloads of the current version; nil: none

	// Subject are the fields whose value names the person that the event is about, such as "customer.id".
	// Personal are the fields that an erasure of personal data takes. A path through an array, such as
	// "guests.name", is of all its elements. "$actor", "$aggregate_id", "$tags", "$tags.KEY", "$metadata" and
	// "$metadata.FIELD" are what is beside the payload: erasures take it, nothing seals it. Both count for
	// all versions. The former names of fields that steps of YAML rename or move are known; list those that
	// upcasters in Go change.
	Subject, Personal []string

	moves map[int][]move // that steps of YAML make, by version, in order
}

// move is a field that gets another name or place.
type move struct{ from, to string }

// withFormer returns paths, and the ones that older versions had in their place.
func (t *EventType) withFormer(paths []string) []string {
	all := slices.Clone(paths)
	for version := t.Version - 1; version > 0; version-- {
		for _, m := range slices.Backward(t.moves[version]) {
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

// Catalogue lists the event types: their current names, versions and shapes. Append fills in
// defaults and refuses events by it; readers get old events in their current shape. It is immutable
// and safe for concurrent use. A nil Catalogue has no types and accepts all.
type Catalogue struct {
	types         map[string]*catalogued // by current name and by alias
	refuseUnknown bool
	sealer        *Sealer // nil: none
}

// withoutBrackets matches what other languages write for the elements of an array.
var withoutBrackets = regexp.MustCompile(`\[[^\]]*\]?`)

// catalogued is an [EventType] with its defaults filled in and its schema compiled.
type catalogued struct {
	EventType
	names  []string           // the current name, then the aliases
	sealed []string           // personal fields of the payload
	oldest int                // the lowest version with an unbroken chain of upcasters
	schema *jsonschema.Schema // nil: none
}

// NewCatalogue returns a catalogue of types. The error reports every mistake in them. Append
// accepts types that are not in it; see [Catalogue.RefuseUnknown].
func NewCatalogue(types ...EventType) (*Catalogue, error) {
	c, err := catalogueOf(types)
	inCatalogue(&err)
	return c, err
}

// inCatalogue says that an error is about a catalogue.
func inCatalogue(err *error) {
	if *err != nil {
		*err = fmt.Errorf("event catalogue: %w", *err)
	}
}

func catalogueOf(types []EventType) (*Catalogue, error) {
	c := &Catalogue{types: make(map[string]*catalogued, len(types))}
	var mistakes []error
	for i := range types {
		for _, mistake := range c.add(&types[i]) {
			mistakes = append(mistakes, fmt.Errorf("event type %s: %w", text.Shortened(types[i].Name), mistake))
		}
	}
	if len(mistakes) > 0 {
		return nil, errors.Join(mistakes...)
	}
	return c, nil
}

// RefuseUnknown returns a copy of c that refuses appends, but not reads, of types it does not have.
func (c *Catalogue) RefuseUnknown() *Catalogue {
	strict := *cmp.Or(c, &Catalogue{})
	strict.refuseUnknown = true
	return &strict
}

// Names returns every name that events of type t may be stored under: the current name, then the
// aliases. t may be any of them. A type that is not in the catalogue has one name.
func (c *Catalogue) Names(t string) []string {
	if known := c.find(t); known != nil {
		return slices.Clone(known.names)
	}
	return []string{t}
}

func (c *Catalogue) find(name string) *catalogued {
	if c == nil {
		return nil
	}
	return c.types[name]
}

// add adds a type and returns its mistakes.
func (c *Catalogue) add(t *EventType) (mistakes []error) {
	wrong := func(format string, args ...any) { mistakes = append(mistakes, fmt.Errorf(format, args...)) }
	known := &catalogued{EventType: *t, names: append([]string{t.Name}, t.Aliases...)}
	known.Version, known.Intent = max(t.Version, 1), cmp.Or(t.Intent, event.ProjectionAndReplay)
	known.Upcast = maps.Clone(t.Upcast)
	for _, name := range known.names {
		if reason := text.CheckName(name, maxNameBytes); reason != "" {
			wrong("a name %s", reason)
		} else if name == feed.Notice {
			wrong("the name %s is reserved for the notices of erasures: give the type another name", name)
		} else if other, taken := c.types[name]; taken {
			wrong("the name %s belongs to %s already: a name leads to one type", text.Shortened(name),
				text.Shortened(other.Name))
		} else {
			c.types[name] = known
		}
	}
	if t.Version < 0 {
		wrong("version is %d: versions count from 1", t.Version)
	}
	if !slices.Contains([]event.Intent{event.ProjectionAndReplay, event.ReplayOnly, event.AuditOnly}, known.Intent) {
		wrong("intent is %s: it must be %s, %s or %s", text.Shortened(string(t.Intent)), event.ProjectionAndReplay,
			event.ReplayOnly, event.AuditOnly)
	}
	for _, path := range slices.Concat(t.Subject, t.Personal) {
		if _, err := parsePath(path); err != nil {
			mistakes = append(mistakes, err)
		} else if strings.Contains(path, "[") {
			wrong("field %q: write %q: a path leads through all elements of an array", path,
				withoutBrackets.ReplaceAllString(path, ""))
		}
	}
	for _, path := range t.Personal {
		if err := checkPersonal(path); err != nil {
			mistakes = append(mistakes, err)
		}
	}
	known.Subject, known.Personal = known.withFormer(t.Subject), known.withFormer(t.Personal)
	for _, path := range known.Personal {
		if !strings.HasPrefix(path, "$") {
			known.sealed = append(known.sealed, path)
		}
	}
	mistakes = append(mistakes, known.checkUpcasters()...)
	if len(t.Schema) > 0 {
		var err error
		if known.schema, err = compileSchema(t.Name, t.Schema); err != nil {
			wrong("schema: %w", err)
		}
	}
	return mistakes
}

// checkUpcasters sets the oldest version that can be read, and finds upcasters that lead nowhere.
func (t *catalogued) checkUpcasters() (mistakes []error) {
	t.oldest = t.Version
	for t.Upcast[t.oldest-1] != nil {
		t.oldest--
	}
	for _, from := range slices.Sorted(maps.Keys(t.Upcast)) {
		switch {
		case from < 1 || from >= t.Version:
			mistakes = append(mistakes,
				fmt.Errorf("upcaster from version %d: upcasters start from versions below the current one, which is %d", from,
					t.Version))
		case t.Upcast[from] == nil:
			mistakes = append(mistakes, fmt.Errorf("upcaster from version %d is nil", from))
		case from < t.oldest:
			mistakes = append(mistakes, fmt.Errorf("upcaster from version %d leads nowhere: the one from version %d is missing",
				from, t.oldest-1))
		}
	}
	return mistakes
}

// Subjects returns the fields that name the subject of events, by every name that types are stored under.
func (c *Catalogue) Subjects() map[string][]string {
	return c.fields(func(t *catalogued) []string { return t.Subject })
}

// Personal returns the personal fields of events, by every name that types are stored under.
func (c *Catalogue) Personal() map[string][]string {
	return c.fields(func(t *catalogued) []string { return t.Personal })
}

func (c *Catalogue) fields(of func(*catalogued) []string) map[string][]string {
	fields := map[string][]string{}
	for _, t := range c.all() {
		for _, name := range t.names {
			if paths := of(t); len(paths) > 0 {
				fields[name] = slices.Clone(paths)
			}
		}
	}
	return fields
}

// Intent returns the intent of type t or of the type with alias t; "" if the catalogue has neither.
func (c *Catalogue) Intent(t string) event.Intent {
	if known := c.find(t); known != nil {
		return known.Intent
	}
	return ""
}

// AsStored reports whether reading as type t returns events exactly as stored under that name: t
// has no alias, is none, and has no upcaster. The events must then have version only, or
// [Catalogue.Current] returns an error. 0 means any version, for types that are not in the
// catalogue.
func (c *Catalogue) AsStored(t string) (only int, ok bool) {
	known := c.find(t)
	switch {
	case known == nil:
		return 0, true
	case known.Name != t || len(known.names) > 1 || known.oldest < known.Version:
		return 0, false
	}
	return known.Version, true
}

// ErrUnknownVersion is returned by [Catalogue.Current] for an event it cannot bring to the current
// version of its type. The text names the event, the versions and the remedy.
var ErrUnknownVersion = errors.New("unknown version of an event")

// admit validates e, the journal's own copy, and fills in defaults from the catalogue.
func (c *Catalogue) admit(campaignID string, index int, e *event.Event) error {
	err := validate(campaignID, e)
	if err == nil {
		err = c.prepare(e)
	}
	return refused(err, campaignID, index)
}

// refused completes an [InvalidEventError].
func refused(err error, campaignID string, index int) error {
	if refused, ok := errors.AsType[*InvalidEventError](err); ok {
		refused.Campaign, refused.Index = campaignID, index
	}
	return err
}

// prepare fills in the version and the intent, replaces an alias, and checks the payload's current
// shape against the schema. The error is an [InvalidEventError] without campaign and index.
func (c *Catalogue) prepare(e *event.Event) error {
	t := c.find(e.Type)
	if t == nil {
		if c != nil && c.refuseUnknown {
			return invalid(e, "type",
				"is not in the event catalogue, which refuses unknown types: add it there, or accept unknown types")
		}
		fillIn(e, 1, event.ProjectionAndReplay)
		return nil
	}
	fillIn(e, t.Version, t.Intent)
	if e.Version > t.Version || e.Version < t.oldest {
		return invalid(e, "version", fmt.Sprintf("is %d, the catalogue knows %d … %d: write version %d, or extend the "+
			"catalogue", e.Version, t.oldest, t.Version, t.Version))
	}
	payload, err := t.upcastPayload(e.Payload, e.Version)
	if err != nil {
		return invalid(e, "payload", fmt.Sprintf("is not what version %d should be: %v", e.Version, err))
	}
	if reason := t.checkSchema(payload); reason != "" {
		return invalid(e, "payload", reason)
	}
	e.Type = t.Name
	return nil
}

// fillIn sets the version and the intent if they are zero.
func fillIn(e *event.Event, version int, intent event.Intent) {
	e.Version, e.Intent = cmp.Or(e.Version, version), cmp.Or(e.Intent, intent)
}

// Current returns a copy of the event under its type's current name and version, its payload
// upcast. Events of types that are not in the catalogue are returned unchanged. A version that the
// catalogue cannot read is an [ErrUnknownVersion]; an upcaster's error is returned wrapped.
func (c *Catalogue) Current(e event.Event) (event.Event, error) {
	if err := e.Unreadable(); err != nil {
		return e, err
	}
	t := c.find(e.Type)
	if t == nil {
		return e, nil
	}
	switch {
	case e.Version == t.Version:
		e.Type = t.Name
		return e, nil
	case e.Erased() && string(e.Payload) == "{}": // nothing is left to upcast
		if e.Type, e.Version = t.Name, t.Version; feed.Opened(&e) {
			feed.Open(&e, e.Payload, e.Payload, true)
		}
		return e, nil
	case e.Version > t.Version || e.Version < t.oldest:
		remedy := "add the missing upcasters to the catalogue"
		if e.Version > t.Version {
			remedy = "deploy the catalogue of the program that wrote it"
		}
		return e, detailing(ErrUnknownVersion, "event %d of campaign %s is %s version %d, the catalogue reads %d … %d: %s",
			e.Seq, text.Shortened(e.CampaignID), text.Shortened(e.Type), e.Version, t.oldest, t.Version, remedy)
	}
	payload, err := t.upcastPayload(e.Payload, e.Version)
	stored := payload
	if err == nil && feed.Opened(&e) {
		stored, err = t.upcastPayload(feed.Stored(&e), e.Version)
	}
	if err != nil {
		return e, fmt.Errorf("event %d of campaign %s: %w", e.Seq, text.Shortened(e.CampaignID), err)
	}
	e.Type, e.Version = t.Name, t.Version
	if feed.Opened(&e) {
		feed.Open(&e, payload, stored, e.Erased())
	} else {
		e.Payload = payload
		feed.ForgetDecoded(&e)
	}
	return e, nil
}
