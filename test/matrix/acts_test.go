package matrix_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

func (c cell) campaign() string { return fmt.Sprintf("%s-%s", c.feature, c.state) }
func (c cell) gone() string     { return "gone-" + c.campaign() }
func (c cell) kept() string     { return "kept-" + c.campaign() }

// story returns the events of a cell: about the person who is to be forgotten, and about another one.
func (c cell) story() []planted {
	sealed := c.feature == sealed || c.act == seal
	return []planted{
		{c.campaign(), "ordered", c.gone(), 2, sealed},
		{c.campaign(), "ordered", c.kept(), 3, sealed},
		{c.campaign(), "ordered", c.gone(), 5, sealed},
		{c.campaign(), "ordered", c.kept(), 8, sealed},
		{c.campaign(), "closed", "", 0, false},
	}
}

func campaigns(cells []cell) (ids []string) {
	for _, c := range cells {
		ids = append(ids, c.campaign())
	}
	return ids
}

func persons(cells []cell) (names []string) {
	for _, c := range cells {
		names = append(names, c.gone())
	}
	return names
}

func only(cells []cell, features ...feature) (some []cell) {
	for _, c := range cells {
		if slices.Contains(features, c.feature) {
			some = append(some, c)
		}
	}
	return some
}

// prepare plants the cells of a state, so that each feature is there during the act.
func (w *world) prepare(s state, cells []cell) {
	w.t.Helper()
	late := only(cells, behind, parked)
	early := slices.DeleteFunc(slices.Clone(cells), func(c cell) bool { return slices.Contains(late, c) })
	toArchive := only(cells, archived)
	if w.act == restore { // archives nothing that is behind: publishers fall back afterwards
		early, late, toArchive = cells, nil, cells
	}
	for _, c := range early {
		w.plant(c.story()...)
	}
	w.plant(planted{"extra-" + string(s), "ordered", "gone-extra-" + string(s), 7, false})
	w.plant(planted{"extra-" + string(s), "ordered", "kept-extra-" + string(s), 9, false})
	w.archive(campaigns(toArchive)...)
	if s != running {
		w.quiet()
		w.held.Store(true)
	}
	for _, c := range late {
		w.plant(c.story()...)
	}
	if w.act == restore {
		for _, f := range []feature{behind, parked} {
			_, err := publications.Reset(w.t.Context(), w.Pool, publications.Key{Topic: string(f), Publisher: string(f)},
				publications.ResetTo{Position: new(int64)}, publications.Act{By: "anna", Reason: "a test"})
			w.must(err)
		}
	}
	for _, c := range only(cells, scheduled) {
		for _, name := range []string{c.gone(), c.kept()} {
			w.must(pgx.BeginFunc(w.t.Context(), w.Pool, func(tx pgx.Tx) error {
				p := planted{c.campaign(), "ordered", name, 4, false}
				catalogue := types()
				if c.act == seal {
					p.Sealed, catalogue = true, catalogue.Sealed(wrapped("a", "b"))
				}
				_, err := journal.Journal{Catalogue: catalogue}.AppendAt(w.t.Context(), tx, c.campaign(), time.Now().Add(time.Hour), p.event())
				return err
			}))
		}
	}
	for _, c := range only(cells, process) {
		sealed := c.act == seal
		w.plant(planted{"bookings-" + c.campaign(), "booked", c.gone(), 6, sealed},
			planted{"bookings-" + c.campaign(), "booked", c.kept(), 6, sealed})
		w.within("timers are set", `SELECT count(*) = 2 FROM tidemark.scheduled WHERE campaign_id = $1`, c.campaign())
	}
	act := failed.Act{By: "anna", Reason: "a test"}
	if len(only(cells, rebuilding)) > 0 {
		for _, name := range []string{"shops", "customers"} {
			_, err := rebuild.StartRebuild(w.t.Context(), w.Pool, name, rebuild.Options{Keep: new(time.Duration)}, act)
			w.must(err)
		}
	}
	for _, c := range only(cells, replaying) {
		w.must(pgx.BeginFunc(w.t.Context(), w.Pool, func(tx pgx.Tx) error {
			_, err := failed.Replay(w.t.Context(), tx, failed.ReplayRequest{
				Group: "default", Projection: "shops", Campaigns: []string{c.campaign()},
			}, act)
			return err
		}))
	}
	if s == running {
		return
	}
	for _, c := range only(cells, parked) {
		w.within("an event is parked", `SELECT EXISTS (SELECT FROM tidemark.parked WHERE campaign_id = $1)
			AND EXISTS (SELECT FROM tidemark.failed WHERE projection = 'customers' AND campaign_id = $2) = $3`,
			c.campaign(), c.gone(), w.act != restore)
	}
	for range only(cells, behind) {
		w.within("a publisher is behind", `SELECT failing_since IS NOT NULL FROM tidemark.readers WHERE publisher = 'behind'`)
	}
}

// archive archives closed campaigns.
func (w *world) archive(ids ...string) {
	w.t.Helper()
	if len(ids) == 0 {
		return
	}
	w.quiet()
	done, err := archive.Run(w.t.Context(), w.Pool, w.store, archive.Request{Campaigns: ids, By: "anna", Reason: "a test"})
	w.must(err)
	if done.LeftOut > 0 {
		w.t.Fatalf("not archived: %v", done.Left)
	}
}

// proceed ends what is held up. The publisher behind has dropped what has been erased meanwhile.
func (w *world) proceed() {
	w.t.Helper()
	w.until("what a publisher tries to send is forgotten", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !slices.ContainsFunc(slices.Collect(maps.Keys(w.forgot)), func(person string) bool {
			return strings.Contains(w.tried, person)
		})
	})
	w.held.Store(false)
}

// retry has parked events sent again.
func (w *world) retry() {
	w.t.Helper()
	for _, id := range w.read(`SELECT campaign_id FROM tidemark.parked WHERE status = 'parked'`) {
		_, err := publications.Retry(w.t.Context(), w.Pool, publications.ParkedFilter{CampaignID: id},
			publications.Act{By: "anna", Reason: "a test"})
		w.must(err)
	}
}

// steps is about how many statements and objects an act needs at least for some cells.
func (a act) steps(cells int) int64 {
	n := int64(cells)
	return map[act]int64{
		eraseWhole: 40 + 6*n, erasePersonal: 40 + 6*n, seal: 8 * n, archives: 12, restore: 9, retains: 10,
	}[a]
}

// kill has the order begun and killed, at two places.
func (w *world) kill(o order) {
	w.t.Helper()
	for i := range int64(2) {
		o.KillAt = 1 + rand.Int64N((i+1)*o.Act.steps(len(o.Campaigns))/2)
		done := w.send(o)
		if i == 0 && !done.killed {
			w.t.Errorf("%s was not killed at step %d: %+v", o.Act, o.KillAt, done)
		}
		w.within("the killed operator's session has ended", `SELECT NOT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND usename IN ($1 || '_anna', $1 || '_ben'))`, w.prefix)
	}
}

// run does the act for the cells of a state.
func (w *world) run(s state, cells []cell) {
	w.t.Helper()
	o := order{
		Act: w.act, URL: w.anna, By: "anna", Folder: w.folder, Campaigns: campaigns(cells), Subjects: persons(cells),
	}
	for _, c := range cells {
		if w.act == seal {
			o.Events = append(o.Events, planted{c.campaign(), "ordered", c.gone(), 12, true},
				planted{c.campaign(), "ordered", c.kept(), 14, true})
		}
	}
	var abandoned *erasure.Certificate
	if w.act == archives || w.act == retains {
		w.refused(s, o, cells)
	}
	switch s {
	case running:
		var beside sync.WaitGroup
		ctx, stop := context.WithCancel(w.t.Context())
		beside.Go(func() { w.load(ctx, cells) })
		defer beside.Wait()
		defer stop()
	case killed:
		w.kill(o)
	case repeated:
		w.done(o, w.send(o), cells)
	case anothers:
		w.kill(o)
		w.interfere(s, o)
		o.URL, o.By = w.ben, "ben"
		if o.Act == erasePersonal {
			abandoned = w.abandon()
		}
	}
	done := w.send(o)
	if abandoned != nil {
		done = w.together(abandoned, done)
	}
	if s != repeated {
		w.done(o, done, cells)
		return
	}
	w.again(done, cells)
}

// unhold has the time pass for which a killed process holds its erasure.
func (w *world) unhold() {
	w.t.Helper()
	_, err := w.Exec(w.t.Context(), `UPDATE tidemark.erasures SET held_until = clock_timestamp() WHERE ended_at IS NULL`)
	w.must(err)
}

func (w *world) send(o order) outcome {
	w.t.Helper()
	if o.Act == retains { // it is due, and its last holder has gone
		_, err := w.Exec(w.t.Context(), `UPDATE tidemark.retention SET began_at = NULL`)
		w.must(err)
		_, err = w.Exec(w.t.Context(), `UPDATE tidemark.duties SET expires_at = clock_timestamp() WHERE name = 'retention'`)
		w.must(err)
	}
	if o.Act == eraseWhole || o.Act == erasePersonal { // its last holder has gone
		w.unhold()
	}
	done := o.send(w.t)
	_, _ = w.log.Write([]byte(done.log))
	return done
}

// load appends to campaigns of others, and to those of the cells, unless they are archived.
func (w *world) load(ctx context.Context, cells []cell) {
	for i := 0; ctx.Err() == nil && i < 200; i++ {
		ids := []string{fmt.Sprintf("others-%d", i%7)}
		if w.act == eraseWhole || w.act == erasePersonal {
			ids = append(ids, cells[i%len(cells)].campaign())
		}
		for _, id := range ids {
			p := planted{id, "ordered", "kept-others", 2*i + 2, false}
			err := pgx.BeginFunc(w.t.Context(), w.Pool, func(tx pgx.Tx) error {
				_, err := journal.Journal{Catalogue: types()}.Append(w.t.Context(), tx, p.Campaign, journal.Any, p.event())
				return err
			})
			if err == nil {
				w.remember(p)
			} else if !errors.Is(err, event.ErrArchived) {
				w.t.Errorf("an append beside: %v", err)
			}
		}
	}
}

// refused has the act leave all campaigns that something has to read still, and ends what holds it up.
func (w *world) refused(s state, o order, cells []cell) {
	w.t.Helper()
	if s != running {
		done := w.send(o)
		why := map[string]string{}
		for _, left := range w.left(done) {
			why[left.CampaignID] = left.Reason
		}
		rebuilt := len(only(cells, rebuilding)) > 0
		for _, c := range only(cells, rebuilding, replaying, process, scheduled, behind, parked) {
			want := map[feature]string{
				rebuilding: "rebuild", replaying: "shops", process: "scheduled append", scheduled: "scheduled append",
				behind: "behind", parked: "parked",
			}[c.feature]
			if rebuilt {
				want = "rebuild"
			}
			if !strings.Contains(why[c.campaign()], want) && !strings.Contains(why[c.campaign()], "before its last event") {
				w.t.Errorf("%s: %s is left because of %q, not because of %s", c, c.campaign(), why[c.campaign()], want)
			}
		}
	}
	w.proceed()
	for _, c := range only(cells, process, scheduled) {
		_, err := w.Exec(w.t.Context(), `SELECT tidemark.cancel_scheduled(id) FROM tidemark.scheduled WHERE campaign_id = $1`,
			c.campaign())
		w.must(err)
	}
	w.quiet()
}

// left returns the campaigns that an act has left.
func (w *world) left(done outcome) []archive.Left {
	w.t.Helper()
	if w.act != retains {
		return done.Report.Left
	}
	var left []archive.Left
	w.must(w.QueryRow(w.t.Context(), `SELECT reasons FROM tidemark.retention`).Scan(&left))
	return left
}

// interfere has another operator act for others, which does not end what anna has begun.
func (w *world) interfere(s state, o order) {
	w.t.Helper()
	const unfinished = `SELECT id::text FROM tidemark.erasures WHERE ended_at IS NULL`
	before := w.read(unfinished)
	if len(before) > 0 {
		same := o
		same.URL, same.By = w.ben, "ben"
		if done := same.send(w.t); !strings.Contains(done.Error, `is carried out by "anna"`) {
			w.t.Errorf("another carries out an erasure that anna holds: %+v", done)
		}
	}
	other := o
	other.URL, other.By = w.ben, "ben"
	other.Campaigns, other.Subjects, other.Events = []string{"extra-" + string(s)}, []string{"gone-extra-" + string(s)}, nil
	done := other.send(w.t)
	if w.act == retains {
		done = w.send(other)
	}
	if after := w.read(unfinished); !slices.Equal(before, after) {
		w.t.Errorf("unfinished were erasures %v; when another one had ended they are %v", before, after)
	}
	if o.Act == eraseWhole || o.Act == erasePersonal {
		if done.Error != "" || done.Certificate.Events != 1 {
			w.t.Errorf("another's erasure: %+v", done)
		}
		w.forgotten("gone-extra-" + string(s))
		if len(before) > 0 {
			r := archive.Request{Campaigns: []string{"extra-" + string(s)}, By: "anna", Reason: "a test"}
			if found, err := archive.Count(w.t.Context(), w.Pool, r); err != nil || found.Campaigns > 0 {
				w.t.Errorf("archives run while an erasure is unfinished: %+v, %v", found, err)
			}
		}
	}
}

// abandon has ben end the erasure that anna has begun, if it has not ended. Its request is forgotten.
func (w *world) abandon() *erasure.Certificate {
	w.t.Helper()
	pool, err := pgxpool.New(w.t.Context(), w.ben)
	w.must(err)
	defer pool.Close()
	w.unhold()
	ids := w.read(`SELECT id::text FROM tidemark.erasures WHERE ended_at IS NULL`)
	if len(ids) == 0 {
		return nil
	}
	number, err := strconv.ParseInt(ids[0], 10, 64)
	w.must(err)
	c, err := erasure.Abandon(w.t.Context(), pool, number, "ben", "nobody has the request")
	if w.must(err); !c.Abandoned || c.By != "ben" {
		w.t.Errorf("the certificate of an abandoned erasure is %+v", c)
	}
	return c
}

// together adds up the certificates of an abandoned erasure and of the one that came after it. An abandoned one
// may have left nothing.
func (w *world) together(first *erasure.Certificate, done outcome) outcome {
	w.t.Helper()
	if strings.Contains(done.Error, erasure.ErrNothing.Error()) {
		return outcome{Certificate: first}
	}
	if c := done.Certificate; c != nil {
		c.Events += first.Events
		c.Keys += first.Keys
		c.Changed["journal"] += first.Changed["journal"]
		c.Objects = append(c.Objects, first.Objects...)
		slices.Sort(c.Objects)
		c.Objects = slices.Compact(c.Objects)
	}
	return done
}

// done checks what an act reports, against what the test knows.
func (w *world) done(o order, done outcome, cells []cell) {
	w.t.Helper()
	if done.Error != "" {
		w.t.Fatalf("%s: %s", o.Act, done.Error)
	}
	switch o.Act {
	case eraseWhole, erasePersonal:
		w.forgotten(o.Subjects...)
		w.certified(done.Certificate, o)
	case archives, retains:
		for _, c := range cells {
			if at := w.read(`SELECT coalesce(metadata #>> '{$archived,object}', '') FROM tidemark.journal
					WHERE campaign_id = $1 ORDER BY seq DESC LIMIT 1`, c.campaign()); len(at) != 1 || at[0] == "" {
				w.t.Errorf("%s: it is not archived: %v", c, w.left(done))
			}
		}
	case restore:
		for _, c := range cells {
			if n := w.read(`SELECT count(*)::text FROM tidemark.journal WHERE campaign_id = $1 AND event_version > 0`,
				c.campaign()); n[0] != fmt.Sprint(len(c.story())) {
				w.t.Errorf("%s: %s events are back, want %d", c, n[0], len(c.story()))
			}
		}
	case seal:
		w.remember(o.Events...)
	}
}

// again checks the outcome of an act that is repeated.
func (w *world) again(done outcome, cells []cell) {
	w.t.Helper()
	switch w.act {
	case eraseWhole, erasePersonal:
		if !strings.Contains(done.Error, erasure.ErrNothing.Error()) {
			w.t.Errorf("erased once more: %+v", done)
		}
	case archives, restore:
		if done.Error != "" || done.Report.Campaigns > 0 || done.Report.LeftOut != int64(len(cells)) {
			w.t.Errorf("repeated: %+v", done)
		}
	default:
		if done.Error != "" {
			w.t.Errorf("repeated: %+v", done)
		}
	}
}
