package decisions_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/examples/decisions"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const coursesOfAStudent = 3

var (
	errNoCourse   = errors.New("there is no such course")
	errFull       = errors.New("the course is full")
	errTooMany    = errors.New("the student has as many courses as one may")
	errSubscribed = errors.New("the student is subscribed already")
)

// course models one course: its capacity and its number of students.
type course struct {
	capacity, students int
}

func courseModel(id string) *journal.Model[course] {
	query := event.Tagged([]string{"course=" + id}, "course_defined", "capacity_changed", "student_subscribed")
	return journal.NewModel(query, func(c *course, e event.Event) (err error) {
		if e.Type == "student_subscribed" {
			c.students++
			return nil
		}
		c.capacity, err = decisions.Number(e, "capacity")
		return err
	})
}

// subscriptions returns a model that counts the events that a query selects.
func subscriptions(q event.Query) *journal.Model[int] {
	return journal.NewModel(q, func(n *int, _ event.Event) error {
		*n++
		return nil
	})
}

// subscribe makes one decision about a course, a student and the two together.
func subscribe(ctx context.Context, pool *pgxpool.Pool, id, student string) error {
	c := courseModel(id)
	own := subscriptions(event.Tagged([]string{"student=" + student}, "student_subscribed"))
	both := subscriptions(event.Tagged([]string{"student=" + student, "course=" + id}, "student_subscribed"))
	return decisions.Decide(ctx, pool, func() ([]event.Event, error) {
		switch {
		case c.State.capacity == 0:
			return nil, errNoCourse
		case both.State > 0:
			return nil, errSubscribed
		case c.State.students >= c.State.capacity:
			return nil, errFull
		case own.State >= coursesOfAStudent:
			return nil, errTooMany
		}
		return []event.Event{decisions.Event("course-"+id, "student_subscribed", nil, "course="+id, "student="+
			student)}, nil
	}, c, own, both)
}

func TestCourseSubscriptions(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	expect(t, "a course that is not there", subscribe(t.Context(), pool, "go", "mira"), errNoCourse)
	for _, id := range []string{"go", "sql", "art", "law"} {
		given(t, pool, decisions.Event("course-"+id, "course_defined", map[string]any{"capacity": 2}, "course="+id))
	}
	for _, id := range []string{"go", "sql", "art"} {
		expect(t, id, subscribe(t.Context(), pool, id, "mira"), nil)
	}
	expect(t, "twice", subscribe(t.Context(), pool, "go", "mira"), errSubscribed)
	expect(t, "a fourth", subscribe(t.Context(), pool, "law", "mira"), errTooMany)
	expect(t, "the last place", subscribe(t.Context(), pool, "go", "oskar"), nil)
	expect(t, "no place left", subscribe(t.Context(), pool, "go", "tess"), errFull)
	given(t, pool, decisions.Event("course-go", "capacity_changed", map[string]any{"capacity": 3}, "course=go"))
	expect(t, "one place more", subscribe(t.Context(), pool, "go", "tess"), nil)
}

func TestManyStudentsAtOnceFillACourseExactly(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	given(t, pool, decisions.Event("course-go", "course_defined", map[string]any{"capacity": 3}, "course=go"))
	var in atomic.Int64
	var g errgroup.Group
	for n := range 8 {
		g.Go(func() error {
			err := subscribe(t.Context(), pool, "go", fmt.Sprint(n))
			if err == nil {
				in.Add(1)
			} else if !errors.Is(err, errFull) {
				return err
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil || in.Load() != 3 {
		t.Errorf("%d got in, %v", in.Load(), err)
	}
}
