package acts

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/erasure"
)

type erases struct {
	Personal bool `help:"only the fields that the event catalogue names personal (default whole payloads)"`
}

type campaignErase struct {
	CampaignID string `arg:"CAMPAIGN" name:"campaign" of:"campaign" help:"the campaign"`
	erases
}

type subjectErase struct {
	Subjects []string `arg:"KEY..." name:"subjects" hidden:"true" help:"tags, or keys in the catalogue's subject fields"`
	erases
}

type erasureAbandon struct {
	Erasure int64 `arg:"ERASURE" min:"1" help:"its number"`
}

const aboutErasures = " Payloads and metadata go, and with them tags, actors and aggregates; places, types, ids " +
	"and times stay. Errors and logs no longer tell of the events. Campaigns are replayed, and projections across " +
	"campaigns are rebuilt. Archived events are brought back first, with all campaigns of their objects; delete the " +
	"objects, which the certificate names. The command writes the certificate to stdout: keep it, erase verify needs " +
	"its key. The same request continues an interrupted erasure, also of another operator. Campaigns that others have " +
	"locked are left for the end; if they stay locked, it ends with 6 and names them. It ends with 4 if nothing was " +
	"found of a subject. It reaches neither what was published, nor WAL, replicas and backups."

const (
	certificateFile   = "certificate.json"
	aboutCertificates = "There is no way back. It does not reach what was published, WAL, replicas and backups. Save " +
		"the certificate, which is shown once: tidemark erase verify needs it."
)

func eraseActs() []*Act {
	return []*Act{
		act(Act{
			Kind: admin.ActErase, Name: "eraseCampaign", Command: "campaign erase", Path: "/campaigns/{campaign}/erase",
			Short: "Erase the events of a campaign for good",
			Long: "Erase the events of a campaign for good, and its scheduled appends." + aboutErasures +
				" The command asks for the campaign's id.",
			Examples: []string{"campaign erase oak --reason 'request 4711' > certificate.json"},
			Button:   "Erase a campaign", Hint: "Erases what all events of a campaign say. " + aboutCertificates,
			File: certificateFile, Role: auth.Admin, Reason: true, Danger: true, Confirms: true,
		}, func(in *campaignErase) does {
			return in.does(erasure.Request{Campaign: in.CampaignID}, in.CampaignID, "campaign "+in.CampaignID)
		}),
		act(Act{
			Kind: admin.ActErase, Name: "eraseSubjects", Command: "subject erase", Path: "/subjects/erase",
			Short: "Erase the events about a person for good",
			Long: "Erase the events that have one of the keys as a tag, or in a field that the event catalogue names " +
				"subject. Neither log nor table keeps the keys." + aboutErasures +
				" The command asks for the key, or the number of keys.",
			Examples: []string{
				"subject erase customer=4711 --reason 'request 4711' > certificate.json",
				"subject erase ann@example.com --personal --catalogue catalogue.yaml --reason 'request 4711'",
			},
			Button: "Erase subjects", Hint: "Erases what events say that have a subject as a tag, or in a subject field " +
				"of the event catalogue. Write one subject a line. " + aboutCertificates,
			File: certificateFile, Role: auth.Admin, Reason: true, Danger: true, Confirms: true,
		}, func(in *subjectErase) does {
			typed, what := fmt.Sprintf("erase %d", len(in.Subjects)), table.Count(int64(len(in.Subjects)), "subject")
			if len(in.Subjects) == 1 {
				typed = in.Subjects[0]
			}
			return in.does(erasure.Request{Subjects: in.Subjects}, typed, what)
		}),
		act(Act{
			Kind: admin.ActAbandonErasure, Name: "abandonErasure", Command: "erase abandon", Path: "/erasures/{erasure}/abandon",
			Short: "End an interrupted erasure whose request is forgotten",
			Long: "End an interrupted erasure whose request is forgotten. As long as one has not ended, nothing is archived, " +
				"and only the same request can do the rest. What it has erased is erased in read models and logs too; what " +
				"it has not reached stays as it is, and so do sealing keys. The command writes the certificate to stdout: " +
				"keep it, erase verify needs its key. erase list shows the erasure as abandoned. The command asks for its " +
				"number.",
			Examples: []string{"erase abandon 7 --reason 'the request is lost' > certificate.json"},
			Button:   "Abandon", Hint: "Ends an interrupted erasure whose request is forgotten. What it has erased is erased " +
				"everywhere, what it has not reached stays. Save the certificate, which is shown once: tidemark erase verify " +
				"needs it.",
			File: certificateFile, Role: auth.Admin, Reason: true, Danger: true, Confirms: true,
		}, func(in *erasureAbandon) does {
			return does{
				Typed: strconv.FormatInt(in.Erasure, 10),
				Would: fmt.Sprintf("end erasure %d for good before it has erased all", in.Erasure),
				Alone: func(ctx context.Context, db *admin.Recorder) (any, error) {
					return erasure.Abandon(ctx, db, in.Erasure, db.Who.Name, db.Reason)
				},
				Told: func(done *admin.Outcome) Told {
					c := detail[erasure.Certificate](done)
					if c.Erasure == 0 { // of a repeated request
						return Told{Text: "The certificate was shown once."}
					}
					return Told{
						fmt.Sprintf("Abandoned erasure %d, which has erased %s.", in.Erasure, table.Count(c.Events, "event")),
						[]string{"erase", "verify", certificateFile},
					}
				},
			}
		}),
	}
}

// tagsShown is how many tags a preview names.
const tagsShown = 10

func (in erases) does(r erasure.Request, typed, what string) does {
	r.Personal = in.Personal
	return does{
		Typed: typed,
		Preview: func(ctx context.Context, acts *admin.Acts, _ admin.Request) (*Plan, error) {
			r.Catalogue, r.Archive = acts.Catalogue(), acts.Archive()
			found, err := erasure.Count(ctx, acts.Pool(), r)
			words := "erase " + table.Count(found.Events, "event")
			if r.Campaign == "" {
				words += fmt.Sprintf(" in %s, and %s,", table.Count(found.Campaigns, "campaign"),
					table.Count(found.Keys, "sealing key"))
			}
			words += " of " + what + " for good"
			if found.Scheduled > 0 {
				words += ", with " + table.Count(found.Scheduled, "scheduled append")
			}
			if n := len(found.Tags); n > 0 {
				words += "; decisions by these tags will not see the events: " + strings.Join(found.Tags[:min(n, tagsShown)], ", ")
				if n > tagsShown {
					words += fmt.Sprintf(" and %d more", n-tagsShown)
				}
			}
			if len(found.Unknown) > 0 {
				words += fmt.Sprintf("; nothing was found of %q", found.Unknown)
			}
			return &Plan{Detail: found, Count: found.Events + found.Scheduled, Words: words}, err
		},
		Alone: func(ctx context.Context, db *admin.Recorder) (any, error) {
			r.Catalogue, r.Archive, r.By, r.Reason = db.Catalogue, db.Archive, db.Who.Name, db.Reason
			return erasure.Erase(ctx, db, r)
		},
		Told: func(done *admin.Outcome) Told {
			c := detail[erasure.Certificate](done)
			if c.Erasure == 0 { // of a repeated request
				return Told{Text: "The certificate was shown once. An erasure without an end was interrupted: erase again."}
			}
			text := fmt.Sprintf("Erased %s of %s. Workers make the read models anew.", table.Count(c.Events, "event"), what)
			if len(c.Rebuilt) > 0 {
				text += " Rebuilds of " + strings.Join(c.Rebuilt, ", ") + " swap also with failed keys."
			}
			if len(c.Unknown) > 0 {
				text += fmt.Sprintf(" Nothing was found of %q.", c.Unknown)
			}
			if n := int64(len(c.Objects)); n > 0 {
				text += fmt.Sprintf(" Delete %s of the archive that the certificate names.", table.Count(n, "object"))
			}
			return Told{text, []string{"erase", "verify", "certificate.json"}}
		},
	}
}
