package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/tidemark-go/tidemark/internal/admin"
)

// repairGaps has workers look for gaps of a group, and repair them.
func repairGaps(
	ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request,
) (*admin.Outcome, string, error) {
	group := r.PostFormValue("group")
	o, err := a.StartRepair(ctx, req, admin.GapRepair{Group: group})
	if err != nil {
		return nil, "", err
	}
	return o, fmt.Sprintf("Operation %d has begun: workers look for gaps of group %s and repair them. See Bulk acts "+
		"for what they find.", numberOf(o), group), nil
}

// republish has a worker send a slice of a campaign to a publisher again.
func republish(ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request) (*admin.Outcome, string, error) {
	key := publicationOf(r)
	from, err := number(r, "from", 1)
	if err != nil {
		return nil, "", err
	}
	until, err := number(r, "until", 0)
	if err != nil {
		return nil, "", err
	}
	o, err := a.StartRepublication(ctx, req, admin.Republication{
		Topic: key.Topic, Publisher: key.Publisher,
		CampaignID: r.PostFormValue("campaign"), From: from, Until: until,
	})
	if err != nil {
		return nil, "", err
	}
	return o, fmt.Sprintf("Operation %d has begun: a worker that has %s sends the events of %s again. See Bulk acts "+
		"for how far it is.", numberOf(o), key, short(r.PostFormValue("campaign"))), nil
}

const operationPath = "/bulk/operation?id="

// operationOf answers the address of the operation that an act has begun; "": it has begun none.
func operationOf(o *admin.Outcome) string {
	var op admin.Operation
	if o == nil || json.Unmarshal(o.Detail, &op) != nil || op.ID == 0 || op.Kind == "" {
		return ""
	}
	return operationPath + strconv.FormatInt(op.ID, 10)
}

// numberOf answers the number of the operation that an act has begun.
func numberOf(o *admin.Outcome) int64 {
	var op admin.Operation
	_ = json.Unmarshal(o.Detail, &op)
	return op.ID
}
