package childcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
)

// printHalf signs a request and its artefacts as one party, and prints them for the person who
// signs as the other party.
func printHalf(a *kit.App, ctx context.Context, f graduateFlags, name string) error {
	if f.capability == "" || f.with != "" {
		return kit.WithHint(problem.New(problem.Usage, "--print: not supported without --capability, or together with --with"), `vacancy graduate %s --capability "TEXT" --print`, name)
	}
	h, err := a.DataHome()
	if err != nil {
		return err
	}
	own, err := a.OpenIdentity(h, name)
	if err != nil {
		return err
	}
	self := party{id: own.ID(), own: own}
	bundle, err := own.Bundle(ctx)
	if err != nil {
		return err
	}
	m := bundle.Manifest
	if f.manifest != "" {
		read, err := readManifest(f.manifest)
		if err != nil {
			return err
		}
		m = &read
	}
	if m == nil {
		return kit.WithHint(problem.New(problem.Usage, "%s has no manifest here, so its parent is unknown", own.Name), "--manifest FILE; the host's operator gets the file with vacancy manifest CHILD --json")
	}
	if err := m.Verify(); err != nil {
		return err
	}
	if self.id != m.ParentID && self.id != m.ChildID {
		return problem.New(problem.Usage, "the manifest is for parent %s and child %s, and not for %s", m.ParentID.Short(), m.ChildID.Short(), own.Name)
	}
	sub := graduation.Submission{Request: composite.GraduationRequest{ParentID: m.ParentID, ChildID: m.ChildID, CapabilityText: f.capability}}
	if err := signAsParty(a, ctx, nil, self, &sub.Request); err != nil {
		return err
	}
	var parent, child party
	if self.id == m.ParentID {
		parent = self
	} else {
		child = self
	}
	where := func() (string, error) { return a.RegistryURL(ctx, f.registry, f.where) }
	if err := signArtefacts(a, ctx, where, f, m, parent, child, &sub); err != nil {
		return err
	}
	b, err := sub.Blob()
	if err != nil {
		return err
	}
	return a.Show(halfResult{b})
}

// halfResult is a request with the signature of one party.
type halfResult struct{ json.RawMessage }

func (r halfResult) Print(w io.Writer) { fmt.Fprintf(w, "%s\n", r.RawMessage) }

// readHalf reads the request that the other party printed. It returns nil if path is empty.
func readHalf(path string) (*graduation.Submission, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, graduation.MaxSubmission+1))
	if err != nil {
		return nil, err
	}
	sub, err := graduation.ParseSubmission(b)
	if err != nil {
		return nil, problem.New(problem.Usage, "%s is not a request printed with --print: %s", path, problem.AsError(err).Text())
	}
	return &sub, nil
}
