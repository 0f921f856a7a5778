package pages

import (
	"encoding/json"
	"strconv"

	"github.com/tidemark-go/tidemark/internal/admin"
)

const operationPath = "/bulk/operation?id="

// operationOf answers the address of the operation that an act has begun; "": it has begun none.
func operationOf(o *admin.Outcome) string {
	var op admin.Operation
	if o == nil || json.Unmarshal(o.Detail, &op) != nil || op.ID == 0 || op.Kind == "" {
		return ""
	}
	return operationPath + strconv.FormatInt(op.ID, 10)
}
