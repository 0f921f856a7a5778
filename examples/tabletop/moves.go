package tabletop

// move is something that can happen at a table: its frequency, when the rules allow it, and the
// events it emits.
type move struct {
	weight  int
	allowed func(*game) bool
	play    func(*turn)
}

func moves() []move {
	open := func(g *game) bool { return g.status != Completed }
	between := func(g *game) bool { return g.status == Active && !g.inSession() }
	return []move{
		{30, func(g *game) bool { return g.inSession() && len(g.living()) > 0 }, (*turn).attack},
		{12, func(g *game) bool { return g.inSession() && len(g.wounded()) > 0 }, (*turn).heal},
		{16, func(g *game) bool { return g.inSession() && len(g.characters) > 0 }, (*turn).check},
		{6, func(g *game) bool { return g.inSession() }, (*turn).changeScene},
		{3, func(g *game) bool { return g.inSession() }, (*turn).endSession},
		{20, func(g *game) bool { return between(g) && len(g.characters) > 0 }, (*turn).startSession},

		{8, func(g *game) bool { return open(g) && len(g.invites) < openInvites && g.freeSeat() > 0 }, (*turn).invite},
		{10, func(g *game) bool { return open(g) && len(g.invites) > 0 && g.freeSeat() > 0 }, (*turn).claimInvite},
		{2, func(g *game) bool { return len(g.invites) > 0 }, (*turn).declineInvite},
		{1, func(g *game) bool { return len(g.invites) > 0 }, (*turn).revokeInvite},
		{2, func(g *game) bool { return open(g) && len(g.people) > 1 && g.freeSeat() > 0 }, (*turn).changeSeat},
		{1, func(g *game) bool { return open(g) && len(g.people) > 2 }, (*turn).leave},

		{
			10, func(g *game) bool { return open(g) && len(g.people) > 1 && len(g.characters) < maxCharacters },
			(*turn).createCharacter,
		},
		{4, func(g *game) bool { return open(g) && len(g.unfinished()) > 0 }, (*turn).levelUp},
		{8, func(g *game) bool { return len(g.fallen()) > 0 }, (*turn).bury},

		{2, open, (*turn).updateCampaign},
		{20, func(g *game) bool { return g.status == Draft && len(g.people) > 1 }, becomes(Active)},
		{1, between, becomes(Paused)},
		{10, func(g *game) bool { return g.status == Paused }, becomes(Active)},
		{1, func(g *game) bool { return between(g) && g.sessions >= 5 }, becomes(Completed)},
		{10, func(g *game) bool { return g.status == Completed && len(g.invites) == 0 }, becomes(Archived)},
		{5, func(*game) bool { return true }, (*turn).takeNote},
	}
}

func becomes(to Status) func(*turn) {
	return func(t *turn) {
		t.emit(CampaignStatusChangedType, "campaign", t.id, CampaignStatusChanged{From: t.status, To: to})
		t.status = to
	}
}
