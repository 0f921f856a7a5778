package projector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// mailed has a field that is sealed.
type mailed struct {
	Customer string `json:"customer"`
	Mail     string `json:"mail"`
}

const mailTypes = `types:
  mailed:
    version: 2
    subject: [customer]
    personal: [mail, address]
    upcast: {1: [{rename: {address: mail}}]}
  thanked:
    subject: [customer]
    personal: [mail]
`

// mailCatalogue seals with the key of the name.
func mailCatalogue(t *testing.T, key string) *catalogue.Catalogue {
	t.Helper()
	types, err := yamlfile.Load(fstest.MapFS{"c.yaml": {Data: []byte(mailTypes)}}, "c.yaml")
	if err != nil {
		t.Fatal(err)
	}
	wrappers, err := catalogue.ParseWrappingKeys(key + ":MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := catalogue.NewSealer(wrappers...)
	if err != nil {
		t.Fatal(err)
	}
	return types.Sealed(sealer)
}

// mail appends an event of the old version if the number is odd.
func mail(t *testing.T, pool *pgxpool.Pool, types *catalogue.Catalogue, campaign string, n int) {
	t.Helper()
	e := event.Event{Type: "mailed", Version: 2 - n%2, Payload: fmt.Appendf(nil, `{"customer": "c%d", %q: "planted-%d"}`, n,
		[]string{"mail", "address"}[n%2], n)}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{Catalogue: types}.Append(t.Context(), tx, campaign, journal.Any, e)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// mails is a projection of each kind.
func mails(t *testing.T, version int) []projection.Projection {
	t.Helper()
	fold := func(all *[]string, e event.Event) error {
		m, err := event.Decode[mailed](e)
		*all = append(*all, m.Mail)
		return err
	}
	rows := &projection.Handlers{
		Name: "mail_rows", Version: version,
		Tables: `CREATE TABLE mail_rows (campaign_id text, seq bigint, mail text, PRIMARY KEY (campaign_id, seq))`,
		On: []projection.Handler{
			projection.Handle("mailed", func(_ context.Context, g *projection.Group, e event.Event, m mailed) error {
				g.Queue(`INSERT INTO mail_rows VALUES ($1, $2, $3)`, e.CampaignID, e.Seq, m.Mail)
				return nil
			}),
		},
	}
	files, err := sqlfile.LoadDir(fstest.MapFS{"mail_file.sql": {Data: fmt.Appendf(nil, `-- projection: mail_file
-- version: %d
CREATE TABLE mail_file (campaign_id text, seq bigint, mail jsonb, PRIMARY KEY (campaign_id, seq));
-- on: mailed
INSERT INTO mail_file VALUES (event.campaign_id, event.seq, event.payload->'mail');
`, version)}})
	if err != nil {
		t.Fatal(err)
	}
	return append(files, rows,
		projection.Document[[]string]{Name: "mail_lists", Version: version, Types: []string{"mailed"}, Fold: fold},
		projection.Document[[]string]{
			Name: "mail_keys", Version: version, Types: []string{"mailed"}, Scope: projection.ScopeJournal, Fold: fold,
			Key: func(e event.Event) (string, error) {
				m, err := event.Decode[mailed](e)
				return m.Mail, err
			},
		})
}

// expectMails checks the read models of mails 0 to n, without those that are gone.
func expectMails(t *testing.T, pool *pgxpool.Pool, want string) {
	t.Helper()
	for what, sql := range map[string]string{
		"rows":      `SELECT string_agg(mail, ' ' ORDER BY mail) FROM tidemark_views.mail_rows`,
		"documents": `SELECT string_agg(m, ' ' ORDER BY m) FROM tidemark_views.mail_lists, jsonb_array_elements_text(doc) m`,
		"keys":      `SELECT string_agg(key, ' ' ORDER BY key) FROM tidemark_views.mail_keys`,
	} {
		expectText(t, pool, what, want, sql)
	}
	expectText(t, pool, "SQL files", "0", `SELECT count(*)::text FROM tidemark_views.mail_file WHERE NOT mail ? '$sealed'
		OR mail::text LIKE '%planted%'`)
}

func TestProjectionsInGoSeeSealedFieldsOpenAndSQLFilesAsTheyAre(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	types := mailCatalogue(t, "a")
	worker := func(version int) *projector.Projector {
		return workerOf(t, pool, func(c *projector.Config) { c.Catalogue = types }, mails(t, version)...)
	}
	one := worker(1)
	for n := range 6 {
		mail(t, pool, types, fmt.Sprint("shop", n/3), n)
	}
	drain(t, one)
	const all = "planted-0 planted-1 planted-2 planted-3 planted-4 planted-5"
	expectMails(t, pool, all)
	assertNothingFailed(t, pool)
	for _, name := range []string{"mail_rows", "mail_file", "mail_lists", "mail_keys"} {
		if _, mistakes := verified(t, one, lookback.VerifyRequest{Projection: name, All: true}); len(mistakes) > 0 {
			t.Errorf("%s: %v", name, mistakes)
		}
	}
	two := worker(2)
	within(t, "version 2 is live", func() bool {
		drain(t, two)
		return query[int](t, pool, `SELECT count(*) FROM tidemark.projections WHERE version = 2 AND name LIKE 'mail____%'`) == 4 &&
			query[int](t, pool, `SELECT count(*) FROM tidemark.rebuilds`) == 0
	})
	expectMails(t, pool, all)
}

func TestAWorkerWithoutTheWrappingKeyAppliesNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	right := mailCatalogue(t, "a")
	worker := func(types *catalogue.Catalogue) *projector.Projector {
		return workerOf(t, pool, func(c *projector.Config) { c.Catalogue = types }, mails(t, 1)[1:3]...)
	}
	mail(t, pool, right, "shop", 2)
	drain(t, worker(mailCatalogue(t, "b")))
	expectText(t, pool, "waits", "failed wrapping_key 0", waitsForKey)
	expectText(t, pool, "rows", "0", `SELECT count(*)::text FROM tidemark_views.mail_rows`)
	recovers(t, pool, worker(right))
	expectText(t, pool, "rows", "planted-2", `SELECT string_agg(mail, ' ') FROM tidemark_views.mail_rows`)
}

// recovers retries what is held back until nothing is.
func recovers(t *testing.T, pool *pgxpool.Pool, p *projector.Projector) {
	t.Helper()
	within(t, "nothing is held back", func() bool {
		exec(t, pool, `UPDATE tidemark.failed SET next_attempt_at = now(), status = 'failed' WHERE status IN ('failed', 'dead')`)
		drain(t, p)
		return query[int](t, pool, `SELECT count(*) FROM tidemark.failed`) == 0
	})
}

// waitsForKey says how campaigns wait whose key cannot be unwrapped now. It counts as no attempt.
const waitsForKey = `SELECT DISTINCT concat_ws(' ', status, error_code, attempt_count) FROM tidemark.failed`

// broken puts a key into the table that does not open, as an appender can, and returns an event that names it.
func broken(t *testing.T, pool *pgxpool.Pool, by string) (id string, e event.Event) {
	t.Helper()
	id = "01a21831-0aaf-7001-9512-0e2cf06179e0"
	exec(t, pool, fmt.Sprintf(`SELECT FROM tidemark.subject_keys(jsonb_build_array(jsonb_build_object('subject',
		encode(sha256('eve'), 'hex'), 'id', '%s', 'wrapped', encode(sha256('garbage') || sha256('x'), 'base64'), 'wrapped_by', '%s')))`,
		id, by))
	return id, event.Event{Type: "mailed", Version: 2, Payload: fmt.Appendf(nil,
		`{"customer": "eve", "mail": {"$sealed": "q83vq83vq83vq83vq83vq83vq83vq83vq83vq83vq83v", "key": "%s"}}`, id)}
}

func TestAKeyThatDoesNotOpenIsTheFaultOfItsEventAlone(t *testing.T) {
	t.Parallel()
	for by, want := range map[string]string{"a": "dead key", "a wrapping key of nobody": "failed wrapping_key"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			types := mailCatalogue(t, "a")
			id, e := broken(t, pool, by)
			mail(t, pool, types, "shop0", 2)
			appendEvents(t, pool, "bad", e)
			mail(t, pool, types, "shop1", 4)
			byCustomer := projection.Document[[]string]{
				Name: "mail_customers", Version: 1, Types: []string{"mailed"}, Scope: projection.ScopeJournal,
				Key: func(e event.Event) (string, error) {
					m, err := event.Decode[mailed](e)
					return m.Customer, err
				},
				Fold: func(all *[]string, e event.Event) error {
					m, err := event.Decode[mailed](e)
					*all = append(*all, m.Mail)
					return err
				},
			}
			p := workerOf(t, pool, func(c *projector.Config) { c.Catalogue = types }, append(mails(t, 1)[1:3], byCustomer)...)
			drain(t, p)
			mail(t, pool, types, "shop0", 6)
			drain(t, p)
			expectText(t, pool, "rows", "planted-2 planted-4 planted-6",
				`SELECT string_agg(mail, ' ' ORDER BY mail) FROM tidemark_views.mail_rows`)
			expectText(t, pool, "documents across campaigns", "planted-2 planted-4 planted-6",
				`SELECT string_agg(m, ' ' ORDER BY m) FROM tidemark_views.mail_customers, jsonb_array_elements_text(doc) m`)
			expectText(t, pool, "held back", "mail_customers eve "+want+", mail_lists bad "+want+", mail_rows bad "+want,
				`SELECT string_agg(concat_ws(' ', projection, campaign_id, status, error_code), ', ' ORDER BY projection)
					FROM tidemark.failed WHERE error_message LIKE '%key `+id+`%'`)
			exec(t, pool, `DELETE FROM tidemark.keys WHERE id = '`+id+`'`)
			exec(t, pool, `SELECT nextval('tidemark.erased')`)
			recovers(t, pool, p)
		})
	}
}

func TestASealedFieldThatWasMovedFailsItsEventAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	types := mailCatalogue(t, "a")
	mail(t, pool, types, "shop0", 2)
	mail(t, pool, types, "shop1", 4)
	stored, err := journal.Get(t.Context(), pool, "shop0", 1)
	if err != nil {
		t.Fatal(err)
	}
	appendEvents(t, pool, "shop0", event.Event{Type: "mailed", Version: 2, Payload: stored.Payload})
	mail(t, pool, types, "shop1", 6)
	drain(t, workerOf(t, pool, func(c *projector.Config) { c.Catalogue = types }, mails(t, 1)[1:]...))
	expectText(t, pool, "failed", "mail_keys mail_lists mail_rows", `SELECT string_agg(projection, ' ' ORDER BY projection)
		FROM tidemark.failed WHERE error_message LIKE '%was moved or changed%'`)
	expectText(t, pool, "rows", "planted-2 planted-4 planted-6",
		`SELECT string_agg(mail, ' ' ORDER BY mail) FROM tidemark_views.mail_rows`)
}

func TestAKeyThatFailedCatchesUpWithSealedFieldsOpen(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	types, fails := mailCatalogue(t, "a"), true
	p := workerOf(t, pool, func(c *projector.Config) {
		c.Catalogue, c.OnFailure = types, projection.Policy{Base: time.Second, Max: time.Second}
	},
		projection.Document[[]string]{
			Name: "mail_keys", Version: 1, Types: []string{"mailed"}, Scope: projection.ScopeJournal,
			Key: func(e event.Event) (string, error) { return e.CampaignID, nil },
			Fold: func(all *[]string, e event.Event) error {
				m, err := event.Decode[mailed](e)
				if *all = append(*all, m.Mail); fails && m.Mail == "planted-2" {
					err = errors.New("not yet")
				}
				return err
			},
		})
	for n := 2; n < 6; n++ {
		mail(t, pool, types, "shop", n)
	}
	drain(t, p)
	expectText(t, pool, "failed", "1", `SELECT count(*)::text FROM tidemark.failed WHERE error_message LIKE '%not yet%'`)
	fails = false
	within(t, "the key has caught up", func() bool {
		exec(t, pool, `UPDATE tidemark.failed SET next_attempt_at = now(), status = 'failed' WHERE status IN ('failed', 'dead')`)
		drain(t, p)
		return query[int](t, pool, `SELECT count(*) FROM tidemark.failed`) == 0
	})
	expectText(t, pool, "failures of sealed events", "0",
		`SELECT count(*)::text FROM tidemark.failure_log WHERE error_message LIKE '%decode%'`)
	expectText(t, pool, "documents", "planted-2 planted-3 planted-4 planted-5",
		`SELECT string_agg(m, ' ' ORDER BY m) FROM tidemark_views.mail_keys, jsonb_array_elements_text(doc) m`)
}

func TestAProcessAndAnInlineApplySealAndOpen(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	types := mailCatalogue(t, "a")
	process := projection.Process[int]{
		Name: "thanks", Version: 1, Types: []string{"mailed"},
		Key:  func(e event.Event) (string, error) { return e.CampaignID, nil },
		Fold: func(*int, event.Event) error { return nil },
		React: []projection.Reaction[int]{
			projection.React("mailed", func(_ *int, e event.Event, m mailed) ([]projection.Do, error) {
				payload, _ := json.Marshal(m)
				return []projection.Do{{Campaign: e.CampaignID, Events: []event.Event{{Type: "thanked", Payload: payload}}}}, nil
			}),
		},
	}
	p := workerOf(t, pool, func(c *projector.Config) { c.Catalogue = types }, process)
	drain(t, p)
	mail(t, pool, types, "shop", 2)
	mail(t, pool, types, "shop", 3)
	drain(t, p)
	if n := fire(t, pool); n != 2 {
		t.Errorf("%d reactions", n)
	}
	expectText(t, pool, "plain", "0", `SELECT (SELECT count(*) FROM tidemark.journal WHERE payload::text LIKE '%planted%')::text`)
	expectText(t, pool, "keys", "2", `SELECT count(*)::text FROM tidemark.keys`)
	drain(t, p)
	assertNothingFailed(t, pool)

	inline := pgtest.New(t)
	q := workerOf(t, inline, func(c *projector.Config) { c.Catalogue = types }, mails(t, 1)[1:3]...)
	if err := q.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(t.Context(), inline, func(tx pgx.Tx) error {
		places, err := journal.Journal{Catalogue: types}.Append(t.Context(), tx, "shop", journal.Any, event.Event{
			Type:    "mailed",
			Payload: []byte(`{"customer": "c", "mail": "planted-9"}`),
		})
		if err != nil {
			return err
		}
		return q.ApplyInline(t.Context(), tx, places...)
	}); err != nil {
		t.Fatal(err)
	}
	expectText(t, inline, "rows", "planted-9", `SELECT string_agg(mail, ' ') FROM tidemark_views.mail_rows`)
	if strings.Contains(query[string](t, inline, `SELECT payload::text FROM tidemark.journal`), "planted") {
		t.Error("the journal has the plain text")
	}
}

// service is a wrapping key that can be out of reach.
type service struct {
	catalogue.Wrapper
	away atomic.Bool
	errs atomic.Int64
}

func (s *service) Unwrap(ctx context.Context, wrapped, bound []byte) ([]byte, error) {
	if s.away.Load() {
		s.errs.Add(1)
		return nil, errors.New("the service is away")
	}
	return s.Wrapper.Unwrap(ctx, wrapped, bound)
}

func TestAWorkerWaitsWhileItsKeyServiceIsAway(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	mail(t, pool, mailCatalogue(t, "a"), "shop", 2)
	wrappers, err := catalogue.ParseWrappingKeys("a:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	if err != nil {
		t.Fatal(err)
	}
	kms := &service{Wrapper: wrappers[0]}
	kms.away.Store(true)
	sealer, err := catalogue.NewSealer(kms)
	if err != nil {
		t.Fatal(err)
	}
	running(t, workerOf(t, pool, func(c *projector.Config) { c.Catalogue = mailCatalogue(t, "a").Sealed(sealer) }, mails(t, 1)[1:]...))
	within(t, "the worker has tried again and again", func() bool { return kms.errs.Load() > 8 })
	expectText(t, pool, "waits", "failed wrapping_key 0", waitsForKey)
	expectText(t, pool, "rows", "0", `SELECT count(*)::text FROM tidemark_views.mail_rows`)
	kms.away.Store(false)
	within(t, "the worker goes on by itself", func() bool {
		return query[int](t, pool, `SELECT (SELECT count(*) FROM tidemark_views.mail_rows) + (SELECT count(*) FROM tidemark_views.mail_lists)
			+ (SELECT count(*) FROM tidemark_views.mail_keys)`) == 3
	})
	assertNothingFailed(t, pool)
}
