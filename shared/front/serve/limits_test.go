package serve

import (
	"log/slog"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
)

func TestTheWriteLimitCoversTheSlowestAnswer(t *testing.T) {
	for work, want := range map[time.Duration]time.Duration{0: writeTimeout, call.DefaultCallTimeout: writeTimeout, time.Second: writeTimeout, 15 * time.Minute: 15*time.Minute + writeTimeout - call.DefaultCallTimeout} {
		if got := httpServer(Endpoint{CallTimeout: work}, slog.New(slog.DiscardHandler)).WriteTimeout; got != want || got < work+call.GracePeriod {
			t.Errorf("answers of %v: the write limit is %v, want %v", work, got, want)
		}
	}
	if got := httpServer(Endpoint{CallTimeout: time.Hour, NoWriteLimit: true}, slog.New(slog.DiscardHandler)).WriteTimeout; got != 0 {
		t.Errorf("a stream's write limit is %v, want none", got)
	}
}
