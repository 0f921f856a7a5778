package tabletop

import (
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Catalogue returns the catalogue of event types with their intents. All types are projected,
// except dice rolls, which are only replayed, and notes, which are only recorded. It refuses events
// of any other type.
func Catalogue() (*journal.Catalogue, error) {
	types := []journal.EventType{
		{Name: DiceRolledType, Intent: event.ReplayOnly},
		{Name: NoteAddedType, Intent: event.AuditOnly},
	}
	for _, name := range projectedTypes() {
		types = append(types, journal.EventType{Name: name})
	}
	catalogue, err := journal.NewCatalogue(types...)
	if err != nil {
		return nil, err
	}
	return catalogue.RefuseUnknown(), nil
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
