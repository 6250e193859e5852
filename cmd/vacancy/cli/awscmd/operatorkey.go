package awscmd

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/host/keys/operator"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func RotateOperatorCommand(a *kit.App) *cobra.Command {
	var stageName string
	cmd := &cobra.Command{
		Use:   "rotate-operator",
		Short: "Replace the operator key; the host refuses the old key at once",
		Long: `Create a new operator key with your AWS credentials, show it once, and write it to the record
of the stage. The host then refuses the previous key. Update $VACANCY_OPERATOR_KEY wherever
you have set it.`,
		Example: "  vacancy keys rotate-operator\n  vacancy keys rotate-operator --stage prod --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			name, err := a.StageName(stageName)
			if err != nil {
				return err
			}
			rec, c, err := a.OpenStage(ctx, name)
			if err != nil {
				return err
			}
			if rec.URL == "" { // deployed from another machine or with the CDK directly
				if err := readURLs(a, ctx, c, &rec); err != nil {
					return err
				}
			}
			r, err := createOperatorKey(a, ctx, c, &rec)
			if err != nil {
				return err
			}
			return a.PrintResult(r)
		},
	}
	kit.AddStageFlag(cmd.Flags(), &stageName)
	return cmd
}

// keyResult is a new operator key, which is shown only once.
type keyResult struct {
	Stage      string `json:"stage"`
	Key        string `json:"operator_key"`
	RecordPath string `json:"kept_in"`
}

func (r keyResult) Print(w io.Writer) {
	fmt.Fprintf(w, "operator key of stage %s, shown only once; it is stored in %s:\n%s\n", r.Stage, r.RecordPath, r.Key)
}

// createOperatorKey creates a stage's operator key and stores it in the stage's record. It first
// writes the record without the key, because the key would be lost if the record could not be
// written.
func createOperatorKey(a *kit.App, ctx context.Context, c cloud.Cloud, rec *stage.Record) (keyResult, error) {
	records, err := a.StageRecords()
	if err != nil {
		return keyResult{}, err
	}
	if err := records.Write(*rec); err != nil {
		return keyResult{}, err
	}
	keys, err := operatorKeys(a, ctx, c, rec.Stage)
	if err != nil {
		return keyResult{}, err
	}
	key, err := keys.Rotate(ctx)
	if err != nil {
		return keyResult{}, c.ConvertError(err)
	}
	rec.OperatorKey = stage.Key(key)
	r := keyResult{Stage: rec.Stage, Key: key, RecordPath: filepath.Join(records.Dir, rec.Stage+".json")}
	if err := records.Write(*rec); err != nil {
		// This is the only copy of the key, so it is printed instead of being lost.
		r.Print(a.Terminal(a.Err))
		return r, err
	}
	return r, nil
}

func operatorKeys(a *kit.App, ctx context.Context, c cloud.Cloud, stageName string) (operator.Keys, error) {
	data, err := c.Stack(ctx, stage.FullName(stageName, "data"))
	if problem.Is(err, problem.NotFound) {
		err = kit.WithHint(problem.New(problem.NotFound, "stage %s is not deployed in this account and Region", stageName), "vacancy deploy --stage %s", stageName)
	}
	if err != nil {
		return operator.Keys{}, err
	}
	return operator.Keys{Store: c.OpenStore(data.Outputs["Rows"], data.Outputs["Docs"]), Now: a.Now, Rand: a.Rand}, nil
}
