package broker

import "github.com/google/uuid"

// line is a JSON line from a sink: an event of a batch, or a health check.
type line struct {
	Event *Arrival `json:"event,omitempty"`
	Last  bool     `json:"last,omitempty"` // end of the batch, expects an answer; without an event it is a health check
}

// Arrival is an event as it arrived.
type Arrival struct {
	From      string    `json:"from"` // the sender's name of its process
	Publisher string    `json:"publisher"`
	Topic     string    `json:"topic"`
	ID        uuid.UUID `json:"id"`
	Type      string    `json:"type"`
	Campaign  string    `json:"campaign"`
	Seq       int64     `json:"seq"`
	Position  int64     `json:"position"`
	Body      []byte    `json:"body"`
}

// answer is the server's answer to a batch.
type answer struct {
	Down    string   `json:"down,omitempty"` // the broker refuses the whole batch
	Refused []denial `json:"refused,omitempty"`
}

// denial is an event that was not accepted.
type denial struct {
	Index    int    `json:"index"`
	Reason   string `json:"reason,omitempty"`
	ForGood  bool   `json:"for_good,omitempty"`
	NotTried bool   `json:"not_tried,omitempty"` // an earlier event of its campaign was refused

	outage bool // the broker is down, the event is not at fault
}
