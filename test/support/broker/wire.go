package broker

import "github.com/google/uuid"

// line is what a sink writes: an event of a batch, or a question whether the broker is there. Each is a line of JSON.
type line struct {
	Event *Arrival `json:"event,omitempty"`
	Last  bool     `json:"last,omitempty"` // of its batch: an answer is due. Without an event it is the question
}

// Arrival is an event as it arrives.
type Arrival struct {
	From      string    `json:"from"` // the sink's own name for its process
	Publisher string    `json:"publisher"`
	Topic     string    `json:"topic"`
	ID        uuid.UUID `json:"id"`
	Type      string    `json:"type"`
	Campaign  string    `json:"campaign"`
	Seq       int64     `json:"seq"`
	Position  int64     `json:"position"`
	Body      []byte    `json:"body"`
}

// answer is what the server writes for a batch.
type answer struct {
	Down    string   `json:"down,omitempty"` // none of the batch is taken
	Refused []denial `json:"refused,omitempty"`
}

// denial is an event that was not taken.
type denial struct {
	Index    int    `json:"index"`
	Reason   string `json:"reason,omitempty"`
	ForGood  bool   `json:"for_good,omitempty"`
	NotTried bool   `json:"not_tried,omitempty"` // one before it in its campaign was not taken

	outage bool // the broker takes nothing; the event is not at fault
}
