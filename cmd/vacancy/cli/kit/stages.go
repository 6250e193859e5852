package kit

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// InvokeStage invokes a function of a stage and returns its answer.
func InvokeStage(ctx context.Context, c cloud.Cloud, stageName, function, event string) ([]byte, error) {
	whole := stage.Whole(stageName, function)
	answer, err := c.Invoke(ctx, whole, []byte(event))
	switch {
	case problem.Is(err, problem.NotFound):
		return nil, WithHint(problem.Wrap(problem.NotFound, err, "there is no function %s in Region %s", whole, c.Region()), "vacancy deploy --stage %s", stageName)
	case err != nil:
		return nil, err
	case answer.Error != "":
		return nil, WithHint(problem.New(problem.Unavailable, "%s failed: %s", whole, Printable(answer.Error)), "vacancy tail --host aws --function %s --stage %s", function, stageName)
	}
	return answer.Payload, nil
}

// StageFlag adds --stage.
func StageFlag(fs *pflag.FlagSet, p *string) {
	fs.StringVar(p, "stage", "", "the stage (default $VACANCY_STAGE, else dev)")
}

// CheckFunction refuses an unknown function name, for which the logs or AWS
// would report only that nothing was found.
func CheckFunction(name string) error {
	if _, ok := functions.Named(name); ok {
		return nil
	}
	return &problem.Error{Kind: problem.Usage, Field: "the function", Want: "one of " + strings.Join(functions.Names(), ", "), Got: fmt.Sprintf("%.40q", name)}
}

// StageName returns --stage, $VACANCY_STAGE or dev, and refuses names that no stage can have.
func (a *App) StageName(flag string) (string, error) {
	name := cmp.Or(flag, a.Env["VACANCY_STAGE"], stage.Default)
	return name, stage.CheckName(name)
}

// Stages are the records of stages deployed from this machine.
func (a *App) Stages() (stage.Records, error) {
	dir, err := a.DataHomeDir()
	return stage.Records{Dir: filepath.Join(dir, "stages")}, err
}

// stageRecord is the record of a stage. If there is none the error says how to
// get one.
func (a *App) stageRecord(name string) (stage.Record, error) {
	records, err := a.Stages()
	if err != nil {
		return stage.Record{}, err
	}
	rec, err := records.Read(name)
	if problem.Is(err, problem.NotFound) {
		return rec, WithHint(err, "vacancy deploy --stage %s", name)
	}
	return rec, err
}

// StageOrName is the record of the stage in the flag; for a stage not deployed
// from here, only its name.
func (a *App) StageOrName(flag string) (stage.Record, error) {
	name, err := a.StageName(flag)
	if err != nil {
		return stage.Record{}, err
	}
	rec, err := a.stageRecord(name)
	if problem.Is(err, problem.NotFound) {
		return stage.Record{Stage: name}, nil
	}
	return rec, err
}

// OpenStage returns a stage's record and account. For a stage without a record, deployed
// from elsewhere, the record has only the stage's name and the account and Region of the
// current credentials.
func (a *App) OpenStage(ctx context.Context, name string) (stage.Record, cloud.Cloud, error) {
	rec, err := a.stageRecord(name)
	if err != nil && !problem.Is(err, problem.NotFound) {
		return rec, nil, err
	}
	c, err := a.OpenCloud(ctx, rec.Region)
	if err != nil {
		return rec, nil, err
	}
	who, err := c.Caller(ctx)
	if err != nil {
		return rec, nil, WithHint(err, "vacancy doctor --host aws")
	}
	if rec.Stage == "" {
		return stage.Record{Stage: name, Region: c.Region(), Account: who.Account}, c, nil
	}
	if rec.Account != who.Account || rec.Region != c.Region() { // the stage of that name in another account
		err := problem.New(problem.Conflict, "stage %s was deployed in account %s, Region %s; these credentials are for account %s, Region %s",
			rec.Stage, rec.Account, rec.Region, who.Account, c.Region())
		return rec, c, WithHint(err, "AWS_PROFILE or AWS_REGION of that account, or another --stage")
	}
	return rec, c, nil
}

// StackNames are the stacks of a stage in deployment order.
func StackNames(stageName string) []string {
	names := stage.Stacks()
	for i := range names {
		names[i] = stage.Whole(stageName, names[i])
	}
	return names
}

// handlerTime bounds one request to a deployed handler: more than its
// function's timeout.
const handlerTime = time.Minute

// KeyedClient sends a key of the operator or of an account with each request, or no header
// for an empty key. It follows no redirect, so the key goes nowhere else.
func (a *App) KeyedClient(key stage.Key) *http.Client {
	c := a.KeylessClient()
	c.Transport = &bearerKey{key, c.Transport}
	return c
}

// KeylessClient is a client of a host without a key.
func (a *App) KeylessClient() *http.Client {
	return a.WebClient(handlerTime)
}

// bearerKey adds the key to each request.
type bearerKey struct {
	key  stage.Key
	next http.RoundTripper
}

// Format prints no key.
func (*bearerKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "key") }

// RoundTrip implements http.RoundTripper.
func (o *bearerKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", "vacancy")
	if o.key != "" {
		r.Header.Set("Authorization", "Bearer "+string(o.key))
	}
	return o.next.RoundTrip(r)
}
