package tabletop

import (
	"fmt"
	"slices"
)

// The limits of a table. They bound the generator's memory, whatever is played.
const (
	seats         = 8
	openInvites   = 4
	maxCharacters = 12
	maxLevel      = 20
)

// game is the generator's state of a campaign: enough to know which moves the rules allow.
type game struct {
	id         string
	seq        int64
	status     Status
	people     []person // the game master first
	characters []character
	invites    []string // open ones
	session    string   // the open one; "": none
	scene      string   // the open one; "": none
	sessions   int      // started so far
	named      int      // ids handed out so far
}

type person struct {
	id   string
	name string
	role Role
	seat int
}

type character struct {
	id, owner, name, class string
	level                  int
	hitPoints, most        int
}

// newID returns an id for something new in the campaign.
func (g *game) newID(kind string) string {
	id := g.nextID(kind)
	g.named++
	return id
}

// nextID returns the id that newID will return next.
func (g *game) nextID(kind string) string { return fmt.Sprintf("%s-%d", kind, g.named+1) }

func (g *game) seatTaken(seat int) bool {
	return slices.ContainsFunc(g.people, func(p person) bool { return p.seat == seat })
}

func (g *game) freeSeat() int {
	for seat := 1; seat <= seats; seat++ {
		if !g.seatTaken(seat) {
			return seat
		}
	}
	return 0
}

func (g *game) inSession() bool { return g.session != "" }

// living returns the indexes of the characters with hit points left.
func (g *game) living() []int {
	return g.charactersThat(func(c character) bool { return c.hitPoints > 0 })
}

func (g *game) wounded() []int {
	return g.charactersThat(func(c character) bool { return c.hitPoints < c.most })
}

func (g *game) fallen() []int {
	return g.charactersThat(func(c character) bool { return c.hitPoints == 0 })
}

func (g *game) unfinished() []int {
	return g.charactersThat(func(c character) bool { return c.level < maxLevel })
}

func (g *game) charactersThat(match func(character) bool) []int {
	var found []int
	for i, c := range g.characters {
		if match(c) {
			found = append(found, i)
		}
	}
	return found
}
