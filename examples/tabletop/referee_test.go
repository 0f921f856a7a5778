package tabletop_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-go/tidemark/examples/tabletop"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// referee knows the rules of the game and nothing about the generator. It watches one campaign.
type referee struct {
	seq        int64
	status     tabletop.Status
	seats      map[string]int // by participant
	characters map[string]*sheet
	invites    map[string]bool // open ones
	used       map[string]bool // ids of participants, characters, sessions, scenes, invites
	session    string
	scene      string
	sessions   int
	master     string
	joining    string // by a claimed invite, in this decision
}

type sheet struct {
	owner            string
	level, have, max int
}

func newReferee() *referee {
	return &referee{
		seats: map[string]int{}, characters: map[string]*sheet{}, invites: map[string]bool{},
		used: map[string]bool{},
	}
}

// statuses returns the transitions between statuses that the rules allow.
func statuses() map[tabletop.Status][]tabletop.Status {
	return map[tabletop.Status][]tabletop.Status{
		tabletop.Draft:     {tabletop.Active},
		tabletop.Active:    {tabletop.Paused, tabletop.Completed},
		tabletop.Paused:    {tabletop.Active},
		tabletop.Completed: {tabletop.Archived},
	}
}

func (r *referee) judge(e event.Event) error {
	r.seq++
	switch {
	case (r.seq == 1) != (e.Type == tabletop.CampaignCreatedType):
		return errors.New("a campaign begins with its creation, once")
	case r.status == tabletop.Archived:
		return errors.New("the campaign is archived")
	case e.Actor == "" && len(r.seats) > 0:
		return errors.New("nobody did it")
	}
	switch e.Type {
	case tabletop.CampaignCreatedType:
		r.status = tabletop.Draft
	case tabletop.CampaignUpdatedType:
		p, err := read[tabletop.CampaignUpdated](e)
		return first(err, must(p.Name != nil || p.Theme != nil, "nothing is updated"))
	case tabletop.CampaignForkedType:
		p, err := read[tabletop.CampaignForked](e)
		return first(err, must(r.seq == 2, "a fork is the second event"),
			must(p.SourceCampaignID != e.CampaignID && p.SourceSeq > 0, "forked from nothing"))
	case tabletop.CampaignStatusChangedType:
		p, err := read[tabletop.CampaignStatusChanged](e)
		err = first(err, must(p.From == r.status, "it was %s", r.status),
			must(slices.Contains(statuses()[p.From], p.To), "no such change"),
			must(r.session == "", "in the middle of a session"))
		r.status = p.To
		return err
	case tabletop.ParticipantJoinedType, tabletop.ParticipantLeftType, tabletop.ParticipantSeatChangedType:
		return r.judgeParticipant(e)
	case tabletop.CharacterCreatedType, tabletop.CharacterUpdatedType, tabletop.CharacterDamagedType,
		tabletop.CharacterHealedType,
		tabletop.CharacterDeletedType, tabletop.DiceRolledType:
		return r.judgeCharacter(e)
	case tabletop.SessionStartedType, tabletop.SessionEndedType, tabletop.SceneStartedType, tabletop.SceneEndedType:
		return r.judgeSession(e)
	case tabletop.InviteCreatedType, tabletop.InviteClaimedType, tabletop.InviteDeclinedType, tabletop.InviteRevokedType:
		return r.judgeInvite(e)
	case tabletop.NoteAddedType:
	default:
		return errors.New("no such type")
	}
	return nil
}

func (r *referee) judgeParticipant(e event.Event) error {
	p, err := read[tabletop.ParticipantJoined](e)
	if err != nil {
		return err
	}
	_, here := r.seats[p.ParticipantID]
	switch e.Type {
	case tabletop.ParticipantJoinedType:
		err = first(r.claim(p.ParticipantID), r.free(p.Seat), must(p.Name != "", "no name"),
			must((p.Role == tabletop.GameMaster) == (r.master == ""), "one game master, the first to sit down"))
		r.seats[p.ParticipantID] = p.Seat
		if r.master == "" {
			r.master = p.ParticipantID
		}
		if r.joining == p.ParticipantID {
			r.joining = ""
		}
	case tabletop.ParticipantSeatChangedType:
		err = first(must(here, "not at the table"), r.free(p.Seat))
		r.seats[p.ParticipantID] = p.Seat
	case tabletop.ParticipantLeftType:
		err = first(must(here, "not at the table"), must(p.ParticipantID != r.master, "the game master stays"))
		delete(r.seats, p.ParticipantID)
	}
	return err
}

func (r *referee) judgeCharacter(e event.Event) error {
	p, err := read[struct {
		tabletop.CharacterCreated
		Level, Amount, Total int
		Rolls                []int
	}](e)
	if err != nil {
		return err
	}
	if e.Type == tabletop.CharacterCreatedType {
		_, here := r.seats[p.ParticipantID]
		r.characters[p.CharacterID] = &sheet{p.ParticipantID, 1, p.MaxHitPoints, p.MaxHitPoints}
		return first(r.claim(p.CharacterID), must(here, "its player is not at the table"),
			must(p.MaxHitPoints > 0, "stillborn"),
			must(e.AggregateID == p.CharacterID, "about another aggregate"))
	}
	c := r.characters[p.CharacterID]
	if c == nil || e.AggregateID != p.CharacterID {
		return errors.New("no such character")
	}
	switch e.Type {
	case tabletop.CharacterUpdatedType:
		err = first(must(p.Level == c.level+1, "level after %d", c.level), must(p.MaxHitPoints > c.max, "no stronger"))
		c.level, c.max = p.Level, p.MaxHitPoints
	case tabletop.CharacterDamagedType:
		err = first(must(r.session != "", "no session"), must(p.Amount > 0 && p.Amount <= c.have, "it has %d", c.have))
		c.have -= p.Amount
	case tabletop.CharacterHealedType:
		err = first(must(r.session != "", "no session"),
			must(p.Amount > 0 && c.have+p.Amount <= c.max, "it has %d of %d", c.have, c.max))
		c.have += p.Amount
	case tabletop.CharacterDeletedType:
		delete(r.characters, p.CharacterID)
	case tabletop.DiceRolledType:
		sum := 0
		for _, roll := range p.Rolls {
			sum += roll
		}
		err = first(must(r.session != "", "no session"), must(sum == p.Total, "the dice show %d", sum))
	}
	return err
}

func (r *referee) judgeSession(e event.Event) error {
	p, err := read[struct {
		tabletop.SessionStarted
		SceneID string `json:"scene_id"`
	}](e)
	if err != nil {
		return err
	}
	switch e.Type {
	case tabletop.SessionStartedType:
		r.sessions++
		err = first(r.claim(p.SessionID), must(r.session == "", "one is open"),
			must(r.status == tabletop.Active, "the campaign is %s", r.status),
			must(p.Number == r.sessions, "it is number %d", r.sessions))
		r.session = p.SessionID
	case tabletop.SessionEndedType:
		err = first(must(p.SessionID == r.session && r.session != "", "not the open session"),
			must(r.scene == "", "a scene is open"))
		r.session = ""
	case tabletop.SceneStartedType:
		err = first(r.claim(p.SceneID), must(p.SessionID == r.session && r.session != "", "not the open session"),
			must(r.scene == "", "one is open"))
		r.scene = p.SceneID
	case tabletop.SceneEndedType:
		err = first(must(p.SessionID == r.session, "not the open session"),
			must(p.SceneID == r.scene && r.scene != "", "not the open scene"))
		r.scene = ""
	}
	return err
}

func (r *referee) judgeInvite(e event.Event) error {
	p, err := read[tabletop.InviteClaimed](e)
	if err != nil {
		return err
	}
	if e.Type == tabletop.InviteCreatedType {
		r.invites[p.InviteID] = true
		return r.claim(p.InviteID)
	}
	err = must(r.invites[p.InviteID], "not an open invite")
	delete(r.invites, p.InviteID)
	if e.Type == tabletop.InviteClaimedType {
		r.joining = p.ParticipantID
		err = first(err, must(p.ParticipantID != "", "claimed by nobody"))
	}
	return err
}

// endOfDecision returns an error if a decision left something half done.
func (r *referee) endOfDecision() error {
	if r.joining != "" {
		return fmt.Errorf("%s claimed an invite and did not join", r.joining)
	}
	if (r.session == "") != (r.scene == "") {
		return fmt.Errorf("session %q with scene %q", r.session, r.scene)
	}
	for id, c := range r.characters {
		if _, here := r.seats[c.owner]; !here {
			return fmt.Errorf("%s is played by %s, who left", id, c.owner)
		}
	}
	return nil
}

// claim records an id, which must be new in the campaign.
func (r *referee) claim(id string) error {
	if id == "" || r.used[id] {
		return fmt.Errorf("id %q is not new", id)
	}
	r.used[id] = true
	return nil
}

func (r *referee) free(seat int) error {
	for id, taken := range r.seats {
		if taken == seat {
			return fmt.Errorf("%s has seat %d", id, seat)
		}
	}
	return must(seat >= 1 && seat <= 8, "no such seat")
}

func read[T any](e event.Event) (T, error) {
	var v T
	err := json.Unmarshal(e.Payload, &v)
	return v, err
}

func must(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
