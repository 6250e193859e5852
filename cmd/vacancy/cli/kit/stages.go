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

func InvokeFunction(ctx context.Context, c cloud.Cloud, stageName, function, event string) ([]byte, error) {
	fullName := stage.FullName(stageName, function)
	answer, err := c.Invoke(ctx, fullName, []byte(event))
	switch {
	case problem.Is(err, problem.NotFound):
		return nil, WithHint(problem.Wrap(problem.NotFound, err, "there is no function %s in Region %s", fullName, c.Region()), "vacancy deploy --stage %s", stageName)
	case err != nil:
		return nil, err
	case answer.FunctionError != "":
		return nil, WithHint(problem.New(problem.Unavailable, "%s failed: %s", fullName, EscapeLine(answer.FunctionError)), "vacancy tail --host aws --function %s --stage %s", function, stageName)
	}
	return answer.Payload, nil
}

func AddStageFlag(fs *pflag.FlagSet, p *string) {
	fs.StringVar(p, "stage", "", "the stage (default $VACANCY_STAGE, else dev)")
}

// CheckFunction returns an error with the known functions if name is unknown. AWS would not list
// them.
func CheckFunction(name string) error {
	if _, ok := functions.Find(name); ok {
		return nil
	}
	return &problem.Error{Kind: problem.Usage, Field: "the function", Want: "one of " + strings.Join(functions.Names(), ", "), Got: fmt.Sprintf("%.40q", name)}
}

func (a *App) StageName(flag string) (string, error) {
	name := cmp.Or(flag, a.Env["VACANCY_STAGE"], stage.Default)
	return name, stage.CheckName(name)
}

func (a *App) StageRecords() (stage.Records, error) {
	dir, err := a.VacancyHome()
	return stage.Records{Dir: filepath.Join(dir, "stages")}, err
}

func (a *App) readStageRecord(name string) (stage.Record, error) {
	records, err := a.StageRecords()
	if err != nil {
		return stage.Record{}, err
	}
	rec, err := records.Read(name)
	if problem.Is(err, problem.NotFound) {
		return rec, WithHint(err, "vacancy deploy --stage %s", name)
	}
	return rec, err
}

// FindStageRecord returns the record of a stage. For a stage that was not deployed from this
// machine, the record has only the name.
func (a *App) FindStageRecord(flag string) (stage.Record, error) {
	name, err := a.StageName(flag)
	if err != nil {
		return stage.Record{}, err
	}
	rec, err := a.readStageRecord(name)
	if problem.Is(err, problem.NotFound) {
		return stage.Record{Stage: name}, nil
	}
	return rec, err
}

// OpenStage returns a stage's record and account. If the stage was deployed from another machine,
// the record has only the stage's name and the account and Region of the credentials.
func (a *App) OpenStage(ctx context.Context, name string) (stage.Record, cloud.Cloud, error) {
	rec, err := a.readStageRecord(name)
	if err != nil && !problem.Is(err, problem.NotFound) {
		return rec, nil, err
	}
	c, err := a.OpenCloud(ctx, rec.Region)
	if err != nil {
		return rec, nil, err
	}
	awsCaller, err := c.CallerIdentity(ctx)
	if err != nil {
		return rec, nil, WithHint(err, "vacancy doctor --host aws")
	}
	if rec.Stage == "" {
		return stage.Record{Stage: name, Region: c.Region(), Account: awsCaller.Account}, c, nil
	}
	// The credentials may belong to a stage of the same name in another account or Region.
	if rec.Account != awsCaller.Account || rec.Region != c.Region() {
		err := problem.New(problem.Conflict, "stage %s was deployed in account %s, Region %s; these credentials are for account %s, Region %s",
			rec.Stage, rec.Account, rec.Region, awsCaller.Account, c.Region())
		return rec, c, WithHint(err, "AWS_PROFILE or AWS_REGION of that account, or another --stage")
	}
	return rec, c, nil
}

func StackNames(stageName string) []string {
	names := stage.StackNames()
	for i := range names {
		names[i] = stage.FullName(stageName, names[i])
	}
	return names
}

// handlerTimeout limits a request to a handler on AWS. It exceeds the function's timeout.
const handlerTimeout = time.Minute

// KeyedClient returns a client that sends key, if not empty, with each request. It does not follow
// redirects, because another host could get the key.
func (a *App) KeyedClient(key stage.Key) *http.Client {
	c := a.KeylessClient()
	c.Transport = &keyTransport{key, c.Transport}
	return c
}

func (a *App) KeylessClient() *http.Client {
	return a.HTTPClient(handlerTimeout)
}

// keyTransport adds the key to each request. Its Format method hides the key.
type keyTransport struct {
	key  stage.Key
	next http.RoundTripper
}

func (*keyTransport) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "key") }

func (o *keyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", "vacancy")
	if o.key != "" {
		r.Header.Set("Authorization", "Bearer "+string(o.key))
	}
	return o.next.RoundTrip(r)
}
