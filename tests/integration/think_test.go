package integration

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awslambda "github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/vacancy-host/vacancy/localstack/server"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/lambda"
)

// heardARN is a tenant's Lambda function beside the stage (testdata/heard).
const heardARN = "arn:aws:lambda:" + server.Region + ":" + server.Account + ":function:heard"

// heard deploys the tenant's function.
func (s *deployed) heard(t *testing.T) {
	t.Helper()
	client := awslambda.NewFromConfig(operator(s.aws))
	if _, err := client.GetFunction(t.Context(), &awslambda.GetFunctionInput{FunctionName: awssdk.String("heard")}); err == nil {
		return
	}
	program, err := lambda.Build(filepath.Join(t.TempDir(), "heard"), "./testdata/heard")
	if err != nil {
		t.Fatal(err)
	}
	code, err := lambda.Zip(program)
	if err != nil {
		t.Fatal(err)
	}
	arch := types.ArchitectureX8664
	if runtime.GOARCH == "arm64" {
		arch = types.ArchitectureArm64
	}
	if _, err := client.CreateFunction(t.Context(), &awslambda.CreateFunctionInput{
		FunctionName: awssdk.String("heard"), Runtime: types.RuntimeProvidedal2023, Handler: awssdk.String("bootstrap"), Architectures: []types.Architecture{arch},
		Role: awssdk.String("arn:aws:iam::" + server.Account + ":role/heard"), Code: &types.FunctionCode{ZipFile: code},
	}); err != nil {
		t.Fatal(err)
	}
	if err := awslambda.NewFunctionActiveV2Waiter(client).Wait(t.Context(), &awslambda.GetFunctionInput{FunctionName: awssdk.String("heard")}, time.Minute); err != nil {
		t.Fatal(err)
	}
}

// agent makes a vacant with an agent.
func (s *deployed) agent(t *testing.T, name, tenant string, agent map[string]any) identity.ID {
	t.Helper()
	raw, err := json.Marshal(agent)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := admin.ShowVacant.Call(t.Context(), s.admin(t), admin.VacantRef{Vacant: name}); err == nil {
		return v.ID
	}
	v, err := admin.CreateVacant.Call(t.Context(), s.admin(t), op.NewBody(admin.Creation{Name: name, Capability: "answers", Tenant: tenant, Agent: raw}))
	if err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
	return v.ID
}

// thought makes message and think do all that they ever do for models.
func (s *deployed) thought(t *testing.T) {
	t.Helper()
	// A model with a price, for a tenant, so that two totals and a budget are read.
	p := s.pair(t, s.agent(t, "sage", "acme", map[string]any{"provider": "mock", "price": map[string]any{"input": 1000000, "output": 2000000},
		"system": "```mock\ncall: none {}\nusage: 100 10\n---\ntext: you wrote {input}\nusage: 200 20\n```"}))
	for range 2 {
		if _, a := p.say("a question"); a.Reply.Payload.Text() != "you wrote a question" {
			t.Errorf("the model answers %q", a.Reply.Payload.Text())
		}
	}
	if s.aws != nil {
		s.heard(t)
		p = s.pair(t, s.agent(t, "hears", "acme", map[string]any{"provider": "lambda", "model": heardARN}))
		if _, a := p.say("hello"); a.Reply.Payload.Text() != "the function heard hello" {
			t.Errorf("the function answers %q", a.Reply.Payload.Text())
		}
	}
	// Its secret is opened, and then its server is nowhere.
	if _, err := admin.AgentSecrets.Set.Call(t.Context(), s.admin(t), admin.SetSecretRequest{SecretRef: admin.SecretRef{Name: "key"}, Body: admin.SecretSetting{Value: "canary-of-the-stage", Hosts: []string{"nobody.invalid"}}}); err != nil {
		t.Fatal(err)
	}
	p = s.pair(t, s.agent(t, "mute", "", map[string]any{"provider": "http", "base_url": "https://nobody.invalid/agent", "secret": "key"}))
	if check, err := admin.CheckVacant.Call(t.Context(), s.admin(t), admin.VacantRef{Vacant: "mute"}); err != nil || check.OK {
		t.Errorf("a check of an agent that is nowhere = %+v, %v; want a failure", check, err)
	}
	p.refused("an agent that is nowhere", p.send(p.Call("hello", time.Now())), http.StatusInternalServerError, "substrate_unavailable")
}

func TestAModelAnswersOnTheStage(t *testing.T) {
	s := shared(t)
	before := time.Now()
	s.thought(t)
	for _, command := range [][]string{{"budget", "show", "--tenant", "acme", "--host", "aws"}, {"models", "--host", "aws"}, {"secret", "list", "--host", "aws"}, {"show", "sage", "--host", "aws"}} {
		out, exit := s.vacancy(t, command...)
		if exit != 0 || bytes.Contains(out, []byte("canary")) {
			t.Errorf("vacancy %s: exit %d\n%s", strings.Join(command, " "), exit, out)
		}
	}
	turns := 6
	if s.aws == nil { // without the tenant's function
		turns--
	}
	lines := s.lines(t, "think", before, func(all []line) bool { return len(all) >= turns })
	for _, l := range lines {
		if strings.Contains(l.raw, "canary") {
			t.Errorf("think logs a secret: %s", l.raw)
		}
	}
	s.whole(t)
}
