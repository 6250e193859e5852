package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cdk"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/clitest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// nowhere removes the AWS configuration from the environment.
func nowhere(t *testing.T) {
	t.Helper()
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"} {
		t.Setenv(name, "")
	}
	dir := t.TempDir()
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(dir, "credentials"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// synthesized writes the templates of a stage with the defaults and returns their directory.
func synthesized(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, stack := range stage.StackNames() {
		template, err := os.ReadFile(filepath.Join("..", "..", "..", "infra", "testdata", stack+".json"))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, "vacancy-dev-"+stack+".template.json"), template, 0o600))
	}
	return dir
}

// Prices are printed without credentials and Region: nobody is asked.
func TestCostListsPricesWithoutARegion(t *testing.T) {
	nowhere(t)
	clitest.CompareGolden(t, "cost-prices", newShell(t).must("cost"))
	if out := newShell(t).must("cost", "--json"); !strings.HasPrefix(out, `{"region":"us-east-1","taken":"20`) || !strings.Contains(out, `"lambda-requests":{"usd":0.2,"per":1000000,"unit":"requests"}`) {
		t.Errorf("cost --json = %s", out)
	}
}

func TestCostShowsEveryLineWithItsFormula(t *testing.T) {
	s, dir := newShell(t), synthesized(t)
	clean := strings.NewReplacer(dir, "cdk.out").Replace
	clitest.CompareGolden(t, "cost", clean(s.must("cost", "--templates", dir)))
	clitest.CompareGolden(t, "cost.json", clean(s.must("cost", "--templates", dir, "--calls", "5", "--json")))
}

func TestCostTakesPricesOfOnesOwn(t *testing.T) {
	s, dir := newShell(t), synthesized(t)
	file := filepath.Join(t.TempDir(), "prices.json")
	prices := `{"region":"eu-west-1","taken":"2026-01","prices":{"dynamodb-write-units":{"usd":1000,"per":1}}}`
	must(t, os.WriteFile(file, []byte(prices), 0o600))
	var got struct {
		Region string
		Direct struct{ USD float64 } `json:"function_url"`
	}
	must(t, json.Unmarshal([]byte(s.must("cost", "--templates", dir, "--calls", "1", "--price-list", file, "--json")), &got))
	if got.Region != "eu-west-1" || int(got.Direct.USD) != 2000 {
		t.Errorf("cost of one call at $1000 a write unit = %+v, want $2000 in eu-west-1", got)
	}
}

func TestCostRefusesWhatItCannotEstimate(t *testing.T) {
	dir := synthesized(t)
	nowhere(t)
	bad := filepath.Join(t.TempDir(), "bad.json")
	must(t, os.WriteFile(bad, []byte(`{"region":"r","taken":"t","prices":{"gold":{"usd":1,"per":1}}}`), 0o600))
	for name, tt := range map[string]struct {
		args []string
		exit int
		want string
	}{
		"calls here":    {[]string{"--calls", "5"}, problem.ExitUsage, "try: vacancy cost --calls 5 --host aws\n"},
		"stage here":    {[]string{"--stage", "prod"}, problem.ExitUsage, "try: vacancy cost --stage prod --host aws\n"},
		"a host by URL": {[]string{"--host", "https://vacancy.example"}, problem.ExitUsage, "--host: expected aws or local"},
		"no Region":     {[]string{"--host", "aws"}, problem.ExitUsage, "try: vacancy doctor --host aws\n"},
		"no calls":      {[]string{"--host", "aws", "--calls", "0"}, problem.ExitUsage, "--calls: expected 1 to"},
		"bad stage":     {[]string{"--host", "aws", "--stage", "Prod"}, problem.ExitUsage, "stage: expected"},
		"another stage": {[]string{"--stage", "prod", "--templates", dir}, problem.ExitNotFound, "try: npx --yes aws-cdk@" + cdk.Version + " synth --quiet -c stage=prod\n"},
		"no list":       {[]string{"--templates", dir, "--price-list", "nowhere.json"}, problem.ExitNotFound, "nowhere.json"},
		"unknown item":  {[]string{"--templates", dir, "--price-list", bad}, problem.ExitUsage, `got "gold"`},
	} {
		t.Run(name, func(t *testing.T) { newShell(t).fails(tt.exit, tt.want, append([]string{"cost"}, tt.args...)...) })
	}
}
