package assembly_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/assembly"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const table = `{"Type":"AWS::DynamoDB::GlobalTable","Properties":{"TableName":"vacancy-dev-rows",
"KeySchema":[{"AttributeName":"s","KeyType":"HASH"},{"AttributeName":"p","KeyType":"RANGE"}],
"AttributeDefinitions":[{"AttributeName":"s","AttributeType":"B"},{"AttributeName":"p","AttributeType":"N"}],
"Replicas":[{"Region":{"Ref":"AWS::Region"},"DeletionProtectionEnabled":true}]},"DeletionPolicy":"Retain"}`

const (
	key      = `{"Type":"AWS::KMS::Key","Properties":{"Description":"seals","KeyPolicy":{"a":1}}}`
	bucket   = `{"Type":"AWS::S3::Bucket","Properties":{"BucketName":"blobs"}}`
	function = `{"Type":"AWS::Lambda::Function","Properties":{"FunctionName":"vacancy-dev-message","MemorySize":256,
"Code":{"S3Bucket":{"Fn::Sub":"cdk-assets-${AWS::AccountId}-${AWS::Region}"},"S3Key":"aa.zip"}},"Metadata":{"x":1}}`
)

func parse(t *testing.T, resources string, rest ...string) assembly.Template {
	t.Helper()
	tpl, err := assembly.Parse([]byte(`{"Resources":{` + resources + `}` + strings.Join(rest, "") + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return tpl
}

func all(change ...string) string {
	text := `"Rows":` + table + `,"Key":` + key + `,"Blobs":` + bucket + `,"Message":` + function
	return strings.NewReplacer(change...).Replace(text)
}

func TestATemplateThatWouldLoseDataIsNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		after string
		want  []string
	}{
		"nothing changed":          {all(), nil},
		"another table name":       {all("vacancy-dev-rows", "other"), []string{"Rows (AWS::DynamoDB::GlobalTable) would be replaced, because of a change of TableName"}},
		"another key schema":       {all(`{"AttributeName":"p","KeyType":"RANGE"}`, `{"AttributeName":"q","KeyType":"RANGE"}`), []string{"Rows (AWS::DynamoDB::GlobalTable) would be replaced, because of a change of KeySchema"}},
		"a key of another type":    {all(`"AttributeName":"p","AttributeType":"N"`, `"AttributeName":"p","AttributeType":"S"`), []string{"Rows (AWS::DynamoDB::GlobalTable) would be replaced, because of a change of AttributeDefinitions"}},
		"one attribute more":       {all(`"AttributeDefinitions":[`, `"AttributeDefinitions":[{"AttributeName":"i","AttributeType":"S"},`), nil},
		"a local index":            {all(`"Replicas"`, `"LocalSecondaryIndexes":[{}],"Replicas"`), []string{"Rows (AWS::DynamoDB::GlobalTable) would be replaced, because of a change of LocalSecondaryIndexes"}},
		"no deletion protection":   {all(`"DeletionProtectionEnabled":true`, `"DeletionProtectionEnabled":false`), nil},
		"a replica elsewhere":      {all(`{"Ref":"AWS::Region"}`, `"eu-west-1"`), []string{"Rows (AWS::DynamoDB::GlobalTable) would lose its replica in map[Ref:AWS::Region]"}},
		"the other kind of table":  {all("GlobalTable", "Table"), []string{"Rows (AWS::DynamoDB::GlobalTable) would become a AWS::DynamoDB::Table"}},
		"a logical id renamed":     {all(`"Rows"`, `"Rows2"`), []string{"Rows (AWS::DynamoDB::GlobalTable) would be removed from the stack"}},
		"a key for signatures":     {all(`"Description":"seals"`, `"KeyUsage":"SIGN_VERIFY"`), []string{"Key (AWS::KMS::Key) would be replaced, because of a change of KeyUsage"}},
		"a default written out":    {all(`"Description":"seals"`, `"KeySpec":"SYMMETRIC_DEFAULT","MultiRegion":false`), nil},
		"another key policy":       {all(`{"a":1}`, `{"a":2}`), nil},
		"another bucket name":      {all(`"blobs"`, `"blobs2"`), []string{"Blobs (AWS::S3::Bucket) would be replaced, because of a change of BucketName"}},
		"a bucket's name left out": {all(`"BucketName":"blobs"`, ""), []string{"Blobs (AWS::S3::Bucket) would be replaced, because of a change of BucketName"}},
		"a function gone":          {`"Rows":` + table + `,"Key":` + key + `,"Blobs":` + bucket, nil},
		"everything gone": {"", []string{
			"Blobs (AWS::S3::Bucket) would be removed from the stack", "Key (AWS::KMS::Key) would be removed from the stack", "Rows (AWS::DynamoDB::GlobalTable) would be removed from the stack",
		}},
	} {
		var got []string
		for _, l := range assembly.ListLosses(parse(t, all()), parse(t, tc.after)) {
			got = append(got, l.String())
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: ListLosses() (-want +got):\n%s", name, diff)
		}
	}
	if got := assembly.ListLosses(parse(t, ""), parse(t, all())); got != nil {
		t.Errorf("ListLosses() of a first deploy = %v, want none", got)
	}
}

func TestChangesAreListedByResourceAndProperty(t *testing.T) {
	before := parse(t, all(), `,"Outputs":{"Version":{"Value":"1"}}`)
	after := parse(t, all(`"Key"`, `"Key2"`, "aa.zip", "bb.zip", `"MemorySize":256`, `"MemorySize":512`, `"DeletionPolicy":"Retain"`, `"DeletionPolicy":"Delete"`, `{"x":1}`, `{"x":2}`),
		`,"Outputs":{"Version":{"Value":"2"}}`)
	want := []assembly.Change{
		{Verb: assembly.Remove, Resource: "Key", Type: "AWS::KMS::Key"},
		{Verb: assembly.Create, Resource: "Key2", Type: "AWS::KMS::Key"},
		{Verb: assembly.Update, Resource: "Message", Type: "AWS::Lambda::Function", Properties: []string{"Code", "MemorySize"}},
		{Verb: assembly.Update, Resource: "Rows", Type: "AWS::DynamoDB::GlobalTable", Properties: []string{"DeletionPolicy"}},
		{Verb: assembly.Update, Resource: "Outputs"},
	}
	if diff := cmp.Diff(want, assembly.Compare(before, after)); diff != "" {
		t.Errorf("Compare() (-want +got):\n%s", diff)
	}
	if got := assembly.Compare(before, before); got != nil {
		t.Errorf("Compare() of the same = %v, want nothing", got)
	}
	mangled := parse(t, all("seals", "seals ??"))
	if got := assembly.Compare(mangled, parse(t, all("seals", "seals ñé"))); got != nil {
		t.Errorf("Compare() with what CloudFormation cannot hand out = %v, want nothing", got)
	}
}

func TestResourcesAreCountedByType(t *testing.T) {
	want := []assembly.Count{{"AWS::DynamoDB::GlobalTable", 1}, {"AWS::KMS::Key", 2}}
	if diff := cmp.Diff(want, parse(t, `"A":`+key+`,"B":`+table+`,"C":`+key).CountTypes()); diff != "" {
		t.Errorf("CountTypes() (-want +got):\n%s", diff)
	}
}

func TestTheVersionOfASecretIsReadFromATemplate(t *testing.T) {
	const id = "11111111-2222-3333-4444-555555555555"
	for name, tc := range map[string]struct {
		template string
		version  string
		refers   bool
	}{
		"pinned":      {`{"Fn::Join":["",["{{resolve:secretsmanager:",{"Ref":"S"},":SecretString:::` + id + `}}"]]}`, id, true},
		"with a name": {`"{{resolve:secretsmanager:arn:aws:secretsmanager:eu-west-1:1:secret:x:SecretString:k:AWSCURRENT:` + id + `}}"`, id, true},
		"current":     {`"{{resolve:secretsmanager:arn:SecretString:::}}"`, "", true},
		"none":        {`{}`, "", false},
	} {
		if version, refers := assembly.SecretVersion([]byte(tc.template)); version != tc.version || refers != tc.refers {
			t.Errorf("%s: SecretVersion() = %q, %t, want %q, %t", name, version, refers, tc.version, tc.refers)
		}
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAnAssemblyIsReadInTheOrderOfItsDependencies(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "manifest.json", `{"artifacts":{
"vacancy-dev-edge":{"type":"aws:cloudformation:stack","displayName":"vacancy-dev-edge","dependencies":["vacancy-dev-functions","vacancy-dev-edge.assets"],"properties":{"templateFile":"edge.json"}},
"vacancy-dev-functions":{"type":"aws:cloudformation:stack","dependencies":["vacancy-dev-watch","vacancy-dev-data"],"properties":{"templateFile":"functions.json","stackName":"vacancy-dev-functions"}},
"vacancy-dev-functions.assets":{"type":"cdk:asset-manifest","properties":{"file":"functions.assets.json"}},
"vacancy-dev-watch":{"type":"aws:cloudformation:stack","properties":{"templateFile":"watch.json"}},
"vacancy-dev-data":{"type":"aws:cloudformation:stack","properties":{"templateFile":"data.json"}},
"Tree":{"type":"cdk:tree","properties":{"file":"tree.json"}}}}`)
	for _, name := range []string{"edge", "functions", "watch", "data"} {
		write(t, dir, name+".json", "{}")
	}
	a, err := assembly.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range a.Stacks {
		names = append(names, s.Name)
	}
	if diff := cmp.Diff([]string{"vacancy-dev-data", "vacancy-dev-watch", "vacancy-dev-functions", "vacancy-dev-edge"}, names); diff != "" {
		t.Errorf("Read() order (-want +got):\n%s", diff)
	}
}

func TestReadRefusesAnInvalidAssembly(t *testing.T) {
	dir := t.TempDir()
	for _, manifest := range []string{"", "[]", `{"artifacts":{"a":{"type":"aws:cloudformation:stack","properties":{"templateFile":"absent.json"}}}}`} {
		write(t, dir, "manifest.json", manifest)
		if _, err := assembly.Read(dir); !problem.Is(err, problem.Damaged) {
			t.Errorf("Read() of %q = %v, want Damaged", manifest, err)
		}
	}
	if _, err := assembly.Read(filepath.Join(dir, "absent")); !problem.Is(err, problem.Damaged) {
		t.Errorf("Read() of no folder = %v, want Damaged", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"Resources":{`+all()+`}}`), []byte(`{"Resources":{`+all("aa.zip", "bb.zip")+`},"Outputs":1}`))
	f.Add([]byte(`{"Resources":[]}`), []byte(`{"Resources":{"a":{"Type":"AWS::DynamoDB::Table","Properties":{"AttributeDefinitions":[1,{"AttributeName":{}}],"Replicas":{}}}}}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		before, err := assembly.Parse(a)
		if err != nil {
			return
		}
		if changes, losses := assembly.Compare(before, before), assembly.ListLosses(before, before); changes != nil || losses != nil {
			t.Fatalf("from a template to itself = %v, %v, want nothing", changes, losses)
		}
		after, err := assembly.Parse(b)
		if err != nil {
			return
		}
		changes := assembly.Compare(before, after)
		if losses := assembly.ListLosses(before, after); len(losses) > 0 && len(changes) == 0 {
			t.Fatalf("losses %v without a change", losses)
		}
	})
}
