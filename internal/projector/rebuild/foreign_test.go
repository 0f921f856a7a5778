package rebuild

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/lease"
)

func TestProjectionsThatAWorkerLacksAreAWarningAfterAWhile(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := &Rebuilder{Base: &registry.Base{Cfg: registry.Settings{
		ConsumerGroup: "g",
		Logger:        slog.New(slog.NewTextHandler(&log, nil)),
	}}}
	p.Entered.Store(true)
	rows := map[string]*rebuildRow{}
	for _, name := range []string{"b", "a", "a~next"} {
		rows[name] = &rebuildRow{Registered: registry.Registered{Name: name}}
	}
	start := time.Now()
	for _, step := range []struct {
		after time.Duration
		rows  map[string]*rebuildRow
		want  string
	}{
		{0, rows, "INFO"},
		{time.Minute, rows, ""},
		{lease.UpgradeTime, rows, "WARN"},
		{time.Hour, rows, ""},
		{time.Hour, map[string]*rebuildRow{"b": rows["b"]}, "INFO"},
		{time.Hour + lease.UpgradeTime, map[string]*rebuildRow{"b": rows["b"]}, "WARN"},
		{2 * time.Hour, nil, ""},
		{3 * time.Hour, rows, "INFO"},
	} {
		log.Reset()
		p.logForeign(t.Context(), step.rows, start.Add(step.after))
		got := log.String()
		if (step.want == "") != (got == "") || !strings.Contains(got, "level="+step.want) && got != "" {
			t.Errorf("after %s: %q, want %q", step.after, got, step.want)
		}
		if strings.Contains(got, "a~next") {
			t.Errorf("tables that are being built are named: %s", got)
		}
	}
}
