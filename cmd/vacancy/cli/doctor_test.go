package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// nowhere is an environment without an AWS configuration.
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

func TestDoctorNamesEachFaultWithItsFixAndEndsWith1(t *testing.T) {
	nowhere(t)
	code, out, errs := newShell(t).run("", "doctor", "--host", "aws")
	if code != problem.ExitFailed || errs != "" {
		t.Errorf("vacancy doctor = exit %d, err %q; want exit 1 and the report alone", code, errs)
	}
	checked := 0 // functions
	for _, f := range functions.All() {
		if f.Check.Name != "" {
			checked++
		}
	}
	for _, want := range []string{
		"stage dev\n", "  FAIL  region                    no AWS Region is set\n", "fix: export AWS_REGION=us-east-1\n",
		fmt.Sprintf("  n/a   bootstrap and %d more     needs AWS credentials and a Region\n", 16+checked), "1 wrong",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("vacancy doctor printed\n%s\nwant %q in it", out, want)
		}
	}
	if n := strings.Count(out, "needs AWS credentials"); n != 1 {
		t.Errorf("vacancy doctor gives one reason %d times:\n%s", n, out)
	}
}

// Without credentials the host in the stage's record is still called.
func TestDoctorCallsTheHostOfTheRecord(t *testing.T) {
	nowhere(t)
	handler := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/admin/host" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer handler.Close()
	s := newShell(t)
	rec := stage.Record{Stage: "prod", Region: "eu-west-1", URL: handler.URL, AdminURL: handler.URL, OperatorKey: "vop_old"}
	if err := (stage.Records{Dir: filepath.Join(s.dataHome, "stages")}).Write(rec); err != nil {
		t.Fatal(err)
	}
	s.env["VACANCY_STAGE"] = "prod"
	code, out, _ := s.run("", "doctor", "--host", "aws", "--json")
	var r doctor.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if code != problem.ExitFailed || r.Stage != "prod" || r.OK {
		t.Errorf("vacancy doctor = exit %d, %+v; want exit 1 and a report on prod that is not ok", code, r)
	}
	if c := r.Find("health"); c.Verdict != doctor.OK {
		t.Errorf("check = %+v, want ok", c)
	}
	if c := r.Find("operator key"); c.Verdict != doctor.Fail || c.Fix != "vacancy keys rotate-operator --stage prod" {
		t.Errorf("check = %+v, want FAIL with a fix by vacancy keys rotate-operator", c)
	}
	if strings.Contains(out, "vop_old") {
		t.Error("vacancy doctor printed the operator key")
	}
}
