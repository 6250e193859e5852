package fsck_test

import (
	"context"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/hosttest"
)

// caller is one whose home is checked.
type caller struct{ *hosttest.Caller }

func story(t testing.TB, st hosttest.Store) *caller { return &caller{hosttest.Story(t, st)} }

type runner func(context.Context, fsck.Config) (fsck.Result, error)

// check runs a check over a home and returns what it found.
func (c *caller) check(over fsck.Home) (fsck.Result, []fsck.Finding) {
	return c.checkWith(over, fsck.Run)
}

func (c *caller) checkWith(over fsck.Home, run runner) (fsck.Result, []fsck.Finding) {
	c.Helper()
	var found []fsck.Finding
	res, err := run(c.Ctx, fsck.Config{
		Home: over, Vault: c.Vault, Now: c.Now, Retention: hosttest.Retention,
		Found: func(f fsck.Finding) error { found = append(found, f); return nil },
	})
	if err != nil {
		c.Fatalf("Run() = %v", err)
	}
	if res.Findings != uint64(len(found)) {
		c.Errorf("Run() counts %d findings, reported %d", res.Findings, len(found))
	}
	return res, found
}

// narrow is a check that remembers hardly anything.
func narrow(ctx context.Context, c fsck.Config) (fsck.Result, error) {
	return fsck.RunWith(ctx, c, 2, 3)
}
