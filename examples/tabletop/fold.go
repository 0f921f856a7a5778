package tabletop

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// readModel is the expected content of the tables, computed from the journal by plain code that
// shares only the payload types with the projections. It grows with the read model, not with the
// journal.
type readModel struct {
	events         int64 // of this domain in the journal, of any intent
	since          int64 // those of them after the requested position
	campaigns      map[rowKey]campaignRow
	participants   map[rowKey]participantRow
	characters     map[rowKey]characterRow
	sessions       map[rowKey]sessionRow
	activeSessions map[rowKey]activeSessionRow
	invites        map[rowKey]inviteRow
	players        map[rowKey]playerRow
	leaderboard    map[rowKey]leaderRow
}

// fold reads the whole journal in the order of positions. It skips events of other domains.
func fold(ctx context.Context, db event.Querier, since int64) (*readModel, error) {
	m := &readModel{
		campaigns:      map[rowKey]campaignRow{},
		participants:   map[rowKey]participantRow{},
		characters:     map[rowKey]characterRow{},
		sessions:       map[rowKey]sessionRow{},
		activeSessions: map[rowKey]activeSessionRow{},
		invites:        map[rowKey]inviteRow{},
		players:        map[rowKey]playerRow{},
		leaderboard:    map[rowKey]leaderRow{},
	}
	for e, err := range journal.ReadAll(ctx, db, 0) {
		if err != nil {
			return nil, err
		}
		known, err := m.add(e)
		if err != nil {
			return nil, fmt.Errorf("fold %s, event %d of campaign %s: %w", e.Type, e.Seq, e.CampaignID, err)
		}
		if known && e.Position > since {
			m.since++
		}
	}
	return m, nil
}

// add applies one event of this domain. Each case decodes its payload by itself, because this is
// the independent check.
func (m *readModel) add(e event.Event) (known bool, err error) {
	switch e.Type {
	case CampaignCreatedType, CampaignUpdatedType, CampaignForkedType, CampaignStatusChangedType:
		err = m.addCampaign(e)
	case ParticipantJoinedType, ParticipantLeftType, ParticipantSeatChangedType:
		err = m.addParticipant(e)
	case CharacterCreatedType, CharacterUpdatedType, CharacterDamagedType, CharacterHealedType, CharacterDeletedType:
		err = m.addCharacter(e)
	case SessionStartedType, SessionEndedType, SceneStartedType, SceneEndedType:
		err = m.addSession(e)
	case InviteCreatedType, InviteClaimedType, InviteDeclinedType, InviteRevokedType:
		err = m.addInvite(e)
	case DiceRolledType, NoteAddedType: // not in any read model
	default:
		return false, nil
	}
	m.events++
	if e.Intent == event.ProjectionAndReplay {
		update(m.campaigns, campaignKey(e), func(c *campaignRow) { c.Events++ })
	}
	return true, err
}

func (m *readModel) addCampaign(e event.Event) error {
	var payload struct {
		CampaignCreated
		Theme  *string `json:"theme"`
		Source string  `json:"source_campaign_id"`
		To     Status  `json:"to"`
	}
	if err := json.Unmarshal(e.Payload, &payload); err != nil {
		return err
	}
	update(m.campaigns, campaignKey(e), func(c *campaignRow) {
		switch e.Type {
		case CampaignCreatedType:
			c.Name, c.System, c.Status = payload.Name, payload.System, "draft"
		case CampaignUpdatedType:
			if payload.Name != "" {
				c.Name = payload.Name
			}
			if payload.Theme != nil {
				c.Theme = *payload.Theme
			}
		case CampaignForkedType:
			c.ForkedFrom = payload.Source
		case CampaignStatusChangedType:
			c.Status = string(payload.To)
		}
	})
	return nil
}

func (m *readModel) addParticipant(e event.Event) error {
	var p ParticipantJoined // the other two types have a subset of its fields
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	key := rowKey{e.CampaignID, p.ParticipantID}
	switch e.Type {
	case ParticipantJoinedType:
		m.participants[key] = participantRow{
			Name: p.Name, Role: string(p.Role), Seat: p.Seat,
			JoinedAt: instantOf(e.OccurredAt),
		}
		update(m.campaigns, campaignKey(e), func(c *campaignRow) { c.Participants++ })
		m.addPlayer(e, p)
	case ParticipantSeatChangedType:
		update(m.participants, key, func(r *participantRow) { r.Seat = p.Seat })
	case ParticipantLeftType:
		update(m.participants, key, func(r *participantRow) { r.Seat, r.LeftAt = 0, instantOf(e.OccurredAt) })
		update(m.campaigns, campaignKey(e), func(c *campaignRow) { c.Participants-- })
	}
	return nil
}

// addPlayer adds a table to the rows of a person. Positions grow, so the latest is this one.
func (m *readModel) addPlayer(e event.Event, p ParticipantJoined) {
	update(m.players, rowKey{id: p.Name}, func(r *playerRow) {
		r.Joined++
		tables := append([]string{e.CampaignID + " " + string(p.Role)}, strings.Split(r.Tables, ", ")...)
		r.Tables = strings.TrimSuffix(strings.Join(tables[:min(5, len(tables))], ", "), ", ")
	})
	update(m.leaderboard, rowKey{id: p.Name}, func(r *leaderRow) {
		r.Joined++
		r.LatestAt = instantOf(e.OccurredAt)
		if p.Role == GameMaster {
			r.Led++
		}
	})
}

func (m *readModel) addCharacter(e event.Event) error {
	var p struct {
		CharacterCreated
		Level  int `json:"level"`
		Amount int `json:"amount"`
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	key := rowKey{e.CampaignID, p.CharacterID}
	switch e.Type {
	case CharacterCreatedType:
		m.characters[key] = characterRow{
			ParticipantID: p.ParticipantID, Name: p.Name, Class: p.Class, Level: 1, HitPoints: p.MaxHitPoints,
			MaxHitPoints: p.MaxHitPoints,
		}
		update(m.campaigns, campaignKey(e), func(c *campaignRow) { c.Characters++ })
	case CharacterUpdatedType:
		update(m.characters, key, func(r *characterRow) { r.Level, r.MaxHitPoints = p.Level, p.MaxHitPoints })
	case CharacterDamagedType:
		update(m.characters, key, func(r *characterRow) { r.HitPoints -= p.Amount })
	case CharacterHealedType:
		update(m.characters, key, func(r *characterRow) { r.HitPoints += p.Amount })
	case CharacterDeletedType:
		delete(m.characters, key)
		update(m.campaigns, campaignKey(e), func(c *campaignRow) { c.Characters-- })
	}
	return nil
}

func (m *readModel) addSession(e event.Event) error {
	var p struct {
		SessionStarted
		SceneID string `json:"scene_id"`
		Recap   string `json:"recap"`
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	key, active := rowKey{e.CampaignID, p.SessionID}, campaignKey(e)
	switch e.Type {
	case SessionStartedType:
		at := instantOf(e.OccurredAt)
		m.sessions[key] = sessionRow{Number: p.Number, Title: p.Title, StartedAt: at}
		m.activeSessions[active] = activeSessionRow{SessionID: p.SessionID, StartedAt: at}
		update(m.campaigns, campaignKey(e), func(c *campaignRow) { c.Sessions++ })
	case SceneStartedType:
		update(m.sessions, key, func(r *sessionRow) { r.Scenes++ })
		update(m.activeSessions, active, func(r *activeSessionRow) { r.SceneID, r.SceneTitle = p.SceneID, p.Title })
	case SceneEndedType:
		update(m.activeSessions, active, func(r *activeSessionRow) { r.SceneID, r.SceneTitle = "", "" })
	case SessionEndedType:
		update(m.sessions, key, func(r *sessionRow) { r.EndedAt, r.Recap = instantOf(e.OccurredAt), p.Recap })
		delete(m.activeSessions, active)
	}
	return nil
}

func (m *readModel) addInvite(e event.Event) error {
	var p struct {
		InviteCreated
		ParticipantID string `json:"participant_id"`
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	key, at := rowKey{e.CampaignID, p.InviteID}, instantOf(e.OccurredAt)
	if e.Type == InviteCreatedType {
		m.invites[key] = inviteRow{Recipient: p.Recipient, Status: "open", CreatedAt: at}
		update(m.players, rowKey{id: p.Recipient}, func(r *playerRow) { r.Invites++ })
		return nil
	}
	status := map[string]string{
		InviteClaimedType: "claimed", InviteDeclinedType: "declined",
		InviteRevokedType: "revoked",
	}[e.Type]
	update(m.invites, key, func(r *inviteRow) { r.Status, r.SettledAt, r.ParticipantID = status, at, p.ParticipantID })
	return nil
}

func campaignKey(e event.Event) rowKey { return rowKey{e.CampaignID, e.CampaignID} }

// update changes a row in place, or adds a new one.
func update[R any](rows map[rowKey]R, key rowKey, change func(*R)) {
	row := rows[key]
	change(&row)
	rows[key] = row
}
