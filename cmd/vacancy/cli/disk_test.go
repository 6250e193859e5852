package cli

import (
	"bufio"
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/store"
)

// fullDisk is a store that writes nothing more once it is full.
type fullDisk struct {
	store.Store
	full *atomic.Bool
}

func (f fullDisk) Commit(ctx context.Context, writes ...store.Write) error {
	if f.full.Load() {
		return store.ErrUnavailable
	}
	return f.Store.Commit(ctx, writes...)
}

func TestAFullDiskIsNamedByStatusAndByACallThatFails(t *testing.T) {
	s := newShell(t)
	var full atomic.Bool
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	disk := func(string) (free, size int64) {
		if full.Load() {
			return 12 << 20, 1 << 40
		}
		return 1 << 39, 1 << 40
	}
	var status, before, said string
	code := 0
	errs := &watched{}
	a := &kit.App{In: bufio.NewReader(strings.NewReader("")), Err: errs, Env: s.env, Now: s.clock, Rand: s.rand, Seams: kit.Seams{
		DiskSpace: disk, StoreWrapper: func(inner store.Store) store.Store { return fullDisk{inner, &full} },
	}}
	a.Out = &watched{seen: "The log:", then: func() {
		before = s.must("status")
		full.Store(true)
		status = s.must("status")
		code, _, said = s.run("", "call", "demo", "hi", "--timeout", "500ms")
		interrupt()
	}}
	a.Run(ctx, rootCommand(a), []string{"dev", "--listen", "127.0.0.1:0"})
	if !strings.Contains(before, "\n  disk        512.0 GB free\n") {
		t.Errorf("status = %q, want the room there is; dev said: %s", before, errs)
	}
	if want := "\n  disk        12.0 MB free: below 1.0 GB the host refuses write requests from others (429); make room\n"; !strings.Contains(status, want) {
		t.Errorf("status on a full disk = %q, want %q", status, want)
	}
	if want := "try: vacancy status    # shows whether the host's disk is full\n"; code == 0 || !strings.Contains(said, want) {
		t.Errorf("call = exit %d, %q, want %q", code, said, want)
	}
}
