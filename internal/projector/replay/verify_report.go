package replay

import (
	"errors"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/pkg/lookback"
)

// validate returns the mistake of a request.
func validate(r lookback.VerifyRequest) error {
	ways := []bool{len(r.Campaigns) > 0, r.Sample > 0, r.All}
	if slice.Count(ways, func(given bool) bool { return given }) != 1 {
		return errors.New("what to verify is one of Campaigns, Sample and All")
	}
	return nil
}
