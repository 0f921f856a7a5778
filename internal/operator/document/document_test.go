package document

import (
	"encoding/json"
	"testing"
)

func TestDocumentsAreOfOneKind(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"CampaignID": "campaign_id", "ID": "id", "PID": "pid",
		"NextAttemptAt": "next_attempt_at", "DerPG": "der_pg", "HTTPAddr": "http_addr",
	} {
		if got := Snake(name); got != want {
			t.Errorf("%s is written %s, want %s", name, got, want)
		}
	}
	got, err := json.Marshal(Of(struct {
		List  []string
		At    *int
		Inner struct{ Raw json.RawMessage }
		Err   error
	}{}))
	if want := `{"at":null,"err":null,"inner":{"raw":null},"list":[]}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}
