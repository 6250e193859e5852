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

// printPartial signs a request as one party, and prints it for the other party.
func printPartial(a *kit.App, ctx context.Context, f graduateFlags, name string) error {
	if f.capability == "" || f.partialFile != "" {
		return kit.WithHint(problem.New(problem.Usage, "--print: not supported without --capability, or together with --with"), `vacancy graduate %s --capability "TEXT" --print`, name)
	}
	dir, err := a.IdentityDir()
	if err != nil {
		return err
	}
	local, err := a.OpenIdentity(dir, name)
	if err != nil {
		return err
	}
	self := party{id: local.ID(), localIdentity: local}
	bundle, err := local.Bundle(ctx)
	if err != nil {
		return err
	}
	m := bundle.Manifest
	if f.manifestFile != "" {
		fileManifest, err := readManifest(f.manifestFile)
		if err != nil {
			return err
		}
		m = &fileManifest
	}
	if m == nil {
		return kit.WithHint(problem.New(problem.Usage, "%s has no manifest here, so its parent is unknown", local.Name), "--manifest FILE; the host's operator gets the file with vacancy manifest CHILD --json")
	}
	if err := m.Verify(); err != nil {
		return err
	}
	if self.id != m.ParentID && self.id != m.ChildID {
		return problem.New(problem.Usage, "the manifest is for parent %s and child %s, and not for %s", m.ParentID.Short(), m.ChildID.Short(), local.Name)
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
	registryURL := func() (string, error) { return a.RegistryURL(ctx, f.registryURL, f.where) }
	if err := signArtefacts(a, ctx, registryURL, f, m, parent, child, &sub); err != nil {
		return err
	}
	b, err := sub.Blob()
	if err != nil {
		return err
	}
	return a.PrintResult(partialResult{b})
}

type partialResult struct{ json.RawMessage }

func (r partialResult) Print(w io.Writer) { fmt.Fprintf(w, "%s\n", r.RawMessage) }

// readPartial reads the request that the other party printed. It returns nil if path is empty.
func readPartial(path string) (*graduation.Submission, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, graduation.MaxSubmissionBytes+1))
	if err != nil {
		return nil, err
	}
	sub, err := graduation.ParseSubmission(b)
	if err != nil {
		return nil, problem.New(problem.Usage, "%s is not a request printed with --print: %s", path, problem.AsError(err).Text())
	}
	return &sub, nil
}
