// Package standalonetest runs a host in one process for tests.
package standalonetest

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
)

func Run(t testing.TB, h *standalone.Host, r standalone.RunConfig) {
	// Run returns when the host is ready. The host is closed at the end of the test.
	t.Helper()
	index, err := bleve.Open(filepath.Join(t.TempDir(), "index"))
	if err != nil {
		t.Fatal(err)
	}
	r.Index, r.Grace = index, time.Second
	ctx, cancel := context.WithCancel(context.Background())
	ready, runErr := make(chan bool), make(chan error, 1)
	go func() { runErr <- h.Run(ctx, r, func(context.Context) error { close(ready); return nil }) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-runErr, h.Close()); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-runErr:
		runErr <- nil
		t.Fatal(err)
	}
}
