package acts

import (
	"context"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

// Rotated is the outcome of wrapping keys anew.
type Rotated struct {
	Rotated int64 `json:"rotated"`
}

func keyActs() []*Act {
	return []*Act{
		define(Act{
			Kind: admin.ActRotateKeys, Name: "rotateKeys", Command: "keys rotate", Path: "/keys/rotate",
			Short: "Wrap the keys of subjects by the first wrapping key",
			Long: "Wrap the keys of subjects by the first wrapping key; the others must be given too. It changes some " +
				"hundred keys in a statement, beside appends and reads. One that was interrupted goes on where it stopped. " +
				"When every program has the new wrapping key first and this finds nothing more, the others are not needed.",
			Examples: []string{"keys rotate --wrapping-keys wrapping-keys"},
			NoForm:   true,
		}, func(_ *struct{}, d *does) {
			d.Alone = func(ctx context.Context, db *admin.Recorder) (any, error) {
				sealer := db.Catalogue.Sealer()
				if sealer == nil {
					return nil, fmt.Errorf("%w: there are no wrapping keys", admin.ErrNotHere)
				}
				if err := onRecord(ctx, db); err != nil { // before it begins
					return nil, err
				}
				n, err := sealer.Rotate(ctx, db)
				return Rotated{n}, err
			}
			d.Told = func(done *admin.Outcome) Told {
				return Told{Text: fmt.Sprintf("Wrapped %s anew.", table.Count(detail[Rotated](done).Rotated, "key"))}
			}
		}),
	}
}
