package journal

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// ErrCommandReused is returned by [Journal.Do] if the command's id was used for another one. The text
// names the campaign and the id. Give each command an id of its own.
var ErrCommandReused = errors.New("the command's id was used for another command")

// Command is a request that takes effect once, however often it comes: for example an HTTP request with
// an idempotency key. [Journal.Do] makes it.
type Command struct {
	CampaignID string    // of the first event; required
	ID         uuid.UUID // becomes the id of the first event; required
	// What was asked, such as the body of the request: a repeat with other content is refused. nil: repeats
	// are not compared. The first event's metadata keep a short hash of it, under "$command".
	Content []byte
}

// Decision is what a command appends, and under which condition.
type Decision struct {
	Events    []event.Event // without ids. CampaignID "": the command's, which the first is of. None: nothing to do
	Expect    Expect        // where the command's campaign stands, as [Load] has read it
	Condition *Condition    // of events anywhere, as [Decide] returns it; not together with Expect
}

// Outcome says where the command's events are.
type Outcome struct {
	Places   []Appended // of those in the command's campaign, in order of seq; none: nothing was appended
	Repeated bool       // the events were in the journal before this call
}

// Token returns the token of the last event, with which a reader waits for all of them, or "".
func (o Outcome) Token() string {
	if len(o.Places) == 0 {
		return ""
	}
	return o.Places[len(o.Places)-1].Token()
}

// hashKey is the key of the content's hash in the metadata of the first event. Erasures remove it.
const hashKey = "$command"

// Do decides and appends in a READ COMMITTED transaction of its own, unless the command has taken effect
// before: then it returns the first places, whatever would be decided now, also after an erasure.
//
// decide reads with tx, and returns what to append. It may also write with tx: that commits with the
// events. An error of decide rolls back and is returned; the next call decides anew. decide is called
// again, in another transaction, if another append came first.
//
// Events get ids that follow from the command's id, so a repeat is recognised after a COMMIT whose reply
// was lost, and while the first call still runs. Errors: [ErrCommandReused], [event.ErrArchived] if the
// campaign is archived, those of decide, of [Journal.Append], [Journal.AppendIf], and of the connection.
func (j Journal) Do(
	ctx context.Context, db *pgxpool.Pool, c Command, decide func(ctx context.Context, tx pgx.Tx) (Decision, error),
) (Outcome, error) {
	if c.CampaignID == "" || c.ID == uuid.Nil {
		return Outcome{}, fmt.Errorf("command %s of campaign %s: give it a campaign, and an id of its own", c.ID,
			text.Shortened(c.CampaignID))
	}
	var out Outcome
	err := j.Retry.Do(ctx, func(ctx context.Context) error {
		undecided := false
		err := pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) (err error) {
			out, err = j.attempt(ctx, tx, c, func() (Decision, error) {
				d, err := decide(ctx, tx)
				if err == nil && len(d.Events) > 0 {
					d.Events, err = c.named(d)
				}
				undecided = err != nil
				return d, err
			})
			return err
		})
		switch {
		case err == nil || undecided || errors.Is(err, ErrCommandReused) || errors.Is(err, event.ErrArchived):
			return err
		case errors.Is(err, ErrEventIDReused) || errors.Is(err, ErrPartlyAppended):
			return &raceError{err} // the same command, decided otherwise, came first: the next attempt finds it
		case answered(err) || ctx.Err() != nil:
			return err
		}
		return &doubtError{err}
	})
	if err != nil {
		return Outcome{}, err
	}
	return out, nil
}

// raceError wraps the error of a command that meets another call of itself.
type raceError struct{ error }

func (e *raceError) Unwrap() error { return e.error }

// attempt looks for the command, decides and appends. An append that loses a race rolls back what the
// decision has written, so the next attempt is another transaction.
func (j Journal) attempt(
	ctx context.Context, tx pgx.Tx, c Command, decide func() (Decision, error),
) (Outcome, error) {
	if before, err := c.before(ctx, tx); err != nil || before.Repeated {
		return before, err
	}
	d, err := decide()
	if err != nil || len(d.Events) == 0 {
		// It may have seen what another call of the same command has appended meanwhile.
		if before, lookErr := c.before(ctx, tx); lookErr == nil && before.Repeated {
			return before, nil
		}
		return Outcome{}, err
	}
	var places []Appended
	if d.Condition == nil {
		places, err = j.AppendAll(ctx, tx, batched(d.Events, d.Expect)...)
	} else {
		places, err = j.AppendIf(ctx, tx, d.Events, *d.Condition)
	}
	if err != nil {
		return Outcome{}, err
	}
	places = slices.DeleteFunc(places, func(p Appended) bool { return p.CampaignID != c.CampaignID })
	return Outcome{Places: places, Repeated: places[0].Duplicate}, nil
}

// before returns the places of the command's events if it has taken effect.
func (c Command) before(ctx context.Context, tx pgx.Tx) (Outcome, error) {
	first, err := feed.Find(ctx, tx, c.CampaignID, c.ID)
	unreadable, _ := errors.AsType[*event.UnreadableError](err)
	if errors.Is(err, event.ErrNotFound) {
		return Outcome{}, nil
	}
	if err != nil && unreadable == nil {
		return Outcome{}, err
	}
	if hash := hashIn(first.Metadata); hash != "" && c.Content != nil && hash != c.hash() {
		return Outcome{}, text.Detail(ErrCommandReused, "command %s of campaign %s was used for another request: give each "+
			"command an id of its own, and repeat it unchanged", c.ID, text.Shortened(c.CampaignID))
	}
	out := Outcome{Repeated: true, Places: []Appended{{
		CampaignID: c.CampaignID, Seq: first.Seq, Position: first.Position, ID: c.ID, Duplicate: true,
	}}}
	scan := func(row pgx.CollectableRow) (Appended, error) {
		place := Appended{CampaignID: c.CampaignID, Duplicate: true}
		err := row.Scan(&place.Seq, &place.Position, &place.ID)
		return place, err
	}
	for {
		last := out.Places[len(out.Places)-1].Seq
		found, err := tx.Query(ctx, queryIDs, c.CampaignID, last)
		if err != nil {
			return Outcome{}, fmt.Errorf("find a command's events: %w", err)
		}
		next, err := pgx.CollectRows(found, scan)
		if err != nil {
			return Outcome{}, fmt.Errorf("find a command's events: %w", err)
		}
		for _, place := range next {
			if place.ID != c.idOf(c.CampaignID, len(out.Places)) {
				return out, nil
			}
			out.Places = append(out.Places, place)
		}
		if len(next) == 0 {
			return out, nil
		}
	}
}

// named returns the events with their campaigns, ids, and the hash of the content.
func (c Command) named(d Decision) ([]event.Event, error) {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("command %s of campaign %s: "+format, append([]any{c.ID, text.Shortened(c.CampaignID)}, args...)...)
	}
	if d.Condition != nil && d.Expect != Any {
		return nil, fault("the decision has a condition and expects a seq: give it one of them")
	}
	events, count := slices.Clone(d.Events), map[string]int{}
	for i := range events {
		e := &events[i]
		e.CampaignID = cmp.Or(e.CampaignID, c.CampaignID)
		if i == 0 && e.CampaignID != c.CampaignID {
			return nil, fault("its first event is of campaign %s: put an event of the command's campaign first",
				text.Shortened(e.CampaignID))
		}
		if e.ID != uuid.Nil {
			return nil, fault("events[%d] has an id: leave it to the command", i)
		}
		e.ID = c.idOf(e.CampaignID, count[e.CampaignID])
		count[e.CampaignID]++
	}
	if c.Content != nil {
		events[0].Metadata = withFields(events[0].Metadata, map[string]string{hashKey: c.hash()})
	}
	return events, nil
}

// idOf returns the id of the command's event n, from 0, in a campaign.
func (c Command) idOf(campaignID string, n int) uuid.UUID {
	if n == 0 && campaignID == c.CampaignID {
		return c.ID
	}
	return uuid.NewSHA1(c.ID, []byte(strconv.Itoa(n)+" "+campaignID))
}

// hash returns 24 bits: enough to show a mistake, too few to prove what was asked.
func (c Command) hash() string {
	mac := hmac.New(sha256.New, c.ID[:])
	_, _ = mac.Write(c.Content) // never fails
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:3])
}

// hashIn returns the hash in the metadata of a command's first event, "" if an erasure has removed it.
func hashIn(metadata json.RawMessage) string {
	var m struct {
		Hash string `json:"$command"`
	}
	_ = json.Unmarshal(metadata, &m) // an application may have another value there
	return m.Hash
}

// batched groups events by campaign, the command's first.
func batched(events []event.Event, expect Expect) (batches []Batch) {
	for _, e := range events {
		i := slices.IndexFunc(batches, func(b Batch) bool { return b.CampaignID == e.CampaignID })
		if i < 0 {
			i = len(batches)
			batches = append(batches, Batch{CampaignID: e.CampaignID})
		}
		batches[i].Events = append(batches[i].Events, e)
	}
	batches[0].Expect = expect
	return batches
}
