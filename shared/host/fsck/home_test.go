package fsck_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/front/export/remote"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
)

// caller calls a vacant on the host that is checked.
type caller struct{ *hosttest.Caller }

func story(t testing.TB, st hosttest.Store) *caller { return &caller{hosttest.Story(t, st)} }

type runner func(context.Context, fsck.Config) (fsck.Result, error)

// check runs a check of a host and returns its findings, both locally and over pages.
func (c *caller) check(over fsck.Source) (fsck.Result, []fsck.Finding) {
	c.Helper()
	res, found := c.checkWith(over, fsck.Run)
	c.comparePaged(over, res, found)
	return res, found
}

func (c *caller) checkWith(over fsck.Source, run runner) (fsck.Result, []fsck.Finding) {
	c.Helper()
	var found []fsck.Finding
	res, err := run(c.Ctx, fsck.Config{
		Source: over, Vault: c.Vault, Now: c.Now, Retention: hosttest.Retention,
		ReportFinding: func(f fsck.Finding) error { found = append(found, f); return nil },
	})
	if err != nil {
		c.Fatalf("Run() = %v", err)
	}
	if res.Findings != uint64(len(found)) {
		c.Errorf("Run() counts %d findings, reported %d", res.Findings, len(found))
	}
	return res, found
}

// paged checks a host from another machine over its export pages, without opening seeds.
func (c *caller) paged(over fsck.Source) (fsck.Result, []fsck.Finding, error) {
	at := c.Time // another goroutine reads it
	now := func() time.Time { return at }
	web, url := serve.InProcessClient(export.PagesHandler(export.Config{Source: over, Vault: c.Vault, Now: now, Retention: hosttest.Retention}))
	host, err := remote.Connect(c.Ctx, remote.Config{HTTP: web, URL: url})
	c.Must(err)
	var found []fsck.Finding
	res, err := fsck.Run(c.Ctx, fsck.Config{
		Source: host, Vault: host.Vault(), Now: now, Retention: host.Retention(),
		ReportFinding: func(f fsck.Finding) error { found = append(found, f); return nil },
	})
	return res, found, err
}

// comparePaged compares the findings over pages with the findings of the local check.
func (c *caller) comparePaged(over fsck.Source, res fsck.Result, found []fsck.Finding) {
	c.Helper()
	// Over pages, only text keys are opened, so it is unknown whether seeds open.
	found = slices.DeleteFunc(slices.Clone(found), func(f fsck.Finding) bool {
		return f.Check == fsck.Key && !strings.HasPrefix(f.Location, "textkey/")
	})
	res.Findings = uint64(len(found))
	got, gotFound, err := c.paged(over)
	if err != nil {
		c.Fatalf("Run() over pages = %v", err)
	}
	if diff := cmp.Diff(found, gotFound, cmpopts.EquateEmpty()); diff != "" {
		c.Errorf("Run() finds other things over pages (-home +pages):\n%s", diff)
	}
	if got.WithheldKeys > res.Vacants+2 {
		c.Errorf("Run() over pages counts %d keys that were withheld, of %d vacants and the host", got.WithheldKeys, res.Vacants)
	}
	got.WithheldKeys = 0
	if diff := cmp.Diff(res, got); diff != "" {
		c.Errorf("Run() counts other things over pages (-home +pages):\n%s", diff)
	}
}

// narrow runs a check with very little memory.
func narrow(ctx context.Context, c fsck.Config) (fsck.Result, error) {
	return fsck.RunWith(ctx, c, 2, 3)
}
