package serve_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

func TestAHomeThatDoesNotSealHasNoSuchRoute(t *testing.T) {
	web, base := serve.InProcessClient(httpServer(t, memory.New(), "http://127.0.0.1:8080", quiet).Admin())
	if _, err := admin.SealLog.Call(t.Context(), &admin.Client{HTTP: web, URL: base}, op.IgnoredBody{}); !problem.Is(err, problem.NotFound) {
		t.Errorf("Seal() = %v, want not found", err)
	}
}

// The log is sealed each minute.
func TestALogIsKeptSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := httpServer(t, memory.New(), "http://127.0.0.1:8080", quiet)
		l, err := h.OpenLog(nil)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan bool)
		go func() { defer close(ended); job(t, h, serve.JobParts{Log: l}, "log").Loop(ctx, quiet) }()
		r, err := h.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "one", Capability: "echoes", Substrate: "echo"})
		must(t, err)
		_, _, err = h.Vacants.Publish(t.Context(), r.ID, vacants.PublishOptions{})
		must(t, err)
		time.Sleep(61 * time.Second)
		if p, err := l.LoadLatestCheckpoint(t.Context()); err != nil || p.Size != 1 {
			t.Errorf("after a minute %d events are sealed, %v, want 1", p.Size, err)
		}
		cancel()
		<-ended
	})
}
