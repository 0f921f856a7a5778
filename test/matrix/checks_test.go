package matrix_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

func (w *world) forgotten(persons ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range persons {
		w.forgot[p] = true
	}
}

// told returns what the journal has to say of an event, or "" if it has been erased whole.
func (w *world) told(p planted) payload {
	is := payload{Customer: p.Customer, Email: p.Customer + "@example.com", Amount: p.Amount}
	switch {
	case p.Customer == "":
		return payload{}
	case w.forgot[p.Customer] && w.act == erasePersonal:
		return payload{Amount: p.Amount}
	case w.forgot[p.Customer]:
		return payload{}
	}
	return is
}

// certified checks a certificate, and the list of erasures.
func (w *world) certified(c *erasure.Certificate, o order) {
	w.t.Helper()
	if open := w.read(`SELECT actor || ': ' || reason FROM tidemark.erasures WHERE ended_at IS NULL`); len(open) > 0 {
		w.t.Errorf("unfinished erasures: %v", open)
	}
	events, keys := int64(0), map[string]bool{}
	for _, p := range w.remembered() {
		if slices.Contains(o.Subjects, p.Customer) {
			events++
			keys[p.Customer] = keys[p.Customer] || p.Sealed || p.Type == "booked" // whose reminders are sealed
		}
	}
	maps.DeleteFunc(keys, func(_ string, sealed bool) bool { return !sealed })
	if c.Events != events || c.Keys != int64(len(keys)) || c.Changed["journal"] != events {
		w.t.Errorf("the certificate tells of %d events and %d keys, and %v; there were %d and %d", c.Events, c.Keys, c.Changed,
			events, len(keys))
	}
	if objects := w.objects(o.Subjects); !slices.Equal(c.Objects, objects) {
		w.t.Errorf("the certificate says to delete\n%v, campaigns of the persons are in\n%v", c.Objects, objects)
	}
	for _, object := range c.Objects {
		w.must(os.Remove(filepath.Join(w.folder, object)))
	}
}

// objects returns the archive's objects that have lines of campaigns of persons.
func (w *world) objects(persons []string) (names []string) {
	w.t.Helper()
	var texts []string
	for _, p := range w.remembered() {
		if slices.Contains(persons, p.Customer) {
			texts = append(texts, fmt.Sprintf(`"campaign_id":"%s"`, p.Campaign))
		}
	}
	files, err := filepath.Glob(filepath.Join(w.folder, "*.gz"))
	w.must(err)
	for _, file := range files {
		content := strings.ReplaceAll(w.unpack(file), `: "`, `:"`)
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(content, text) }) {
			names = append(names, filepath.Base(file))
		}
	}
	return names
}

func (w *world) unpack(file string) string {
	w.t.Helper()
	packed, err := os.ReadFile(file)
	w.must(err)
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	w.must(err)
	content, err := io.ReadAll(unpacked)
	w.must(err)
	return string(content)
}

// compare compares the journal, through the archive, and all read models with what the test remembers.
func (w *world) compare(cells []cell) {
	w.t.Helper()
	of := func(campaign string) string {
		for _, c := range cells {
			if strings.HasSuffix(campaign, c.campaign()) {
				return c.String()
			}
		}
		return string(w.act) + "/neighbours"
	}
	lines, rows := map[string][]string{}, map[string][]string{}
	shops, customers, bookings := map[string]sums{}, map[string]sums{}, map[string]sums{}
	add := func(to map[string]sums, key string, is payload) {
		s := to[key]
		if is.Customer != "" {
			s.Names = append(s.Names, is.Customer)
		}
		s.Amount += is.Amount
		to[key] = s
	}
	for _, p := range w.remembered() {
		is := w.told(p)
		lines[p.Campaign] = append(lines[p.Campaign], fmt.Sprintf("%s %+v", p.Type, is))
		switch {
		case p.Type == "booked" && is.Customer != "":
			add(bookings, is.Customer, is)
		case p.Type == "ordered":
			add(shops, p.Campaign, is)
			rows[p.Campaign] = append(rows[p.Campaign], fmt.Sprintf("%s %d", is.Customer, is.Amount))
			if is.Customer != "" {
				add(customers, is.Customer, is)
			}
		}
	}
	reader := archive.NewReader(w.store, 0)
	db := reader.Reading(wrapped("a", "b").Reading(w.Pool))
	for campaign, want := range lines {
		var have []string
		var events []event.Event
		for e, err := range journal.ReadCampaign(w.t.Context(), db, campaign, 0) {
			w.must(err)
			if e.Type != erasure.EventType {
				events = append(events, e)
			}
		}
		_, err := types().Sealed(wrapped("a", "b")).Open(w.t.Context(), w.Pool, events)
		w.must(err)
		for _, e := range events {
			var is payload
			w.must(json.Unmarshal(e.Payload, &is))
			if is.Name != "" {
				is.Customer, is.Name = is.Name, ""
			}
			have = append(have, fmt.Sprintf("%s %+v", e.Type, is))
		}
		if !slices.Equal(have, want) {
			w.t.Errorf("%s: the events of %s are\n%s\nwant\n%s", of(campaign), campaign, strings.Join(have, "\n"), strings.Join(want, "\n"))
		}
	}
	for table, want := range map[string]map[string]sums{"shops": shops, "customers": customers, "reminders": bookings} {
		key := "key"
		if table == "shops" {
			key = "campaign_id"
		}
		w.documents(table, key, want, of)
	}
	for _, table := range []string{"orders", "log"} {
		have := map[string][]string{}
		for _, line := range w.read(`SELECT concat_ws(' ', campaign_id, customer, amount) FROM tidemark_views.` + table + ` ORDER BY campaign_id, seq`) {
			campaign, row, _ := strings.Cut(line, " ")
			have[campaign] = append(have[campaign], row)
		}
		for campaign, want := range rows {
			if !slices.Equal(have[campaign], want) {
				w.t.Errorf("%s: %s has %q of %s, want %q", of(campaign), table, have[campaign], campaign, want)
			}
			delete(have, campaign)
		}
		if len(have) > 0 {
			w.t.Errorf("%s has also %v", table, have)
		}
	}
}

func (w *world) documents(table, key string, want map[string]sums, of func(string) string) {
	w.t.Helper()
	have := map[string]sums{}
	for _, line := range w.read(fmt.Sprintf(`SELECT %s || ' ' || doc FROM tidemark_views.%s`, key, table)) {
		id, doc, _ := strings.Cut(line, " ")
		var s sums
		w.must(json.Unmarshal([]byte(doc), &s))
		have[id] = s
	}
	for id, s := range want {
		if fmt.Sprint(have[id]) != fmt.Sprint(s) {
			w.t.Errorf("%s: %s has %v of %s, want %v", of(id), table, have[id], id, s)
		}
		delete(have, id)
	}
	for id, s := range have {
		if s.Amount > 0 || len(s.Names) > 0 {
			w.t.Errorf("%s: %s has %v of %s, want nothing", of(id), table, s, id)
		}
	}
}

var goneText = regexp.MustCompile(`gone-([a-z]+-[a-z]+)`)

// search reports texts of persons who are to be forgotten, by cell.
func (w *world) search(where, text string, cells []cell) {
	w.t.Helper()
	found := map[string][]string{}
	for line := range strings.Lines(text) {
		for _, m := range goneText.FindAllStringSubmatch(line, -1) {
			if found[m[1]] == nil {
				found[m[1]] = append(found[m[1]], fmt.Sprintf("%.300s", line))
			}
		}
	}
	for campaign, in := range found {
		i := slices.IndexFunc(cells, func(c cell) bool { return c.campaign() == campaign })
		name := string(w.act) + "/" + campaign
		if i >= 0 {
			name = cells[i].String()
		}
		w.t.Errorf("%s: %s has %s", name, where, in)
	}
}

// scan searches a dump of the database, the planner's statistics, the archive, the lake and the logs.
func (w *world) scan(cells []cell) {
	w.t.Helper()
	table := "?"
	for line := range strings.Lines(w.dump()) {
		if name, ok := strings.CutPrefix(line, "COPY "); ok {
			table, _, _ = strings.Cut(name, " ")
		}
		w.search("a dump of "+table, line, cells)
	}
	// Statistics of read models, and of keys that were replayed after the erasure, go with the next ANALYZE that
	// finds rows, as the guide says.
	for _, table := range w.read(`SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r'
			AND relnamespace::regnamespace::text LIKE 'tidemark_%'`) {
		_, err := w.Exec(w.t.Context(), "ANALYZE "+table)
		w.must(err)
	}
	const statistics = `SELECT starelid::regclass || ' ' || s::text FROM pg_statistic s `
	others := w.read(statistics + `WHERE starelid <> 'tidemark.failed'::regclass`)
	w.search("pg_statistic", strings.Join(others, "\n"), cells)
	_, err := w.Exec(w.t.Context(), `SELECT tidemark.forget_statistics()`)
	w.must(err)
	w.search("pg_statistic", strings.Join(w.read(statistics), "\n"), cells)
	files, err := filepath.Glob(filepath.Join(w.folder, "*.gz"))
	w.must(err)
	for _, file := range files {
		w.search("object "+filepath.Base(file), w.unpack(file), cells)
	}
	for line := range strings.Lines(w.log.String()) { // it names the keys that fail, and nothing else of events
		if strings.Contains(line, "@example.com") {
			w.search("the log", line, cells)
		}
	}
}

// dump is a dump of the database.
func (w *world) dump() string {
	w.t.Helper()
	// Without --encoding pg_dump converts text to the database's client_encoding.
	out, err := exec.CommandContext(w.t.Context(), w.program("pg_dump"), "--encoding", "UTF8", "--dbname",
		w.Config().ConnString()).Output()
	w.must(err)
	return string(out)
}

// program is a program of the server's version.
func (w *world) program(name string) string {
	w.t.Helper()
	var version int
	w.must(w.QueryRow(w.t.Context(), `SELECT current_setting('server_version_num')::int / 10000`).Scan(&version))
	if found, _ := filepath.Glob(fmt.Sprintf("/usr/lib/postgresql/%d/bin/%s", version, name)); len(found) > 0 {
		return found[0]
	}
	return name
}
