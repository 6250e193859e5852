package awscmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// checkAccount prints warnings about the account, and returns an error if AWS would stop the
// deployment midway.
func (d *deployment) checkAccount(ctx context.Context) error {
	values, err := d.contextValues()
	if err != nil {
		return err
	}
	overrides, err := d.flags.contextOverrides()
	if err != nil {
		return err
	}
	findings := d.cloud.CollectAccountFacts(ctx, d.rec.Stage)
	if ctx.Err() != nil {
		return problem.New(problem.Canceled, "interrupted: nothing was created")
	}
	findings.Account = doctor.Account{ID: d.rec.Account, Region: d.rec.Region}
	// The CDK app would refuse invalid values only after the builds.
	if err := findings.SetContext(values, d.rec.Region); err != nil {
		return problem.New(problem.Malformed, "nothing was created. Context value %s", problem.AsError(err).Text())
	}
	if !findings.Types.HasBudgets() || findings.Types.Err != nil && d.storedSettings["lacksBudgets"] == "true" {
		d.regionalContext = map[string]string{"lacksBudgets": "true"}
	}
	var causes, fixes []string
	for _, c := range doctor.ExamineAccount(findings).Checks {
		switch {
		case c.Verdict == doctor.Warn:
			d.accountWarnings = append(d.accountWarnings, c)
			d.PrintNote("warning, %s: %s\n  fix: %s", c.Name, kit.EscapeLine(c.Detail), c.Fix)
		case c.Verdict == doctor.Fail && c.Name == doctor.BootstrapCheck && findings.Bootstrap.Missing:
			// deploy offers to create the stack.
		case c.Verdict == doctor.Fail:
			causes, fixes = append(causes, c.Name+": "+c.Detail), append(fixes, c.Fix)
		}
	}
	if causes == nil {
		return nil
	}
	err = problem.New(problem.Conflict, "nothing was created, because AWS would refuse some resources of stage %s. %s", d.rec.Stage, strings.Join(causes, "; "))
	if len(overrides) > 0 {
		fixes = append(fixes, "repeat the flags of this command, because they are not stored")
	}
	return kit.WithHint(err, "%s", strings.Join(fixes, "\n     "))
}

func (d *deployment) contextValues() (map[string]string, error) {
	b, err := os.ReadFile(filepath.Join(d.checkoutDir, "cdk.json"))
	if err != nil {
		return nil, err
	}
	var app struct{ Context map[string]any }
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber() // 1000000 must stay 1000000
	if err := decoder.Decode(&app); err != nil {
		return nil, problem.Wrap(problem.Damaged, err, "cdk.json cannot be read")
	}
	values := map[string]string{}
	for name, v := range app.Context {
		if v != nil {
			values[name] = fmt.Sprint(v)
		}
	}
	maps.Copy(values, d.rec.Context)
	values["stage"] = d.rec.Stage
	return values, nil
}

// explainRefusal explains a failure that AWS reports only when it creates the resource.
func (d *deployment) explainRefusal(e cloud.Event) (text, remedy string) {
	deploy := "vacancy deploy --stage " + d.rec.Stage
	switch {
	case strings.Contains(e.Reason, "must be verified before you can add new CloudFront resources"):
		return "AWS has not yet verified this account for CloudFront. Open a case at https://console.aws.amazon.com/support/home#/ with this message. " +
				"Until then, deploy the stage without CloudFront. You can add CloudFront later, which changes the address of the stage: " + deploy + " --context edge=true",
			deploy + " --no-edge"
	case strings.Contains(e.Reason, "UnreservedConcurrentExecution below its minimum"):
		return "Request a higher quota at " + doctor.QuotaPage(d.rec.Region) + ", or deploy without reservations: " + doctor.UnlimitedCosts, deploy + " --context reserve=false"
	case e.Type == doctor.KeyType && strings.Contains(e.Reason, "KeySpec"):
		return "KMS in this Region may not support this type of key", deploy + " --context hostKey=software"
	}
	return "", ""
}
