package tabletop

import (
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Catalogue returns the catalogue of event types with their intents. All types are projected,
// except dice rolls, which are only replayed, and notes, which are only recorded. It refuses events
// of any other type.
func Catalogue() (*catalogue.Catalogue, error) {
	all := []catalogue.EventType{
		{Name: DiceRolledType, Intent: event.ReplayOnly},
		{Name: NoteAddedType, Intent: event.AuditOnly},
	}
	for _, name := range projectedTypes() {
		all = append(all, catalogue.EventType{Name: name})
	}
	types, err := catalogue.New(all...)
	if err != nil {
		return nil, err
	}
	return types.RefuseUnknown(), nil
}

// projectedTypes returns the event types that the read models use.
func projectedTypes() []string {
	return []string{
		CampaignCreatedType, CampaignUpdatedType, CampaignForkedType, CampaignStatusChangedType,
		ParticipantJoinedType, ParticipantLeftType, ParticipantSeatChangedType,
		CharacterCreatedType, CharacterUpdatedType, CharacterDamagedType, CharacterHealedType, CharacterDeletedType,
		SessionStartedType, SessionEndedType, SceneStartedType, SceneEndedType,
		InviteCreatedType, InviteClaimedType, InviteDeclinedType, InviteRevokedType,
	}
}
