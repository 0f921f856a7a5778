package tabletop

// The types of events. [Catalogue] sets their intents.
const (
	CampaignCreatedType       = "campaign_created"
	CampaignUpdatedType       = "campaign_updated"
	CampaignForkedType        = "campaign_forked"
	CampaignStatusChangedType = "campaign_status_changed"

	ParticipantJoinedType      = "participant_joined"
	ParticipantLeftType        = "participant_left"
	ParticipantSeatChangedType = "participant_seat_changed"

	CharacterCreatedType = "character_created"
	CharacterUpdatedType = "character_updated"
	CharacterDamagedType = "character_damaged"
	CharacterHealedType  = "character_healed"
	CharacterDeletedType = "character_deleted"

	SessionStartedType = "session_started"
	SessionEndedType   = "session_ended"
	SceneStartedType   = "scene_started"
	SceneEndedType     = "scene_ended"

	InviteCreatedType  = "invite_created"
	InviteClaimedType  = "invite_claimed"
	InviteDeclinedType = "invite_declined"
	InviteRevokedType  = "invite_revoked"

	DiceRolledType = "dice_rolled"
	NoteAddedType  = "note_added"
)

// Status is the state of a campaign: draft → active ⇄ paused, active → completed → archived.
type Status string

// The statuses. An archived campaign gets no more events.
const (
	Draft     Status = "draft"
	Active    Status = "active"
	Paused    Status = "paused"
	Completed Status = "completed"
	Archived  Status = "archived"
)

// Role is a participant's role at the table.
type Role string

// The roles. Each campaign has one game master, who takes seat 1 and never leaves.
const (
	GameMaster Role = "game_master"
	Player     Role = "player"
)

// CampaignCreated is the first event of every campaign. The campaign starts as a draft.
type CampaignCreated struct {
	Name   string `json:"name"`
	System string `json:"system"` // the rules of the game
}

// CampaignUpdated renames a campaign or changes its theme. A nil field stays unchanged.
type CampaignUpdated struct {
	Name  *string `json:"name,omitempty"`
	Theme *string `json:"theme,omitempty"`
}

// CampaignForked follows CampaignCreated in a campaign that continues another one as it stood at SourceSeq.
type CampaignForked struct {
	SourceCampaignID string `json:"source_campaign_id"`
	SourceSeq        int64  `json:"source_seq"`
}

// CampaignStatusChanged changes the status of a campaign.
type CampaignStatusChanged struct {
	From Status `json:"from"`
	To   Status `json:"to"`
}

// ParticipantJoined seats a person at the table.
type ParticipantJoined struct {
	ParticipantID string `json:"participant_id"`
	Name          string `json:"name"`
	Role          Role   `json:"role"`
	Seat          int    `json:"seat"` // from 1; one person to a seat
}

// ParticipantLeft frees a seat. The participant's characters are deleted in the same decision.
type ParticipantLeft struct {
	ParticipantID string `json:"participant_id"`
	Reason        string `json:"reason"`
}

// ParticipantSeatChanged moves a participant to a free seat.
type ParticipantSeatChanged struct {
	ParticipantID string `json:"participant_id"`
	Seat          int    `json:"seat"`
}

// CharacterCreated brings a character into play at level 1, with all its hit points.
type CharacterCreated struct {
	CharacterID   string `json:"character_id"`
	ParticipantID string `json:"participant_id"`
	Name          string `json:"name"`
	Class         string `json:"class"`
	MaxHitPoints  int    `json:"max_hit_points"`
}

// CharacterUpdated raises a character's level. Each level raises its maximum hit points, but not
// its current ones.
type CharacterUpdated struct {
	CharacterID  string `json:"character_id"`
	Level        int    `json:"level"`
	MaxHitPoints int    `json:"max_hit_points"`
}

// CharacterDamaged takes hit points from a character, never more than it has.
type CharacterDamaged struct {
	CharacterID string `json:"character_id"`
	Amount      int    `json:"amount"`
	Source      string `json:"source"`
}

// CharacterHealed gives hit points back, up to the character's maximum.
type CharacterHealed struct {
	CharacterID string `json:"character_id"`
	Amount      int    `json:"amount"`
}

// CharacterDeleted takes a character out of play for good.
type CharacterDeleted struct {
	CharacterID string `json:"character_id"`
}

// SessionStarted opens an evening of play. A campaign has at most one open session.
type SessionStarted struct {
	SessionID string `json:"session_id"`
	Number    int    `json:"number"` // 1, 2, 3 … in the campaign
	Title     string `json:"title"`
}

// SessionEnded closes the open session.
type SessionEnded struct {
	SessionID string `json:"session_id"`
	Recap     string `json:"recap"`
}

// SceneStarted opens a scene in the open session. A session has at most one open scene.
type SceneStarted struct {
	SceneID   string `json:"scene_id"`
	SessionID string `json:"session_id"`
	Title     string `json:"title"`
}

// SceneEnded closes the open scene.
type SceneEnded struct {
	SceneID   string `json:"scene_id"`
	SessionID string `json:"session_id"`
	Outcome   string `json:"outcome"`
}

// InviteCreated asks a person to join. It is open until it is claimed, declined or revoked.
type InviteCreated struct {
	InviteID  string `json:"invite_id"`
	Recipient string `json:"recipient"`
}

// InviteClaimed answers an invite with yes. The participant joins in the same decision.
type InviteClaimed struct {
	InviteID      string `json:"invite_id"`
	ParticipantID string `json:"participant_id"`
}

// InviteDeclined answers an invite with no.
type InviteDeclined struct {
	InviteID string `json:"invite_id"`
}

// InviteRevoked takes an open invite back.
type InviteRevoked struct {
	InviteID string `json:"invite_id"`
}

// DiceRolled is kept to replay a fight; no read model shows it.
type DiceRolled struct {
	CharacterID string `json:"character_id"`
	Dice        string `json:"dice"` // e.g. "2d6"
	Rolls       []int  `json:"rolls"`
	Total       int    `json:"total"`
}

// NoteAdded is a remark of the game master, kept for the record only.
type NoteAdded struct {
	Text string `json:"text"`
}
