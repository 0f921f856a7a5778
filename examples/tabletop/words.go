package tabletop

import (
	"math/rand/v2"
	"strings"
)

// words are the parts of names, titles and remarks.
type words struct {
	adjectives, places, systems, people, heroes, classes, foes, remarks []string
}

func newWords() words {
	return words{
		adjectives: strings.Fields("Ashen Brazen Crooked Drowned Emerald Forgotten Gilded Hollow Iron Last Moonlit " +
			"Restless Salted Silent Sunken Whispering"),
		places: strings.Fields("Abbey Bridge Citadel Coast Crown Forest Gate Harbour Library Marsh Mine Oath Road " +
			"Throne Tower Vale"),
		systems: strings.Fields("hexcrawl dungeon-rules starfarer gaslight pulp-dice"),
		people: strings.Fields("Ada Bela Chidi Dana Emre Fatou Goran Hana Ines Jonas Kaito Lena Mira Noor Olaf Priya " +
			"Quinn Rosa Sami Tove Uma Vik Wen Yara Zoë"),
		heroes: strings.Fields("Aldric Brannoch Cyra Dorn Elowen Fenn Grimnir Hestia Isolde Jarek Kestrel Lirien " +
			"Morwen Nyx Orin Pell Rook Sable Thorne Vesper"),
		classes: strings.Fields("bard cleric druid fighter ranger rogue scholar warlock wizard"),
		foes:    strings.Fields("bandit drake ghoul harpy mimic ogre trap wraith wyrm"),
		remarks: strings.Split("they bought a goat; ask about the missing map|the baron lied, nobody noticed|start with "+
			"the flood next time|"+
			"“who holds the lantern?”|level up after the bridge|the d20 is cursed \U0001f3b2|owed: 30 silver to the "+
			"ferryman", "|"),
	}
}

func pick(rng *rand.Rand, from []string) string { return from[rng.IntN(len(from))] }

// place returns a name for a campaign, a session or a scene.
func (w *words) place(rng *rand.Rand) string {
	return "The " + pick(rng, w.adjectives) + " " + pick(rng, w.places)
}
