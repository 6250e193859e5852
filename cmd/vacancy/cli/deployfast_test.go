package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/assembly"
)

func TestAHotSwapNamesEachFunctionOnce(t *testing.T) {
	s, server := onAWS(t)
	zip := filepath.Join(t.TempDir(), "aa.zip")
	if err := os.WriteFile(zip, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	const function = `{"Type":"AWS::Lambda::Function","Properties":{"FunctionName":"vacancy-dev-message","Code":{"S3Bucket":"b","S3Key":"aa.zip"}}}`
	server.Always("GetFunctionConfiguration", `{"FunctionName":"vacancy-dev-message","CodeSha256":"other","State":"Active","LastUpdateStatus":"Successful"}`)
	server.Always("UpdateFunctionCode", `{"FunctionName":"vacancy-dev-message","LastUpdateStatus":"InProgress"}`)
	server.Always("GetFunction", `{"Configuration":{"FunctionName":"vacancy-dev-message","State":"Active","LastUpdateStatus":"Successful"}}`)
	d, errs := deploying(t, s, "", deployFlags{fast: true})
	built := &assembly.Assembly{Stacks: []assembly.Stack{{Name: "vacancy-dev-functions", Template: []byte(`{"Resources":{"Message":` + function + `}}`), Zips: map[string]string{"aa": zip}}}}
	err := d.swapCode(t.Context(), built, "vacancy-dev-functions")
	out := d.out.(*bytes.Buffer).String()
	if err != nil || errs.Len() > 0 || out != "new code: vacancy-dev-message\n" {
		t.Errorf("swapCode() = %v, out %q, err %q; want the function named once", err, out, errs)
	}
}
