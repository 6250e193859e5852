package stacks_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/setting"
)

// cdk-nag does not check TableV2; this test does.
func TestTablesAreGuardedWhereNagDoesNotLook(t *testing.T) {
	data := synth(t, standard).template(t, "data")
	if n := len(data.of("AWS::DynamoDB::GlobalTable")); n != 2 || len(data.of("AWS::DynamoDB::Table")) != 0 {
		t.Fatalf("found %d tables, want rows and docs as TableV2", n)
	}
	ceilings := func(v any, read, write string) map[string]any {
		return map[string]any{"read": at(v, read, "MaxReadRequestUnits"), "write": at(v, write, "MaxWriteRequestUnits")}
	}
	reads, writes := map[string]any{"Rows": 43.0, "Docs": 72.0}, map[string]any{"Rows": 36.0, "Docs": 18.0}
	expiry := map[string]any{"Rows": nil, "Docs": map[string]any{"AttributeName": "t", "Enabled": true}}
	for id, table := range data.of("AWS::DynamoDB::GlobalTable") {
		p, replica := table.Properties, at(table.Properties, "Replicas", 0)
		got := map[string]any{
			"billing":             p["BillingMode"],
			"encryption":          at(p, "SSESpecification"),
			"key":                 at(replica, "SSESpecification", "KMSMasterKeyId"),
			"restorable":          at(replica, "PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled"),
			"deletion protection": at(replica, "DeletionProtectionEnabled"),
			"kept":                table.DeletionPolicy,
			"expiry":              p["TimeToLiveSpecification"],
			"read ceiling":        at(replica, "ReadOnDemandThroughputSettings", "MaxReadRequestUnits"),
			"write ceiling":       at(p, "WriteOnDemandThroughputSettings", "MaxWriteRequestUnits"),
			"copies":              len(p["Replicas"].([]any)),
		}
		want := map[string]any{
			"billing": "PAY_PER_REQUEST", "encryption": map[string]any{"SSEEnabled": true, "SSEType": "KMS"},
			"key": map[string]any{"Fn::GetAtt": []any{"AtRestKey", "Arn"}}, "restorable": true, "deletion protection": true,
			"kept": "Retain", "expiry": expiry[id], "read ceiling": reads[id], "write ceiling": writes[id], "copies": 1,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("table %s (-want +got):\n%s", id, diff)
		}
	}
	rows, docs := data.Resources["Rows"].Properties, data.Resources["Docs"].Properties
	view := func(table map[string]any) any { return at(table, "StreamSpecification", "StreamViewType") }
	if view(rows) != "NEW_AND_OLD_IMAGES" || view(docs) != "KEYS_ONLY" { // documents hold sealed keys
		t.Errorf("streams are %v of rows and %v of docs, want both images and keys alone", view(rows), view(docs))
	}
	index := at(docs, "GlobalSecondaryIndexes", 0)
	want := map[string]any{"read": 14.0, "write": 7.0}
	if diff := cmp.Diff(want, map[string]any{
		"read":  at(docs, "Replicas", 0, "GlobalSecondaryIndexes", 0, "ReadOnDemandThroughputSettings", "MaxReadRequestUnits"),
		"write": ceilings(index, "", "WriteOnDemandThroughputSettings")["write"]}); diff != "" {
		t.Errorf("ceilings of the index (-want +got):\n%s", diff)
	}
}

// The store's key layout; tables.go of its package has the same.
func TestTablesHaveTheKeysOfTheStore(t *testing.T) {
	data := synth(t, standard).template(t, "data")
	attribute := func(name, kind string) any { return map[string]any{"AttributeName": name, "AttributeType": kind} }
	keys := func(pk, sk string) any {
		return []any{map[string]any{"AttributeName": pk, "KeyType": "HASH"}, map[string]any{"AttributeName": sk, "KeyType": "RANGE"}}
	}
	rows, docs := data.Resources["Rows"].Properties, data.Resources["Docs"].Properties
	index := at(docs, "GlobalSecondaryIndexes", 0)
	got := []any{rows["AttributeDefinitions"], rows["KeySchema"], docs["AttributeDefinitions"], docs["KeySchema"],
		at(index, "IndexName"), at(index, "KeySchema"), at(index, "Projection", "ProjectionType")}
	want := []any{
		[]any{attribute("pk", "B"), attribute("sk", "N")}, keys("pk", "sk"),
		[]any{attribute("pk", "S"), attribute("sk", "S"), attribute("xp", "S"), attribute("xs", "S")}, keys("pk", "sk"),
		"listed", keys("xp", "xs"), "ALL",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
}

func TestDataOutlivesItsStackUnlessToldOtherwise(t *testing.T) {
	for _, test := range []struct {
		context map[string]any
		policy  string
	}{{standard, "Retain"}, {bare, "Delete"}} {
		data := synth(t, test.context).template(t, "data")
		for _, kind := range []string{"AWS::DynamoDB::GlobalTable", "AWS::KMS::Key", "AWS::S3::Bucket"} {
			want := test.policy
			if want == "Retain" && kind != "AWS::DynamoDB::GlobalTable" {
				want = "RetainExceptOnCreate" // a failed first deployment leaves no key and no bucket
			}
			for id, r := range data.of(kind) {
				if r.DeletionPolicy != want {
					t.Errorf("%v: deletion policy of %s = %q, want %q", test.context, id, r.DeletionPolicy, want)
				}
			}
		}
		if got := at(data.Resources["Rows"].Properties, "Replicas", 0, "DeletionProtectionEnabled"); got != (test.policy == "Retain") {
			t.Errorf("%v: deletion protection of rows = %v", test.context, got)
		}
	}
}

func TestASoftwareHostKeyTakesNoKeyOfKMS(t *testing.T) {
	data, functions := synth(t, bare).template(t, "data"), synth(t, bare).template(t, "functions")
	if _, there := data.Resources["HostKey"]; there {
		t.Error("there is a key of the host in KMS")
	}
	for id, f := range functions.of("AWS::Lambda::Function") {
		if at(f.Properties, "Environment", "Variables", "VACANCY_HOST_KEY") != nil {
			t.Errorf("%s is told of a key of the host", id)
		}
	}
}

// A deployment from another machine begins with these outputs. Every deployment rotates the edge's secret, which must not
// change the stack of the data.
func TestAStageStoresItsSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		context map[string]any
		want    map[string]string // by stack
	}{
		"standard": {standard, map[string]string{"data": `{}`, "functions": `{}`}},
		"full": {full, map[string]string{
			"data":      `{"certificate":"` + certificate + `","domain":"vacants.example.org","email":"ops@example.org","waf":"true"}`,
			"functions": `{"certificate":"` + certificate + `","domain":"vacants.example.org","edgeSecretBefore":"` + versionPast + `","edgeSecretVersion":"` + versionNow + `","email":"ops@example.org","waf":"true"}`,
		}},
	} {
		for stack, want := range tc.want {
			if got := at(synth(t, tc.context).template(t, stack).Outputs[setting.StoredOutput], "Value"); got != want {
				t.Errorf("%s: stack %s stores %v, want %s", name, stack, got, want)
			}
		}
	}
}
