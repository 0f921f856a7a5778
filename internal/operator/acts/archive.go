package acts

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/archive"
)

type rated struct {
	Rate int64 `min:"1" max:"100000000" help:"most events a second (default as fast as possible)"`
}

type campaignArchive struct {
	CampaignID string `arg:"CAMPAIGN" name:"campaign" of:"campaign" help:"the campaign"`
}

type closedArchive struct {
	ClosedFor time.Duration `required:"true" help:"time since the last event of a campaign"`
	ByType    []string      `required:"true" help:"type of the last event of closed campaigns; may be given several times"`
	rated
}

type objectRestore struct {
	Objects []string `name:"object" help:"name of an object in the archive; may be given several times"`
	All     bool     `help:"all archived campaigns"`
	rated
}

const aboutArchives = " Events leave the journal for an object in the archive that TIDEMARK_ARCHIVE_URL names, " +
	"which is read back and compared first. A stub keeps the campaign's head; appends to it are refused until it is " +
	"restored. Campaigns that something still has to read are left, and named. It can be interrupted and repeated."

func archiveActs() []*Act {
	return []*Act{
		act(Act{
			Kind: admin.ActArchive, Name: "archiveCampaign", Command: "campaign archive", Path: "/campaigns/{campaign}/archive",
			Short: "Move the events of campaigns to the archive", Long: "Move the events of a campaign to the archive." +
				aboutArchives,
			Examples: []string{"campaign archive oak --reason 'it is closed'"},
			NoForm:   true, Role: auth.Admin, Reason: true,
		}, func(in *campaignArchive) does {
			return archives(archive.Request{Campaigns: []string{in.CampaignID}})
		}),
		act(Act{
			Kind: admin.ActArchive, Name: "archiveClosed", Command: "campaign archive", Path: "/campaigns/archive",
			Short: "Move the events of closed campaigns to the archive",
			Long: "Move the events of all campaigns to the archive whose last event is of a type and old enough." +
				aboutArchives,
			Examples: []string{
				"campaign archive --closed-for 90d --by-type campaign_closed --rate 20000 --reason 'a quarter is over'",
			},
			NoForm: true, Role: auth.Admin, Reason: true, Counts: true,
		}, func(in *closedArchive) does {
			return archives(archive.Request{ClosedFor: in.ClosedFor, Types: in.ByType, Rate: int(in.Rate)})
		}),
		act(Act{
			Kind: admin.ActRestore, Name: "restoreCampaign", Command: "campaign restore", Path: "/campaigns/{campaign}/restore",
			Short:    "Bring archived campaigns back to the journal",
			Long:     "Bring the events of an archived campaign back to the journal, with their seqs, positions and ids.",
			Examples: []string{"campaign restore oak --reason 'it is opened again'"},
			NoForm:   true, Role: auth.Admin, Reason: true,
		}, func(in *campaignArchive) does {
			return restores(nil, archive.RestoreRequest{Campaigns: []string{in.CampaignID}})
		}),
		act(Act{
			Kind: admin.ActRestore, Name: "restoreObjects", Command: "campaign restore", Path: "/campaigns/restore",
			Short: "Bring all campaigns of objects back to the journal",
			Long: "Bring all campaigns of objects, or all archived ones, back to the journal. Objects that are missing or " +
				"were changed are named, and the others restored. It can be interrupted and repeated.",
			Examples: []string{"campaign restore --all --reason 'a publisher begins anew'"},
			NoForm:   true, Role: auth.Admin, Reason: true,
		}, func(in *objectRestore) does {
			var wrong error
			if (len(in.Objects) == 0) == !in.All {
				wrong = param.Refuse("all", "", "true", "choose one of objects and all", "name objects, or say all")
			}
			return restores(wrong, archive.RestoreRequest{Objects: in.Objects, All: in.All, Rate: int(in.Rate)})
		}),
	}
}

// leftOut tells why the first campaigns were left out.
func leftOut(r archive.Report, verb string) string {
	if r.LeftOut == 0 {
		return ""
	}
	const shown = 5
	named := r.Left[:min(len(r.Left), shown)]
	why := slice.Of(named, func(l archive.Left) string { return l.CampaignID + ": " + l.Reason })
	return fmt.Sprintf("%s %s (%s)", verb, table.Count(r.LeftOut, "campaign"), strings.Join(why, "; "))
}

func archives(r archive.Request) does {
	return does{
		Preview: func(ctx context.Context, acts *admin.Acts, _ admin.Request) (*Plan, error) {
			found, err := archive.Count(ctx, acts.Pool(), r)
			return &Plan{
				Detail: found, Count: found.Campaigns,
				Words: fmt.Sprintf("archive %s of %s", table.Count(found.Events, "event"),
					table.Count(found.Campaigns, "campaign")) + leftOut(found, " and leave"),
			}, err
		},
		Alone: func(ctx context.Context, db *admin.Recorder) (any, error) {
			if db.Archive == nil {
				return nil, errNoArchive()
			}
			r.By, r.Reason = db.Who.Name, db.Reason
			done, err := archive.Run(ctx, db, db.Archive, r)
			if err == nil { // also if nothing was moved
				err = onRecord(ctx, db)
			}
			return done, err
		},
		Told: func(done *admin.Outcome) Told {
			r := detail[archive.Report](done)
			return Told{Text: fmt.Sprintf("Archived %s of %s in %s", table.Count(r.Events, "event"),
				table.Count(r.Campaigns, "campaign"), table.Count(r.Objects, "object")) + leftOut(r, ". Left") + "."}
		},
	}
}

func restores(wrong error, r archive.RestoreRequest) does {
	return does{
		Wrong: wrong,
		Alone: func(ctx context.Context, db *admin.Recorder) (any, error) {
			if db.Archive == nil {
				return nil, errNoArchive()
			}
			done, err := archive.Restore(ctx, db, db.Archive, r)
			if err == nil {
				err = onRecord(ctx, db)
			}
			return done, err
		},
		Told: func(done *admin.Outcome) Told {
			r := detail[archive.Report](done)
			return Told{Text: fmt.Sprintf("Restored %s of %s", table.Count(r.Events, "event"),
				table.Count(r.Campaigns, "campaign")) + leftOut(r, ". Left") + "."}
		},
	}
}

// onRecord puts the act on record, if no transaction has yet.
func onRecord(ctx context.Context, db *admin.Recorder) error {
	return pgx.BeginFunc(ctx, db, func(pgx.Tx) error { return nil })
}

func errNoArchive() error {
	return fmt.Errorf("%w: there is no archive: set TIDEMARK_ARCHIVE_URL, such as to file:/// and the path of a folder",
		admin.ErrInvalid)
}
