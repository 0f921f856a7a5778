package tabletop

import "github.com/tidemark-go/tidemark/pkg/journal"

// Catalogue says what each type of event is for: all are projected but dice rolls, which are there
// to be replayed, and notes, which are there for the record. It refuses events of any other type.
func Catalogue() (*journal.Catalogue, error) {
	types := []journal.EventType{
		{Name: DiceRolledType, Intent: journal.ReplayOnly},
		{Name: NoteAddedType, Intent: journal.AuditOnly},
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

// projectedTypes are the events that read models are made of.
func projectedTypes() []string {
	return []string{
		CampaignCreatedType, CampaignUpdatedType, CampaignForkedType, CampaignStatusChangedType,
		ParticipantJoinedType, ParticipantLeftType, ParticipantSeatChangedType,
		CharacterCreatedType, CharacterUpdatedType, CharacterDamagedType, CharacterHealedType, CharacterDeletedType,
		SessionStartedType, SessionEndedType, SceneStartedType, SceneEndedType,
		InviteCreatedType, InviteClaimedType, InviteDeclinedType, InviteRevokedType,
	}
}
