package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/host/keys/operator"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (a *app) keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Manage keys of accounts, and the operator key of a deployed host",
		Long: `A key of an account pays for calls of A2A, and manages the account ("vacancy account").

The operator key opens the admin API of a deployed host and the export that "vacancy
verify" reads. "vacancy deploy" creates it, shows it once and writes it to
$VACANCY_HOME/stages/STAGE.json, readable by you only. The host keeps only its hash.`,
		Example: "  vacancy keys create acme\n  vacancy keys rotate-operator --stage prod",
		Args:    a.knownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.makeKeyCommand(), a.listKeysCommand(), a.revokeKeyCommand(), a.rotateOperatorCommand())
	return cmd
}

func (a *app) rotateOperatorCommand() *cobra.Command {
	var stageName string
	cmd := &cobra.Command{
		Use:   "rotate-operator",
		Short: "Replace the operator key; the old one is refused at once",
		Long: `Create a new operator key with your AWS credentials, show it once and write it to the
stage's record. The previous key is refused from then on. Update $VACANCY_OPERATOR_KEY
where it is set.`,
		Example: "  vacancy keys rotate-operator\n  vacancy keys rotate-operator --stage prod --json",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.rotateOperator(cmd.Context(), stageName)
		},
	}
	stageFlag(cmd.Flags(), &stageName)
	return cmd
}

// keyResult is a new operator key, shown only once.
type keyResult struct {
	Stage string `json:"stage"`
	Key   string `json:"operator_key"`
	Kept  string `json:"kept_in"`
}

func (r keyResult) text(w io.Writer) {
	fmt.Fprintf(w, "operator key of stage %s, shown this once; it is kept in %s:\n%s\n", r.Stage, r.Kept, r.Key)
}

func (a *app) rotateOperator(ctx context.Context, flag string) error {
	name, err := a.stageName(flag)
	if err != nil {
		return err
	}
	rec, c, err := a.openStage(ctx, name)
	if err != nil {
		return err
	}
	if rec.URL == "" { // deployed from elsewhere, or by plain cdk
		if err := a.learnURLs(ctx, c, &rec); err != nil {
			return err
		}
	}
	r, err := a.mint(ctx, c, &rec)
	if err != nil {
		return err
	}
	return a.show(r)
}

// mint creates a stage's operator key and stores it in the stage's record. The
// record is written once before, so that an unwritable directory does not lose
// a key.
func (a *app) mint(ctx context.Context, c cloud.Cloud, rec *stage.Record) (keyResult, error) {
	records, err := a.stages()
	if err != nil {
		return keyResult{}, err
	}
	if err := records.Write(*rec); err != nil {
		return keyResult{}, err
	}
	keys, err := a.operatorKeys(ctx, c, rec.Stage)
	if err != nil {
		return keyResult{}, err
	}
	key, err := keys.Rotate(ctx)
	if err != nil {
		return keyResult{}, c.Problem(err)
	}
	rec.OperatorKey = stage.Key(key)
	r := keyResult{Stage: rec.Stage, Key: key, Kept: filepath.Join(records.Dir, rec.Stage+".json")}
	if err := records.Write(*rec); err != nil {
		// This is the only copy: better on the screen than lost.
		r.text(a.err)
		return r, err
	}
	return r, nil
}

// operatorKeys accesses a stage's operator key in its tables, with the person's
// AWS credentials.
func (a *app) operatorKeys(ctx context.Context, c cloud.Cloud, stageName string) (operator.Keys, error) {
	data, err := c.Stack(ctx, stage.Whole(stageName, "data"))
	if problem.Is(err, problem.NotFound) {
		err = withHint(problem.New(problem.NotFound, "stage %s is not deployed in this account and Region", stageName), "vacancy deploy --stage %s", stageName)
	}
	if err != nil {
		return operator.Keys{}, err
	}
	return operator.Keys{Store: c.Store(data.Outputs["Rows"], data.Outputs["Docs"]), Now: a.now, Rand: a.rand}, nil
}
