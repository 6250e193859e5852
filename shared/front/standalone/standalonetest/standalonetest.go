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

func Run(t testing.TB, h *standalone.Host, r standalone.Running) {
	// Run returns when the host is ready. The host is closed at the end of the test.
	t.Helper()
	index, err := bleve.Open(filepath.Join(t.TempDir(), "index"))
	if err != nil {
		t.Fatal(err)
	}
	r.Index, r.Grace = index, time.Second
	ctx, end := context.WithCancel(context.Background())
	ready, ended := make(chan bool), make(chan error, 1)
	go func() { ended <- h.Run(ctx, r, func(context.Context) error { close(ready); return nil }) }()
	t.Cleanup(func() {
		end()
		if err := errors.Join(<-ended, h.Close()); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
}
