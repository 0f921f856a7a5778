package tabletop

import "slices"

// found begins a campaign with only its game master.
func (t *turn) found() {
	t.create(pick(t.rng, t.words.systems))
	t.seat(pick(t.rng, t.words.people), GameMaster)
}

// fork begins a campaign with the people and the characters of source. The characters start at
// level 1.
func (t *turn) fork(source *game) {
	t.create(pick(t.rng, t.words.systems))
	t.emit(CampaignForkedType, "campaign", t.id, CampaignForked{SourceCampaignID: source.id, SourceSeq: source.seq})
	copies := make(map[string]string, len(source.people))
	for _, p := range source.people {
		copies[p.id] = t.seat(p.name, p.role)
	}
	for _, c := range source.characters {
		t.bringIn(copies[c.owner], c.name, c.class)
	}
}

func (t *turn) create(system string) {
	t.status = Draft
	t.emit(CampaignCreatedType, "campaign", t.id, CampaignCreated{Name: t.words.place(t.rng), System: system})
}

func (t *turn) updateCampaign() {
	var changed CampaignUpdated
	if name := t.words.place(t.rng); t.rng.IntN(3) == 0 {
		changed.Name = &name
	}
	if theme := pick(t.rng, t.words.adjectives); changed.Name == nil || t.rng.IntN(2) == 0 {
		changed.Theme = &theme
	}
	t.emit(CampaignUpdatedType, "campaign", t.id, changed)
}

func (t *turn) takeNote() {
	t.emit(NoteAddedType, "note", t.newID("note"), NoteAdded{Text: pick(t.rng, t.words.remarks)})
}

// seat gives a person the first free seat and returns the participant's id.
func (t *turn) seat(name string, role Role) string {
	p := person{id: t.newID("participant"), name: name, role: role, seat: t.freeSeat()}
	t.people = append(t.people, p)
	t.actor = p.id
	t.emit(ParticipantJoinedType, "participant", p.id,
		ParticipantJoined{ParticipantID: p.id, Name: p.name, Role: p.role, Seat: p.seat})
	return p.id
}

// player draws the index of a person other than the game master.
func (t *turn) player() int { return 1 + t.rng.IntN(len(t.people)-1) }

func (t *turn) changeSeat() {
	p := &t.people[t.player()]
	p.seat = t.freeSeat()
	t.actor = p.id
	t.emit(ParticipantSeatChangedType, "participant", p.id, ParticipantSeatChanged{ParticipantID: p.id, Seat: p.seat})
}

func (t *turn) leave() {
	leaving := t.player()
	p := t.people[leaving]
	t.actor = p.id
	for _, c := range t.characters {
		if c.owner == p.id {
			t.emit(CharacterDeletedType, "character", c.id, CharacterDeleted{CharacterID: c.id})
		}
	}
	t.characters = slices.DeleteFunc(t.characters, func(c character) bool { return c.owner == p.id })
	t.people = slices.Delete(t.people, leaving, leaving+1)
	t.emit(ParticipantLeftType, "participant", p.id,
		ParticipantLeft{ParticipantID: p.id, Reason: pick(t.rng, t.words.remarks)})
}

func (t *turn) invite() {
	id := t.newID("invite")
	t.invites = append(t.invites, id)
	t.emit(InviteCreatedType, "invite", id, InviteCreated{InviteID: id, Recipient: pick(t.rng, t.words.people)})
}

// settle removes an open invite from the list and returns its id.
func (t *turn) settle() string {
	i := t.rng.IntN(len(t.invites))
	id := t.invites[i]
	t.invites = slices.Delete(t.invites, i, i+1)
	return id
}

func (t *turn) claimInvite() {
	id := t.settle()
	// The id that the participant is about to get: both events belong to one decision.
	t.emit(InviteClaimedType, "invite", id, InviteClaimed{InviteID: id, ParticipantID: t.nextID("participant")})
	t.seat(pick(t.rng, t.words.people), Player)
}

func (t *turn) declineInvite() {
	id := t.settle()
	t.emit(InviteDeclinedType, "invite", id, InviteDeclined{InviteID: id})
}

func (t *turn) revokeInvite() {
	id := t.settle()
	t.emit(InviteRevokedType, "invite", id, InviteRevoked{InviteID: id})
}
