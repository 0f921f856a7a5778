package redisinbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/tidemark-go/tidemark/internal/store/marks"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/inbox"
)

// ErrInProgress is returned by [Inbox.Do] while another delivery of the event is being handled. Do
// not acknowledge the event, so that it is delivered again.
var ErrInProgress = errors.New("another delivery of the event is being handled")

// Config configures an [Inbox].
type Config struct {
	Client redis.UniversalClient // required; the caller closes it
	TTL    time.Duration         // how long a mark lasts; default inbox.DefaultTTL
	// a handler's time in Do before another delivery is handled concurrently; default 5 minutes
	Turn time.Duration
}

// Inbox marks events. It is safe for concurrent use.
type Inbox struct{ cfg Config }

const (
	defaultTurn = 5 * time.Minute
	done        = "done" // the value of a lasting mark; while a handler runs it is random

	// scriptFinish and scriptRelease change a mark only if it is the caller's own.
	scriptFinish = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
		redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) return 1`
	scriptRelease = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
)

// New checks the configuration. It does not connect.
func New(cfg Config) (*Inbox, error) {
	cfg.TTL = cmp.Or(cfg.TTL, inbox.DefaultTTL)
	cfg.Turn = cmp.Or(cfg.Turn, defaultTurn)
	if cfg.Client == nil {
		return nil, errors.New("the inbox needs a Client of Redis")
	}
	if cfg.TTL < time.Second || cfg.Turn < time.Millisecond || cfg.Turn > cfg.TTL {
		return nil, fmt.Errorf("TTL is %s and Turn %s: a mark must last at least 1s, and a turn 1ms to the TTL", cfg.TTL,
			cfg.Turn)
	}
	return &Inbox{cfg}, nil
}

// CheckAndMark reports whether the event is new to the consumer, and marks it at once. Call
// [Inbox.Unmark] if it cannot be handled.
func (i *Inbox) CheckAndMark(
	ctx context.Context, consumer, campaignID string, eventID uuid.UUID,
) (first bool, err error) {
	key, err := keyOf(consumer, campaignID, eventID)
	if err != nil {
		return false, err
	}
	return i.mark(ctx, key, done, i.cfg.TTL)
}

// Unmark deletes a mark, so the event counts as new.
func (i *Inbox) Unmark(ctx context.Context, consumer, campaignID string, eventID uuid.UUID) error {
	key, err := keyOf(consumer, campaignID, eventID)
	if err != nil {
		return err
	}
	if err := i.cfg.Client.Del(ctx, key).Err(); err != nil {
		return fmt.Errorf("unmark %s: %w", key, err)
	}
	return nil
}

// Do calls handle if the event is new to the consumer, and marks it after handle succeeds. It
// reports whether it called handle, and returns handle's error or [ErrInProgress]. After an error
// with handled set, the event will be handled again.
func (i *Inbox) Do(
	ctx context.Context, consumer, campaignID string, eventID uuid.UUID, handle func(context.Context) error,
) (handled bool, err error) {
	key, err := keyOf(consumer, campaignID, eventID)
	if err != nil {
		return false, err
	}
	turn := rand.Text()
	first, err := i.mark(ctx, key, turn, i.cfg.Turn)
	if err != nil {
		return false, err
	}
	if !first {
		return false, i.standing(ctx, key)
	}
	succeeded := false
	defer func() {
		if !succeeded {
			err = errors.Join(err, i.release(ctx, key, turn))
		}
	}()
	if err := handle(ctx); err != nil {
		return true, err
	}
	succeeded = true
	ctx, cancel := afterwards(ctx)
	defer cancel()
	if err := i.cfg.Client.Eval(ctx, scriptFinish, []string{key}, turn, done, i.cfg.TTL.Milliseconds()).Err(); err != nil {
		return true, fmt.Errorf("mark %s: %w", key, err)
	}
	return true, nil
}

func (i *Inbox) mark(ctx context.Context, key, value string, ttl time.Duration) (first bool, err error) {
	err = i.cfg.Client.SetArgs(ctx, key, value, redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
	switch {
	case errors.Is(err, redis.Nil):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("mark %s: %w", key, err)
	}
	return true, nil
}

// standing returns nil for a finished event, else ErrInProgress, even if its mark has just gone.
func (i *Inbox) standing(ctx context.Context, key string) error {
	value, err := i.cfg.Client.Get(ctx, key).Result()
	switch {
	case err != nil && !errors.Is(err, redis.Nil):
		return fmt.Errorf("look at %s: %w", key, err)
	case value == done:
		return nil
	}
	return ErrInProgress
}

func (i *Inbox) release(ctx context.Context, key, turn string) error {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	if err := i.cfg.Client.Eval(ctx, scriptRelease, []string{key}, turn).Err(); err != nil {
		return fmt.Errorf("unmark %s: %w", key, err)
	}
	return nil
}

// afterwards returns a context for writes that must happen even if the caller's has ended.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
}

func keyOf(consumer, campaignID string, eventID uuid.UUID) (string, error) {
	if err := marks.Check(consumer, campaignID, eventID); err != nil {
		return "", err
	}
	event := event.Event{ID: eventID, CampaignID: campaignID}
	// Escape colons, so the consumer's name ends at the next one.
	return "evt:processed:" + strings.NewReplacer("%", "%25", ":", "%3A").Replace(consumer) + ":" + event.Identity(), nil
}
