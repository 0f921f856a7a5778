package config_test

import (
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/projection"
)

const (
	outboxEnv = "TIDEMARK_PROJECTION_APPLY_OUTBOX_ENABLED"
	workerEnv = "TIDEMARK_PROJECTION_APPLY_OUTBOX_WORKER_ENABLED"
	shadowEnv = "TIDEMARK_PROJECTION_APPLY_OUTBOX_SHADOW_WORKER_ENABLED"
)

func TestTheSwitchesResolveToOneMode(t *testing.T) {
	for _, row := range []struct {
		outbox, worker, shadow string // "": not set
		mode                   projection.Mode
		warning                string
		refused                []string
	}{
		{"false", "false", "false", projection.ModeInlineApplyOnly, "", nil},
		{"true", "true", "false", projection.ModeOutboxApplyOnly, "", nil},
		{"true", "false", "true", projection.ModeShadowOnly, "", nil},
		{"true", "false", "false", projection.ModeEnqueueOnly, "", nil},
		{"true", "true", "true", projection.ModeOutboxApplyOnly, "takes precedence", nil},
		{"false", "true", "false", "", "", []string{workerEnv + " is true and " + outboxEnv + " is false"}},
		{"false", "false", "true", "", "", []string{shadowEnv + " is true and " + outboxEnv + " is false"}},
		{"false", "true", "true", "", "", []string{workerEnv + " is true", shadowEnv + " is true"}},
		{"", "", "", projection.ModeOutboxApplyOnly, "", nil},
		{"false", "", "", projection.ModeInlineApplyOnly, "", nil},
		{"", "", "true", projection.ModeShadowOnly, "", nil},
		{"1", "0", "f", projection.ModeEnqueueOnly, "", nil},
	} {
		t.Run("outbox "+row.outbox+" worker "+row.worker+" shadow "+row.shadow, func(t *testing.T) {
			t.Setenv(outboxEnv, row.outbox)
			t.Setenv(workerEnv, row.worker)
			t.Setenv(shadowEnv, row.shadow)
			settings, err := parse(t)
			if err != nil {
				t.Fatal(err)
			}
			m, err := settings.Outbox.Mode()
			if len(row.refused) > 0 {
				for _, want := range row.refused {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%q is missing in %v", want, err)
					}
				}
				return
			}
			if err != nil || m.Mode != row.mode || (m.Warning == "") != (row.warning == "") ||
				!strings.Contains(m.Warning, row.warning) {
				t.Errorf("got %+v, %v, want %s", m, err, row.mode)
			}
		})
	}
}

func TestAModeSaysWhereItCameFrom(t *testing.T) {
	t.Setenv(outboxEnv, "true")
	t.Setenv(workerEnv, "true")
	settings, err := parse(t, "--outbox-worker=false")
	if err != nil {
		t.Fatal(err)
	}
	m, err := settings.Outbox.Mode()
	want := outboxEnv + "=true (environment), " + workerEnv + "=false (flag)"
	if err != nil || m.Mode != projection.ModeEnqueueOnly || m.From != want {
		t.Errorf("got %+v, %v, want %s", m, err, want)
	}
}
