package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/assembly"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// swapResult is the result of --fast.
type swapResult struct {
	Stage   string   `json:"stage"`
	Swapped []string `json:"swapped"` // functions with new code
	Same    []string `json:"same"`    // functions that had this code
}

func (r swapResult) text(w io.Writer) {
	if len(r.Swapped) == 0 {
		fmt.Fprintln(w, "nothing changes: every function has this code")
		return
	}
	fmt.Fprintf(w, "new code: %s\n", strings.Join(r.Swapped, ", "))
}

// swap gives the deployed functions the checkout's code without CloudFormation.
func (d *deployment) swap(ctx context.Context, dir string) error {
	name := stage.Whole(d.rec.Stage, "functions")
	before, err := d.deployed(ctx, name)
	if err != nil {
		return err
	}
	if before == nil {
		return withHint(problem.New(problem.NotFound, "stage %s is not deployed: --fast changes deployed stages only", d.rec.Stage), "vacancy deploy --stage %s", d.rec.Stage)
	}
	built, err := d.synth(ctx, dir, pinnedVersions(before))
	if err != nil {
		return err
	}
	changes, _, err := d.compare(ctx, built)
	if err != nil {
		return err
	}
	for _, s := range changes {
		if err := assembly.CodeOnly(s.Stack, s.Changes); err != nil {
			return withHint(err, "vacancy deploy --stage %s", d.rec.Stage)
		}
	}
	return d.swapCode(ctx, built, name)
}

// pinnedVersions are the secret's versions in the deployed template, so that
// the new template has the same.
func pinnedVersions(template []byte) map[string]string {
	found := map[string]string{}
	var t struct {
		Resources map[string]struct {
			Properties struct {
				Environment struct{ Variables map[string]json.RawMessage }
			}
		}
	}
	if json.Unmarshal(template, &t) != nil {
		return nil // the comparison reports it
	}
	for _, r := range t.Resources {
		for variable, name := range map[string]string{"VACANCY_EDGE_SECRET": "edgeSecretVersion", "VACANCY_EDGE_SECRET_BEFORE": "edgeSecretBefore"} {
			if version, _ := assembly.SecretVersion(r.Properties.Environment.Variables[variable]); version != "" {
				found[name] = version
			}
		}
	}
	return found
}

// swapCode uploads the zips. The record is marked first: otherwise a full
// deploy in between would not know.
func (d *deployment) swapCode(ctx context.Context, built *assembly.Assembly, name string) error {
	records, err := d.stages()
	if err != nil {
		return err
	}
	before := d.rec.Swapped
	d.rec.Swapped = true
	if err := records.Write(d.rec); err != nil {
		return err
	}
	progress := d.progressLine()
	defer progress.clear()
	r := swapResult{Stage: d.rec.Stage, Swapped: []string{}, Same: []string{}}
	for _, s := range built.Stacks {
		if s.Name != name {
			continue
		}
		template, err := assembly.Parse(s.Template)
		if err != nil {
			return err
		}
		for _, code := range template.Functions(d.rec.Account, d.rec.Region) {
			zip, err := os.ReadFile(s.Zips[code.Hash()])
			if err != nil {
				return problem.Wrap(problem.Damaged, err, "CDK's output has no code of %s", code.Function)
			}
			progress.show("new code for %s", code.Function)
			changed, err := d.cloud.UpdateCode(ctx, code.Function, zip)
			if err != nil {
				return err
			}
			if !changed {
				r.Same = append(r.Same, code.Function)
				continue
			}
			r.Swapped = append(r.Swapped, code.Function)
		}
	}
	if d.rec.Swapped = before || len(r.Swapped) > 0; !d.rec.Swapped {
		if err := records.Write(d.rec); err != nil {
			return err
		}
	}
	progress.clear()
	return d.show(r)
}

// restoreCode gives functions the code of their template, if a swap replaced
// it: for CloudFormation nothing changed.
func (d *deployment) restoreCode(ctx context.Context, built *assembly.Assembly) error {
	if !d.rec.Swapped {
		return nil
	}
	for _, s := range built.Stacks {
		template, err := assembly.Parse(s.Template)
		if err != nil {
			return err
		}
		for _, code := range template.Functions(d.rec.Account, d.rec.Region) {
			if err := d.cloud.RestoreCode(ctx, code.Function, code.Bucket, code.Key); err != nil {
				return err
			}
		}
	}
	d.rec.Swapped = false
	return nil
}
