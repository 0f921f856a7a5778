package tabletop

import (
	"fmt"
	"slices"
)

func (t *turn) createCharacter() {
	owner := t.people[t.player()].id
	t.actor = owner
	t.bringIn(owner, pick(t.rng, t.words.heroes), pick(t.rng, t.words.classes))
}

func (t *turn) bringIn(owner, name, class string) {
	c := character{id: t.newID("character"), owner: owner, name: name, class: class, level: 1, most: 8 + t.rng.IntN(12)}
	c.hitPoints = c.most
	t.characters = append(t.characters, c)
	t.emit(CharacterCreatedType, "character", c.id, CharacterCreated{
		CharacterID: c.id, ParticipantID: c.owner, Name: c.name, Class: c.class, MaxHitPoints: c.most,
	})
}

// oneOf draws one of the characters at the given indexes.
func (t *turn) oneOf(indexes []int) *character {
	return &t.characters[indexes[t.rng.IntN(len(indexes))]]
}

func (t *turn) levelUp() {
	c := t.oneOf(t.unfinished())
	c.level++
	c.most += 1 + t.rng.IntN(8)
	t.actor = c.owner
	t.emit(CharacterUpdatedType, "character", c.id,
		CharacterUpdated{CharacterID: c.id, Level: c.level, MaxHitPoints: c.most})
}

func (t *turn) bury() {
	buried := t.fallen()[0]
	c := t.characters[buried]
	t.characters = slices.Delete(t.characters, buried, buried+1)
	t.emit(CharacterDeletedType, "character", c.id, CharacterDeleted{CharacterID: c.id})
}

// roll rolls dice for a character and returns the sum.
func (t *turn) roll(c *character, dice int) int {
	rolled := DiceRolled{CharacterID: c.id, Dice: fmt.Sprintf("%dd6", dice), Rolls: make([]int, dice)}
	for i := range rolled.Rolls {
		rolled.Rolls[i] = 1 + t.rng.IntN(6)
		rolled.Total += rolled.Rolls[i]
	}
	t.actor = c.owner
	t.emit(DiceRolledType, "character", c.id, rolled)
	return rolled.Total
}

func (t *turn) check() { t.roll(&t.characters[t.rng.IntN(len(t.characters))], 3) }

func (t *turn) attack() {
	c := t.oneOf(t.living())
	amount := min(t.roll(c, 1), c.hitPoints)
	c.hitPoints -= amount
	t.emit(CharacterDamagedType, "character", c.id,
		CharacterDamaged{CharacterID: c.id, Amount: amount, Source: pick(t.rng, t.words.foes)})
}

func (t *turn) heal() {
	c := t.oneOf(t.wounded())
	amount := min(1+t.rng.IntN(8), c.most-c.hitPoints)
	c.hitPoints += amount
	t.emit(CharacterHealedType, "character", c.id, CharacterHealed{CharacterID: c.id, Amount: amount})
}

func (t *turn) startSession() {
	t.sessions++
	t.session = t.newID("session")
	t.emit(SessionStartedType, "session", t.session,
		SessionStarted{SessionID: t.session, Number: t.sessions, Title: t.words.place(t.rng)})
	t.openScene()
}

func (t *turn) endSession() {
	t.closeScene()
	t.emit(SessionEndedType, "session", t.session, SessionEnded{SessionID: t.session, Recap: pick(t.rng, t.words.remarks)})
	t.session = ""
}

func (t *turn) changeScene() {
	t.closeScene()
	t.openScene()
}

func (t *turn) openScene() {
	t.scene = t.newID("scene")
	t.emit(SceneStartedType, "scene", t.scene, SceneStarted{
		SceneID: t.scene, SessionID: t.session,
		Title: t.words.place(t.rng),
	})
}

func (t *turn) closeScene() {
	t.emit(SceneEndedType, "scene", t.scene, SceneEnded{
		SceneID: t.scene, SessionID: t.session,
		Outcome: pick(t.rng, t.words.remarks),
	})
	t.scene = ""
}
