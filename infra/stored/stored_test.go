package stored_test

import (
	"context"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/awscloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/cloudtest"
	"github.com/vacancy-host/vacancy/infra/settings"
	"github.com/vacancy-host/vacancy/infra/stored"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const (
	version = "0a1b2c3d-1111-1111-1111-111111111111"
	account = "123456789012" // of cloudtest.NewWithEnv
)

func stack(short, status string, outputs ...string) cloudtest.Stack {
	s := cloudtest.Stack{Name: "vacancy-dev-" + short, Status: status, Outputs: map[string]string{}}
	for _, text := range outputs {
		s.Outputs["Settings"] = text
	}
	return s
}

func TestADeploymentThatWouldResetASettingIsRefused(t *testing.T) {
	const done = "UPDATE_COMPLETE"
	for name, tc := range map[string]struct {
		stacks  []cloudtest.Stack
		context map[string]any
		want    []string // in the error; nil for none
	}{
		"a first deployment":          {nil, nil, nil},
		"one that failed":             {[]cloudtest.Stack{stack("functions", "ROLLBACK_COMPLETE"), stack("data", "REVIEW_IN_PROGRESS")}, nil, nil},
		"the same settings":           {[]cloudtest.Stack{stack("functions", done, `{"worstDay":"50"}`)}, map[string]any{"worstDay": 50.}, nil},
		"the defaults, as before":     {[]cloudtest.Stack{stack("functions", done, `{}`)}, map[string]any{"worstDay": 20.}, nil},
		"a change that is said":       {[]cloudtest.Stack{stack("functions", done, `{"worstDay":"50"}`)}, map[string]any{"worstDay": "30", "changes": "worstDay"}, nil},
		"all changes are said":        {[]cloudtest.Stack{stack("functions", done, `{"worstDay":"50","edge":"false"}`)}, map[string]any{"changes": "all"}, nil},
		"functions decide":            {[]cloudtest.Stack{stack("functions", done, `{}`), stack("data", done, `{"worstDay":"50"}`)}, nil, nil},
		"data of a failed deployment": {[]cloudtest.Stack{stack("functions", "ROLLBACK_COMPLETE", `{}`), stack("data", done, `{"keep":"false"}`)}, nil, []string{"--context keep=false"}},
		"a reset": {[]cloudtest.Stack{stack("functions", done, `{"worstDay":"50","edge":"false","rate":""}`)}, nil, []string{
			"would change settings of stage dev:\n  edge: from false to true\n  rate: from nothing to 20:40\n  worstDay: from 50 to 20\n",
			"To keep them, add: --context edge=false --context rate= --context worstDay=50\n", "To change them, add: --context changes=edge,rate,worstDay"}},
		"one of two is said": {[]cloudtest.Stack{stack("functions", done, `{"worstDay":"50","budget":"9"}`)}, map[string]any{"changes": "budget", "budget": "7"}, []string{
			"dev:\n  worstDay: from 50 to 20\n", "add: --context worstDay=50\n", "changes=budget,worstDay"}},
		"a rotated secret":             {[]cloudtest.Stack{stack("functions", done, `{"edgeSecretVersion":"`+version+`"}`)}, nil, []string{"--context edgeSecretVersion=" + version}},
		"a setting of a later release": {[]cloudtest.Stack{stack("functions", done, `{"speed":"9","worstDay":"50"}`)}, nil, []string{"speed: from 9 to nothing", "add: --context worstDay=50\n", "changes=speed,worstDay"}},
		"a stage of an earlier release": {[]cloudtest.Stack{stack("functions", done), stack("data", done)}, map[string]any{"changes": "worstDay"}, []string{
			"did not store the settings", "vacancy deploy --stage dev", "--context changes=all"}},
		"an output of another form": {[]cloudtest.Stack{stack("functions", done, `[]`)}, nil, []string{"cannot be read", "vacancy-dev-functions", "changes=all"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := cloudtest.NewWithEnv(t)
			server.SetStacks(tc.stacks...)
			s, err := settings.Read(tc.context, "us-east-1")
			if err != nil {
				t.Fatal(err)
			}
			var notes strings.Builder
			err = stored.Check(t.Context(), s, "eu-west-1", account, awscloud.Open, &notes)
			if (err == nil) != (tc.want == nil) || notes.Len() > 0 {
				t.Fatalf("Check() = %v, notes %q; want an error with %q", err, &notes, tc.want)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Check() = %v\nwant it to say %q", err, want)
				}
			}
		})
	}
}

func TestASynthesisWithoutCredentialsSaysThatItDidNotLook(t *testing.T) {
	open := func(context.Context, string) (cloud.Cloud, error) {
		t.Error("an account was opened")
		return nil, problem.New(problem.Internal, "no account")
	}
	var notes strings.Builder
	if err := stored.Check(t.Context(), settings.Settings{}, "eu-west-1", "", open, &notes); err != nil || !strings.Contains(notes.String(), "are not compared") {
		t.Errorf("Check() without an account = %v, %q; want a note", err, &notes)
	}
	notes.Reset()
	s := settings.Settings{}
	s.Changes = []string{"all"}
	if err := stored.Check(t.Context(), s, "eu-west-1", account, open, &notes); err != nil || notes.Len() > 0 {
		t.Errorf("Check() of any changes = %v, %q; want silence", err, &notes)
	}
}

// The CDK has credentials, so it could deploy without the comparison.
func TestASynthesisThatCannotLookIsRefused(t *testing.T) {
	server := cloudtest.NewWithEnv(t)
	server.SetError("DescribeStacks", "AccessDenied", "not authorized to perform cloudformation:DescribeStacks")
	check := func(account string, want ...string) {
		t.Helper()
		err := stored.Check(t.Context(), settings.Settings{}, "eu-west-1", account, awscloud.Open, t.Output())
		for _, want := range want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Check() = %v, want %q", err, want)
			}
		}
	}
	check(account, "not authorized", "changes=all")
	check("999999999999", "are for account 123456789012, expected account 999999999999", "AWS_PROFILE")
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	check(account, "AWS_PROFILE")
}
