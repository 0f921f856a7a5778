package harness

import (
	"encoding/json"
	"fmt"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// The workload: characters of tabletop campaigns take damage, and a table keeps the sum for each.
// Every side that writes a read model runs this same UPSERT for every event.
const (
	CreateCharacters = `
		CREATE TABLE characters (
			campaign_id  text COLLATE "C" NOT NULL,
			character_id text COLLATE "C" NOT NULL,
			damage       bigint NOT NULL,
			events       bigint NOT NULL,
			PRIMARY KEY (campaign_id, character_id)
		)`

	UpsertCharacter = `
		INSERT INTO characters (campaign_id, character_id, damage, events)
		VALUES ($1, $2, $3, 1)
		ON CONFLICT (campaign_id, character_id) DO UPDATE
		SET damage = characters.damage + EXCLUDED.damage, events = characters.events + 1`

	// UpsertPayload is the UPSERT of projections/characters.sql with its fields as parameters.
	UpsertPayload = `
		INSERT INTO characters (campaign_id, character_id, damage, events)
		VALUES ($1, $2::jsonb ->> 'character_id', ($2::jsonb ->> 'damage')::bigint, 1)
		ON CONFLICT (campaign_id, character_id) DO UPDATE
		SET damage = characters.damage + EXCLUDED.damage, events = characters.events + 1`

	CountCharacters = `SELECT coalesce(sum(events), 0)::bigint FROM characters`
	CountDocuments  = `SELECT coalesce(sum((doc ->> 'events')::bigint), 0)::bigint FROM characters`

	// CreateCharactersAcross and UpsertCharacterAcross are the same for characters that go from campaign
	// to campaign.
	CreateCharactersAcross = `
		CREATE TABLE characters (
			character_id text COLLATE "C" PRIMARY KEY,
			damage       bigint NOT NULL,
			events       bigint NOT NULL
		)`

	UpsertCharacterAcross = `
		INSERT INTO characters (character_id, damage, events)
		VALUES ($1, $2, 1)
		ON CONFLICT (character_id) DO UPDATE
		SET damage = characters.damage + EXCLUDED.damage, events = characters.events + 1`
)

const (
	EventType             = "damage_taken"
	charactersPerCampaign = 10
	AppendCampaigns       = 100 // for each client, in turn
)

// DamageTaken is the payload of the one event type.
type DamageTaken struct {
	CharacterID string `json:"character_id"`
	Damage      int64  `json:"damage"`
	Source      string `json:"source"`
}

// Workload is the size of a backlog.
type Workload struct {
	Campaigns int
	Events    int // in each campaign
	// Whole keeps the one work item that each campaign's append wrote. Otherwise there is one for
	// each event.
	Whole bool
	// Characters is the number of characters that go from campaign to campaign, each event the next one's.
	// 0: each campaign has its own.
	Characters int
}

// characterStride and the number of characters have no common divisor, so each has the same share.
const characterStride = 7919

// CharacterAt returns the number of the character that event seq of campaign i is about, and how many
// events the character has had before, if the journal is in the order of campaigns.
func (w Workload) CharacterAt(i int, seq int64) (character, before int) {
	n := i*w.Events + int(seq) - 1
	return n * characterStride % w.Characters, n / w.Characters
}

// events returns the events of campaign i.
func (w Workload) events(i int) ([]event.Event, error) {
	events := make([]event.Event, w.Events)
	for j := range events {
		d := DamageAt(j + 1)
		if w.Characters > 0 {
			n, _ := w.CharacterAt(i, int64(j+1))
			d.CharacterID = fmt.Sprintf("character-%d", n)
		}
		payload, err := json.Marshal(d)
		if err != nil {
			return nil, fmt.Errorf("encode event %d: %w", j+1, err)
		}
		events[j] = event.Event{Type: EventType, Payload: payload}
	}
	return events, nil
}

// Total returns the number of events in all campaigns.
func (w Workload) Total() int { return w.Campaigns * w.Events }

// CampaignID returns the id of campaign i. Ids sort like their numbers.
func CampaignID(i int) string { return fmt.Sprintf("campaign-%07d", i) }

// DamageAt returns the event at place seq of a campaign.
func DamageAt(seq int) DamageTaken {
	return DamageTaken{
		CharacterID: fmt.Sprintf("character-%d", seq%charactersPerCampaign),
		Damage:      int64(seq%17 + 1),
		Source:      "a goblin with a rusty spoon",
	}
}

// DamagePayload returns DamageAt as JSON.
func DamagePayload(seq int) (json.RawMessage, error) {
	payload, err := json.Marshal(DamageAt(seq))
	if err != nil {
		return nil, fmt.Errorf("encode event %d: %w", seq, err)
	}
	return payload, nil
}
