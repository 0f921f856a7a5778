package acts

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/store/keys"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
)

// Rotated is the outcome of wrapping keys anew.
type Rotated struct {
	Rotated int64 `json:"rotated"`
}

// Trusted is how many of some keys of a wrapping key's name it opens.
type Trusted struct {
	Opens int `json:"opens"`
	Of    int `json:"of"`
}

func (t Trusted) String() string {
	if t.Of == 0 {
		return "there are no keys of that name"
	}
	return fmt.Sprintf("it opens %d of %d keys of that name", t.Opens, t.Of)
}

type trustedKey struct {
	Name string `arg:"NAME" help:"the wrapping key's name, as its file or the program has it"`
}

type keyDeletion struct {
	ID string `arg:"ID" help:"the key's id, which errors and sealed fields name"`
}

func keyActs() []*Act {
	return []*Act{
		trustKey(),
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
				sealer, err := sealerOf(db.Catalogue)
				if err == nil {
					err = onRecord(ctx, db) // before it begins
				}
				if err != nil {
					return nil, err
				}
				n, err := sealer.Rotate(ctx, db)
				return Rotated{n}, err
			}
			d.Told = func(done *admin.Outcome) Told {
				return Told{Text: fmt.Sprintf("Wrapped %s anew.", table.Count(detail[Rotated](done).Rotated, "key"))}
			}
		}),
		define(Act{
			Kind: admin.ActDeleteKey, Name: "deleteKey", Command: "keys delete", Path: "/keys/{id}/delete",
			Short: "Delete the key of a subject by its id, such as one that does not open",
			Long: "Delete the key of a subject by its id, such as one that does not open. What it has sealed is erased for " +
				"good, also where the key would open: its fields are absent from then on. The key never comes back; the " +
				"subject gets another with its next event. --dry-run names campaigns of the newest events and of the " +
				"failures that name the key. Requeue and retry what has failed by it afterwards. The command asks for the id.",
			Examples: []string{
				"keys delete 01a21831-0aaf-7001-9512-0e2cf06179e0 --dry-run",
				"keys delete 01a21831-0aaf-7001-9512-0e2cf06179e0 --reason 'it does not open'",
			},
			Button: "Delete a key", Hint: "What the key has sealed is erased for good. Errors of failed campaigns and " +
				"parked events name keys that do not open.",
			Role: auth.Admin, Reason: true, Danger: true, Confirms: true, Logs: true,
		}, func(in *keyDeletion, d *does) {
			if id, err := uuid.Parse(in.ID); err != nil {
				d.Wrong = param.Refuse("id", in.ID, "", "it is no UUID", "copy it from the error or the sealed field")
			} else {
				in.ID = id.String()
			}
			d.Typed = in.ID
			d.Preview = in.plan
			d.Do = func(ctx context.Context, _ *admin.Acts, tx pgx.Tx, by admin.Request) (any, error) {
				return nil, keys.Delete(ctx, tx, in.ID, keys.Actor{
					Name: by.Who.Name, Reason: by.Reason, Way: by.Who.Way, TokenID: by.Who.TokenID, Address: by.Who.Address,
				})
			}
			d.Told = told("Deleted key "+in.ID+". Requeue and retry what has failed by it.", "failed", "list")
		}),
	}
}

func trustKey() *Act {
	return define(Act{
		Kind: admin.ActTrustKey, Name: "trustWrappingKey", Command: "keys trust", Path: "/keys/wrapping/{name}/trust",
		Short: "Have the database know a wrapping key of this program by its name",
		Long: "Have the database know a wrapping key of this program by its name, in the place of what it knows. The " +
			"first program that wraps by a wrapping key records by what to recognise it, and programs that have another " +
			"key of that name are refused. This is for a record that is wrong: a program with another key came first, " +
			"or somebody has recorded something else. --dry-run tells how many of some keys of that name it opens. " +
			"Programs need no restart. The command asks for the name.",
		Examples: []string{"keys trust 2026 --wrapping-keys wrapping-keys --reason 'the old key was deployed first'"},
		NoForm:   true, Role: auth.Admin, Reason: true, Danger: true, Confirms: true,
	}, func(in *trustedKey, d *does) {
		d.Typed = in.Name
		d.Preview = in.plan
		d.Do = func(ctx context.Context, acts *admin.Acts, tx pgx.Tx, _ admin.Request) (any, error) {
			return in.trust(ctx, acts, tx)
		}
		d.Told = func(done *admin.Outcome) Told {
			return Told{Text: "The database knows the wrapping key " + in.Name + " from now on: " +
				detail[Trusted](done).String() + "."}
		}
	})
}

func (in *trustedKey) trust(ctx context.Context, acts *admin.Acts, tx pgx.Tx) (t Trusted, err error) {
	sealer, err := sealerOf(acts.Catalogue())
	if err == nil {
		t.Opens, t.Of, err = sealer.Trust(ctx, tx, in.Name)
	}
	return t, err
}

// plan trusts in a transaction that it rolls back.
func (in *trustedKey) plan(ctx context.Context, acts *admin.Acts, _ admin.Request) (*Plan, error) {
	tx, err := acts.Pool().Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	t, err := in.trust(ctx, acts, tx)
	if err != nil {
		return nil, err
	}
	return &Plan{Detail: t, Words: "trust the wrapping key " + in.Name + ": " + t.String()}, nil
}

func sealerOf(c *catalogue.Catalogue) (*catalogue.Sealer, error) {
	if sealer := c.Sealer(); sealer != nil {
		return sealer, nil
	}
	return nil, fmt.Errorf("%w: there are no wrapping keys", admin.ErrNotHere)
}

func (in *keyDeletion) plan(ctx context.Context, acts *admin.Acts, _ admin.Request) (*Plan, error) {
	found, err := keys.Find(ctx, acts.Pool(), in.ID)
	if err != nil {
		return nil, err
	}
	words := fmt.Sprintf("delete the key of %s, wrapped by %q, and erase what it has sealed: of the newest %s, %d have it",
		found.CreatedAt.UTC().Format(time.RFC3339), found.WrappedBy, table.Count(found.Looked, "event"), found.Events)
	if found.Failed+found.Parked > 0 {
		words += fmt.Sprintf("; %s and %s wait for it", table.Count(found.Failed, "failed campaign"),
			table.Count(found.Parked, "parked event"))
	}
	if len(found.Campaigns) > 0 {
		words += "; campaigns " + strings.Join(found.Campaigns, ", ")
	}
	return &Plan{Detail: found, Words: words}, nil
}
