package operator

import (
	"context"
	"time"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

type gapList struct {
	Group string `of:"group" required:"true" help:"the consumer group"`
	After string `page:"after" help:"only gaps after this campaign"`
}

type itemList struct {
	oneOperation
	After int64 `page:"after" help:"only things after the one with this number"`
	limited
}

// publisherLag is how far a publication is behind.
type publisherLag struct {
	Position, Behind int64
	Lag              time.Duration
}

// callViews are of the API alone: commands show what they have among other things.
func callViews() []*View {
	return []*View{
		one(View{
			Name: "getPublisher", Path: "/publishers/{topic}/{publisher}", Schema: "Publication",
			Short: "One publisher of a topic",
		}, func(ctx context.Context, from Reader, in *publication) (publications.Publication, error) {
			return in.one(ctx, from)
		}, nil),
		one(View{
			Name: "getPublisherLag", Path: "/publishers/{topic}/{publisher}/lag", Schema: "PublisherLag",
			Short: "How far it is behind",
		}, func(ctx context.Context, from Reader, in *publication) (publisherLag, error) {
			p, err := in.one(ctx, from)
			return publisherLag{p.Position, p.Behind, p.Lag}, err
		}, nil),
		one(View{
			Name: "getOperation", Path: "/operations/{id}", Schema: "Operation", Short: "One operation, with its progress",
		}, func(ctx context.Context, from Reader, in *oneOperation) (*admin.Operation, error) {
			return from.Acts.Operation(ctx, in.ID)
		}, nil),
		list(View{
			Name: "listOperationItems", Path: "/operations/{id}/items", Schema: "OperationItem",
			Short: "What an operation is about, and what became of it",
		}, lists[*itemList, admin.Item]{
			Read: func(ctx context.Context, from Reader, in *itemList) ([]admin.Item, any, error) {
				items, err := from.Acts.Items(ctx, in.ID, in.After, in.Limit)
				if err == nil && len(items) == 0 {
					_, err = from.Acts.Operation(ctx, in.ID)
				}
				return items, nextOf(items, in.Limit, func(i admin.Item) int64 { return i.Ord }), err
			},
		}),
		list(View{
			Name: "listGaps", Path: "/gaps", Schema: "Gap",
			Short: "Campaigns that nothing would bring to their heads; a page may be empty and have a next one",
		}, lists[*gapList, outbox.Gap]{
			Read: func(ctx context.Context, from Reader, in *gapList) ([]outbox.Gap, any, error) {
				gaps, next, err := outbox.Gaps(ctx, from.Pool, in.Group, in.After, 0)
				if next == "" {
					return gaps, nil, err
				}
				return gaps, next, err
			},
		}),
		sectionOf(View{
			Name: "listQueue", Path: "/queue", Schema: "QueueReport", Short: "What remains to be done, by consumer group",
		}, status.SectionQueue, func(s *status.Status) []outbox.GroupReport { return s.Queue }),
		sectionOf(View{
			Name: "listLag", Path: "/lag", Schema: "Lag", Short: "How far groups and projections are behind",
		}, status.SectionLag, func(s *status.Status) []status.Lag { return s.Lag }),
		sectionOf(View{
			Name: "listRebuilds", Path: "/rebuilds", Schema: "Rebuild", Short: "Rebuilds that have not ended",
		}, status.SectionRebuilds, func(s *status.Status) []rebuild.Rebuild { return s.Rebuilds }),
	}
}

// sectionOf is a view of one section of the status.
func sectionOf[T any](v View, section status.Section, pick func(s *status.Status) []T) *View {
	return list(v, lists[*everything, T]{
		Read: func(ctx context.Context, from Reader, _ *everything) ([]T, any, error) {
			s, err := readSection(ctx, from, section)
			if err != nil {
				return nil, nil, err
			}
			return pick(s), nil, nil
		},
	})
}

func readSection(ctx context.Context, from Reader, section status.Section) (*status.Status, error) {
	s, err := (&status.Reader{Pool: from.Pool}).Read(ctx, section)
	if err == nil {
		err = s.Unread[section]
	}
	return s, err
}
