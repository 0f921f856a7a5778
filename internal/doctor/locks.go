package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/status"
)

// locks names those that keep others waiting by advisory locks of Tidemark's namespaces, prepared transactions among
// them. Any role that may log in can take such locks.
func locks(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	holders, err := status.Holders(ctx, tx, time.Minute)
	if err != nil {
		return Finding{}, err
	}
	detail, remedies := "no session holds advisory locks of Tidemark's for long", []string{}
	var names []string
	for _, h := range holders {
		names = append(names, fmt.Sprintf("%s since %s", h, h.Since.UTC().Format(time.RFC3339)))
		remedies = append(remedies, h.Remedy)
	}
	if len(holders) > 0 {
		detail = "advisory locks of Tidemark's are held by " + strings.Join(names, "; ")
	}
	return verdict(len(holders) == 0, Warn, detail, strings.Join(remedies, "; ")+
		"; deploy/sql/advisory-locks.sql revokes such locks from other roles: see docs/guides/operations/security.md"), nil
}
