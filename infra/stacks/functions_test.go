package stacks_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/infra/stacks"
	table "github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/tamper"
)

// list makes a list of what policies write as one value or as several.
func list(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	return []any{v}
}

func TestNoRoleMayChangeARowAndOneMayScan(t *testing.T) {
	functions := synth(t, standard).template(t, "functions")
	for _, name := range table.Names() {
		allowed, denied := map[string][]string{}, map[string][]string{}
		for _, s := range at(readable(policy(t, functions, name)), "Statement").([]any) {
			into := allowed
			if at(s, "Effect") == "Deny" {
				into = denied
			}
			for _, r := range list(at(s, "Resource")) {
				for _, a := range list(at(s, "Action")) {
					into[r.(string)] = append(into[r.(string)], a.(string))
				}
			}
		}
		may := []string{"dynamodb:PutItem", "dynamodb:Query", "dynamodb:GetItem"}
		mayNot := []string{"dynamodb:DeleteItem", "dynamodb:UpdateItem", "dynamodb:BatchWriteItem", "dynamodb:PartiQLUpdate", "dynamodb:PartiQLDelete", "dynamodb:PartiQLInsert"}
		switch name {
		case "export":
			may[0] = "dynamodb:Scan"
			mayNot = append(mayNot, "dynamodb:PutItem")
		case "search", "tamper", "indexer", "prober", "web":
			may = nil
			mayNot = append(mayNot, "dynamodb:PutItem", "dynamodb:Scan")
		case "consent", "ratelimit", "collusion", "record":
			may = may[1:]
			mayNot = append(mayNot, "dynamodb:PutItem", "dynamodb:Scan")
		case "checkpointer", "meter":
			may = may[1:2]
			mayNot = append(mayNot, "dynamodb:PutItem", "dynamodb:Scan")
		default:
			mayNot = append(mayNot, "dynamodb:Scan")
		}
		for _, a := range allowed["data.Rows.Arn"] {
			if !slices.Contains(may, a) {
				t.Errorf("%s may %s on rows, want %v at most", name, a, may)
			}
		}
		for _, a := range mayNot {
			if !slices.Contains(denied["data.Rows.Arn"], a) {
				t.Errorf("%s is denied %v on rows, want %s too", name, denied["data.Rows.Arn"], a)
			}
		}
		if diff := cmp.Diff(wantStars(name), allowed["*"]); diff != "" {
			t.Errorf("%s may do with anything (-want +got):\n%s", name, diff)
		}
	}
}

// Functions that strangers reach, or that need nothing else, may create and
// delete text keys. They may read no operator key and no seed, and no record
// except the gate's commit.
func TestOnlyTheAdminAPIWritesDocumentsOfAnyKind(t *testing.T) {
	functions := synth(t, standard).template(t, "functions")
	got := map[string]string{}
	for _, name := range table.Names() {
		for _, s := range at(readable(policy(t, functions, name)), "Statement").([]any) {
			for _, a := range list(at(s, "Action")) {
				partition, bound := partitions(s), at(s, "Condition", "StringLike", "kms:EncryptionContext:vacancy")
				switch {
				case at(s, "Effect") != "Allow":
				case a == "dynamodb:PutItem" && at(s, "Resource") == "data.Docs.Arn":
					got[name] += fmt.Sprint("puts ", partition, " ")
				case a == "kms:Encrypt":
					got[name] += fmt.Sprint("seals ", bound, " ")
				}
			}
		}
	}
	want := map[string]string{"message": "puts [textkey obs#* task#* due#* work#* workturn#*] seals textkey:* ",
		"agent":  "puts [textkey obs#* task#* recent#* team#* open#* guest due#* subject#* work#* workturn#* workers#* workspacecount#* workspace#* workspacefile#* locks#*] seals [textkey:* guest:* workspace:*] ",
		"worker": "puts [textkey obs#* task#* guest due#* bkg#* bookdue#* bookevent#* breaker#* work#* workturn#* workspacecount#* workspace#* workspacefile#* locks#*] seals [textkey:* guest:* workspace:*] ", "sweeper": "puts [workspacecount#* textkey sweep acct#* key#* link#*] ", "meter": "puts [use#* meter export] ",
		"gateway": "puts [subject#* acct#* key#* link#* endings pay#* bkg#* bookdue#* bookevent#* bookidem#* keyuse#*] ", "admin": "puts <nil> seals <nil> ",
		"registry": "puts [reg#* kin#* revoked cosigned unreached slug#* venues reviews#* reviewer#*] ", "checkpointer": "puts [tlog signkey] seals signkey:* ", "prober": "puts [unreached reg#*] ", "think": "puts [spend#*] ",
		"graduate": "puts [grad#* gradtry#*] ", "record": "puts [grad#*] ", "commit": "puts [grad#* gradwin#* reg#* opened#* v#* unreached venues] "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is written to docs and sealed (-want +got):\n%s", diff)
	}
}

// partitions are the partitions that a statement is restricted to.
func partitions(statement any) any {
	for _, operator := range []string{"ForAllValues:StringEquals", "ForAllValues:StringLike"} {
		if p := at(statement, "Condition", operator, "dynamodb:LeadingKeys"); p != nil {
			return p
		}
	}
	return nil
}

// Strangers search in registrations and their index: the function reads no
// other document and no row.
func TestSearchReadsRegistrationsAndTheIndexAlone(t *testing.T) {
	a := synth(t, standard)
	got := map[string]string{}
	for _, name := range []string{"search", "indexer"} {
		for _, s := range at(readable(policy(t, a.template(t, "functions"), name)), "Statement").([]any) {
			if at(s, "Effect") == "Allow" && at(s, "Sid") != "OwnLog" && at(s, "Resource") != "*" {
				got[name] += fmt.Sprint(at(s, "Action"), " ", at(s, "Resource"), " ", partitions(s), "; ")
			}
		}
	}
	want := map[string]string{
		"search": "dynamodb:GetItem data.Docs.Arn [reg#*]; dynamodb:Query data.Docs.Arn/index/listed [registry]; " +
			"s3:GetObject data.Blobs.Arn/search/* <nil>; s3:ListBucket data.Blobs.Arn <nil>; ",
		"indexer": "dynamodb:Query data.Docs.Arn/index/listed [registry]; " +
			"[s3:GetObject s3:PutObject s3:DeleteObject] data.Blobs.Arn/search/* <nil>; s3:ListBucket data.Blobs.Arn <nil>; " +
			"[dynamodb:DescribeStream dynamodb:GetRecords dynamodb:GetShardIterator] data.Docs.StreamArn <nil>; ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what they may (-want +got):\n%s", diff)
	}
}

// Four functions sign as the host, and the key's policy allows no other role: worker tells
// venues of bookings, and gateway signs receipts.
func TestTheHostsKeySignsForFourFunctions(t *testing.T) {
	a := synth(t, standard)
	var signers []string
	for _, s := range at(a.template(t, "data").Resources["HostKey"].Properties, "KeyPolicy", "Statement").([]any) {
		if at(s, "Action") == "kms:Sign" {
			for _, role := range list(readable(at(s, "Condition", "ArnEquals", "aws:PrincipalArn"))) {
				signers = append(signers, role.(string)[strings.LastIndex(role.(string), "/")+1:])
			}
		}
	}
	if diff := cmp.Diff([]string{"vacancy-dev-admin-us-east-1", "vacancy-dev-checkpointer-us-east-1"}, signers); diff != "" {
		t.Errorf("who signs as the host (-want +got):\n%s", diff)
	}
}

// An identity sealed in docs may be opened only to seal the log.
func TestTheCheckpointerOpensNoKeyWhereKMSSigns(t *testing.T) {
	for _, test := range []struct {
		context map[string]any
		opens   bool
	}{{standard, false}, {bare, true}} {
		opens := false
		for _, s := range at(policy(t, synth(t, test.context).template(t, "functions"), "checkpointer"), "Statement").([]any) {
			opens = opens || at(s, "Action") == "kms:Decrypt"
		}
		if opens != test.opens {
			t.Errorf("%v: the checkpointer opens keys: %v, want %v", test.context, opens, test.opens)
		}
	}
}

// Only registrations invoke the indexer, a thousand at once or after the chosen
// time.
func TestTheIndexerIsFedRegistrationsOnly(t *testing.T) {
	m := synth(t, map[string]any{"indexSeconds": 7}).template(t, "functions").Resources["RegistrationsChanged"].Properties
	var filter any
	if err := json.Unmarshal([]byte(at(m, "FilterCriteria", "Filters", 0, "Pattern").(string)), &filter); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"dynamodb": map[string]any{"Keys": map[string]any{"pk": map[string]any{"S": []any{map[string]any{"prefix": "reg#"}}}}}}
	if diff := cmp.Diff(want, filter); diff != "" || len(list(at(m, "FilterCriteria", "Filters"))) != 1 {
		t.Errorf("filter (-want +got):\n%s", diff)
	}
	if m["BatchSize"] != 1000.0 || m["MaximumBatchingWindowInSeconds"] != 7.0 {
		t.Errorf("mapping = %v, want a thousand records or seven seconds", m)
	}
}

// wantStars: listing streams has no resource in AWS.
func wantStars(name string) []string {
	if name == "tamper" || name == "indexer" {
		return []string{"dynamodb:ListStreams"}
	}
	return nil
}

// Only think opens secrets of agents, and only gateway the keys of payments; agent,
// worker and admin open the secret of guests and the keys of workspaces. gateway and worker open the keys that sign receipts and
// bookings, and only admin and checkpointer the host's identity. A role that may decrypt
// without a condition on the context could open them too.
func TestWhatFunctionsOpen(t *testing.T) {
	for _, context := range []map[string]any{standard, {"hostKey": "software"}} {
		functions := synth(t, context).template(t, "functions")
		got := map[string]string{}
		for _, name := range table.Names() {
			for _, s := range at(readable(policy(t, functions, name)), "Statement").([]any) {
				if at(s, "Action") != "kms:Decrypt" {
					continue
				}
				bound := at(s, "Condition", "StringLike", "kms:EncryptionContext:vacancy")
				if bound == nil {
					t.Errorf("%s opens boxes of any context", name)
				}
				got[name] += fmt.Sprint(bound)
			}
		}
		want := map[string]string{"agent": "[vacant:* textkey:* guest:* workspace:*]", "message": "[vacant:* textkey:*]", "worker": "[vacant:* textkey:* guest:* signkey:* workspace:*]",
			"admin": "[vacant:* textkey:* guest:* host:* signkey:* workspace:*]", "export": "textkey:*", "think": "secret:*", "collusion": "textkey:*", "commit": "vacant:*", "gateway": "[paykey:* signkey:*]"}
		if context["hostKey"] != nil {
			want["checkpointer"] = "host:*"
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v: what functions open (-want +got):\n%s", context, diff)
		}
	}
}

// think reaches no row, writes only totals, and is the only function that writes them.
func TestThinkHasTheRightsOfModelsAlone(t *testing.T) {
	const function = "arn:aws:lambda:us-east-1:123456789012:function:answers"
	functions := synth(t, map[string]any{"hostKey": "software", "tenantFunctions": "acme=" + function, "bedrockModels": "amazon.nova-lite-v1:0,eu.anthropic.claude-haiku-4-5-20251001-v1:0"}).template(t, "functions")
	got := map[string]string{}
	for _, s := range at(readable(policy(t, functions, "think")), "Statement").([]any) {
		if at(s, "Effect") == "Allow" {
			got[at(s, "Sid").(string)] = fmt.Sprint(at(s, "Action"), " ", at(s, "Resource"), " ", partitions(s))
		}
	}
	const bedrock = "arn:${AWS::Partition}:bedrock:"
	want := map[string]string{
		"DocsPutItem":      "dynamodb:PutItem data.Docs.Arn [spend#*]",
		"DocsUpdateItem":   "dynamodb:UpdateItem data.Docs.Arn [spend#*]",
		"DocsGetItem":      "dynamodb:GetItem data.Docs.Arn [v#* reg#* opened#* secret#* spend#* budget models task#*]",
		"Open":             "kms:Decrypt data.SealKey.Arn <nil>",
		"Functions":        "lambda:InvokeFunction " + function + " <nil>",
		"Models":           "bedrock:InvokeModelWithResponseStream " + bedrock + "us-east-1::foundation-model/amazon.nova-lite-v1:0 <nil>",
		"Profiles":         "bedrock:InvokeModelWithResponseStream " + bedrock + "us-east-1:${AWS::AccountId}:inference-profile/eu.anthropic.claude-haiku-4-5-20251001-v1:0 <nil>",
		"ModelsOfProfiles": "bedrock:InvokeModelWithResponseStream " + bedrock + "*::foundation-model/anthropic.claude-haiku-4-5-20251001-v1:0 <nil>",
		"OwnLog":           "[logs:CreateLogStream logs:PutLogEvents] arn:${AWS::Partition}:logs:us-east-1:${AWS::AccountId}:log-group:/vacancy/dev/think:log-stream:* <nil>",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what think may do (-want +got):\n%s", diff)
	}
	for _, name := range table.Names() {
		anywhere, denied := false, false
		for _, s := range at(readable(policy(t, functions, name)), "Statement").([]any) {
			puts := slices.ContainsFunc(list(at(s, "Action")), func(a any) bool { return a == "dynamodb:PutItem" }) && at(s, "Resource") == "data.Docs.Arn"
			anywhere = anywhere || puts && at(s, "Effect") == "Allow" && partitions(s) == nil
			denied = denied || puts && at(s, "Effect") == "Deny" && fmt.Sprint(at(s, "Condition", "ForAnyValue:StringLike", "dynamodb:LeadingKeys")) == "[spend#* use#*]"
		}
		if anywhere && !denied {
			t.Errorf("%s may write what models cost", name)
		}
	}
}

func TestTheSealingKeyIsUsedForBoundBoxesOnly(t *testing.T) {
	a := synth(t, standard)
	var statements []any
	for _, name := range table.Names() {
		statements = append(statements, at(policy(t, a.template(t, "functions"), name), "Statement").([]any)...)
	}
	key := a.template(t, "data").Resources["SealKey"].Properties
	statements = append(statements, at(key, "KeyPolicy", "Statement").([]any)...)
	seen := 0
	for _, s := range statements {
		action := fmt.Sprint(at(s, "Action"))
		if action != "kms:Encrypt" && action != "kms:Decrypt" {
			if strings.Contains(action, "crypt ") || strings.Contains(action, "kms:*") || strings.Contains(action, "DataKey") {
				t.Errorf("%v uses keys by another way", s)
			}
			continue
		}
		seen++
		if at(s, "Condition", "Null", "kms:EncryptionContext:vacancy") != "false" ||
			fmt.Sprint(at(s, "Condition", "ForAllValues:StringEquals", "kms:EncryptionContextKeys")) != "[vacancy]" {
			t.Errorf("%s without the condition on its encryption context: %v", action, at(s, "Condition"))
		}
	}
	if seen != 17 { // two each of agent, message, worker and admin, one each of export, think, gateway, collusion, commit and checkpointer, three of the key
		t.Errorf("found %d statements on sealing, want 17", seen)
	}
	if at(key, "EnableKeyRotation") != true {
		t.Error("the sealing key does not rotate")
	}
}

func TestWithoutAnEdgeThereIsNoSecret(t *testing.T) {
	a := synth(t, bare)
	for _, stack := range a.stacks() {
		if strings.HasSuffix(stack, "-edge") {
			t.Errorf("there is a stack %s", stack)
		}
		text := string(a[stack+".template.json"])
		for _, word := range []string{"secretsmanager", "SecretsManager", "VACANCY_EDGE", "EdgeSecret"} {
			if strings.Contains(text, word) {
				t.Errorf("%s speaks of %s", stack, word)
			}
		}
	}
	const agent, gateway = "functions.agentFunctionUrl711729A2.FunctionUrl", "functions.gatewayFunctionUrl26B1C7DC.FunctionUrl"
	for _, tt := range []struct {
		function, variable string
		want               any
	}{
		{"Admin", "VACANCY_URL", agent}, {"Agent", "VACANCY_URL", nil}, // a function cannot be told its own
		{"Worker", "VACANCY_URL", agent}, {"Worker", "VACANCY_GATEWAY_URL", gateway}, {"Gateway", "VACANCY_GATEWAY_URL", nil},
	} {
		env := at(a.template(t, "functions").Resources[tt.function].Properties, "Environment", "Variables", tt.variable)
		if got := readable(env); got != tt.want {
			t.Errorf("%s of %s = %v, want %v", tt.variable, tt.function, got, tt.want)
		}
	}
}

func TestTheEdgesSecretIsAReferenceEverywhere(t *testing.T) {
	for _, test := range []struct {
		context     map[string]any
		now, before string
	}{
		{standard, "{{resolve:secretsmanager:SECRET:SecretString:::}}", ""},
		{full, "{{resolve:secretsmanager:SECRET:SecretString:::" + versionNow + "}}", "{{resolve:secretsmanager:SECRET:SecretString:::" + versionPast + "}}"},
	} {
		a := synth(t, test.context)
		text := func(v any, secret string) string {
			s, _ := readable(v).(string)
			return strings.Replace(s, secret, "SECRET", 1)
		}
		for id, f := range a.template(t, "functions").of("AWS::Lambda::Function") {
			env := at(f.Properties, "Environment", "Variables")
			now, before := text(at(env, "VACANCY_EDGE_SECRET"), "${EdgeSecretValue}"), text(at(env, "VACANCY_EDGE_SECRET_BEFORE"), "${EdgeSecretValue}")
			want := []string{test.now, test.before}
			if row, _ := table.Find(strings.ToLower(id)); !row.URL {
				want = []string{"", ""}
			}
			if diff := cmp.Diff(want, []string{now, before}); diff != "" {
				t.Errorf("secrets of %s (-want +got):\n%s", id, diff)
			}
		}
		for _, o := range at(a.template(t, "edge").Resources["Distribution"].Properties, "DistributionConfig", "Origins").([]any) {
			header := at(o, "OriginCustomHeaders", 0)
			if got := text(at(header, "HeaderValue"), "functions.EdgeSecretValue"); at(header, "HeaderName") != stacks.EdgeSecretHeader || got != test.now {
				t.Errorf("origin %v sends %v: %s, want %s", at(o, "Id"), at(header, "HeaderName"), got, test.now)
			}
		}
	}
}

func TestAFunctionURLMayBeCalledByAnybodyAndOnlyAsAURL(t *testing.T) {
	functions := synth(t, standard).template(t, "functions")
	actions := map[string][]string{}
	for _, p := range functions.of("AWS::Lambda::Permission") {
		if p.Properties["Principal"] != "*" {
			continue
		}
		action := p.Properties["Action"].(string)
		if action == "lambda:InvokeFunction" && p.Properties["InvokedViaFunctionUrl"] != true ||
			action == "lambda:InvokeFunctionUrl" && p.Properties["FunctionUrlAuthType"] != "NONE" {
			t.Errorf("anybody may %s by other ways too: %v", action, p.Properties)
		}
		id := at(p.Properties, "FunctionName", "Fn::GetAtt", 0).(string)
		actions[id] = append(actions[id], action)
		slices.Sort(actions[id])
	}
	both := []string{"lambda:InvokeFunction", "lambda:InvokeFunctionUrl"}
	if diff := cmp.Diff(map[string][]string{"Agent": both, "Message": both, "Admin": both, "Export": both, "Registry": both, "Search": both, "Graduate": both, "Gateway": both, "Web": both}, actions); diff != "" {
		t.Errorf("what anybody may call (-want +got):\n%s", diff)
	}
}

// Statements of policies that name everybody need a condition. Function URLs have permissions instead.
func TestOnlyTheKeyAtRestHasAPolicyForEverybody(t *testing.T) {
	found := map[string][]string{} // condition keys by resource
	var visit func(id string, v any)
	visit = func(id string, v any) {
		switch v := v.(type) {
		case []any:
			for _, member := range v {
				visit(id, member)
			}
		case map[string]any:
			if v["Effect"] == "Allow" && (v["NotPrincipal"] != nil || strings.Contains(string(pretty(t, v["Principal"])), `"*"`)) {
				equals, _ := at(v, "Condition", "StringEquals").(map[string]any)
				found[id] = slices.Sorted(maps.Keys(equals))
			}
			for _, member := range v {
				visit(id, member)
			}
		}
	}
	for _, context := range []map[string]any{standard, full} {
		a := synth(t, context)
		for _, stack := range a.stacks() {
			for id, r := range a.template(t, strings.TrimPrefix(stack, "vacancy-dev-")).Resources {
				visit(id, r.Properties)
			}
		}
	}
	want := map[string][]string{"AtRestKey": {"kms:CallerAccount", "kms:ViaService"}}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("statements for everybody, by resource (-want +got):\n%s", diff)
	}
}

func TestConcurrencyIsReservedUnlessToldOtherwise(t *testing.T) {
	reserved := func(context map[string]any) map[string]any {
		out := map[string]any{}
		for id, f := range synth(t, context).template(t, "functions").of("AWS::Lambda::Function") {
			out[id] = f.Properties["ReservedConcurrentExecutions"]
		}
		return out
	}
	want := map[string]any{"Agent": 2.0, "Message": 4.0, "Gateway": 1.0, "Worker": 4.0, "Admin": 1.0, "Registry": 1.0, "Search": 1.0, "Think": 2.0}
	for _, f := range table.All() {
		if id := strings.ToUpper(f.Name[:1]) + f.Name[1:]; f.IsGateStep {
			want[id] = nil // the gate bounds these
		} else if f.CostShare == 0 {
			want[id] = 1.0
		}
	}
	if diff := cmp.Diff(want, reserved(standard)); diff != "" {
		t.Errorf("by default (-want +got):\n%s", diff)
	}
	if got := reserved(map[string]any{"limits": "search:16"}); got["Search"] != 16.0 || got["Message"] != 4.0 {
		t.Errorf("with limits=search:16 there are %v of search and %v of message, want 16 and 4", got["Search"], got["Message"])
	}
	for id := range want {
		want[id] = nil
	}
	if diff := cmp.Diff(want, reserved(bare)); diff != "" {
		t.Errorf("with none (-want +got):\n%s", diff)
	}
}

// Reads, searches, graduation requests and wrong keys of strangers leave half of the read
// capacity to calls: of documents, which all of them read, and of rows, which
// search does not.
func TestPublicReadsLeaveHalfTheCapacityToCalls(t *testing.T) {
	for _, test := range []struct {
		context map[string]any
		want    string
	}{
		{standard, "6.615:26"}, {bare, "2.923:11"}, {map[string]any{"worstDay": 12}, "1.538:6"},
		{map[string]any{"limits": "registry:16,search:16,docsReads:200"}, "0.977:3"},
		{map[string]any{"limits": "registry:400,docsReads:2,rowsReads:2"}, "0.001:1"},
	} {
		a, got := synth(t, test.context), map[string]any{}
		for id, f := range a.template(t, "functions").of("AWS::Lambda::Function") {
			if v := at(f.Properties, "Environment", "Variables", "VACANCY_READS"); v != nil {
				got[id] = v
			}
		}
		if diff := cmp.Diff(map[string]any{"Registry": test.want, "Search": test.want, "Graduate": test.want, "Gateway": test.want}, got); diff != "" {
			t.Errorf("%v: what an instance may read (-want +got):\n%s", test.context, diff)
			continue
		}
		var share float64
		if _, err := fmt.Sscanf(test.want, "%g:", &share); err != nil {
			t.Fatal(err)
		}
		instances := func(id string) float64 {
			n, reserved := a.template(t, "functions").Resources[id].Properties["ReservedConcurrentExecutions"].(float64)
			if reserved {
				return n
			}
			return 1 // the limit that is not reserved
		}
		rows := 1.25*instances("Registry") + instances("Graduate") + instances("Gateway") // revocations have a quarter more
		for table, n := range map[string]float64{"Rows": rows, "Docs": rows + instances("Search")} {
			ceiling := at(a.template(t, "data").Resources[table].Properties, "Replicas", 0, "ReadOnDemandThroughputSettings", "MaxReadRequestUnits").(float64)
			if n*share > ceiling/2 {
				t.Errorf("%v: %v instances read %v units of %s a second, want at most half of %v", test.context, n, n*share, table, ceiling)
			}
		}
	}
}

func TestTheTamperIsFedChangesRemovalsAndCanariesOnly(t *testing.T) {
	m := synth(t, standard).template(t, "functions").Resources["RowsChanged"].Properties
	canary := map[string]any{"Keys": map[string]any{"pk": map[string]any{"B": []any{tamper.CanaryKey}}}}
	for i, want := range []map[string]any{{"eventName": []any{"MODIFY", "REMOVE"}}, {"eventName": []any{"INSERT"}, "dynamodb": canary}} {
		var filter any
		if err := json.Unmarshal([]byte(at(m, "FilterCriteria", "Filters", i, "Pattern").(string)), &filter); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(any(want), filter); diff != "" {
			t.Errorf("filter %d (-want +got):\n%s", i, diff)
		}
	}
	if len(list(at(m, "FilterCriteria", "Filters"))) != 2 || at(m, "BisectBatchOnFunctionError") != true ||
		readable(at(m, "DestinationConfig", "OnFailure", "Destination")) != "functions.Lost.Arn" {
		t.Errorf("mapping = %v, want two filters, bisection and a place for what is lost", m)
	}
}

// DynamoDB may ask IAM about an operation with the keys of all items of a transaction at once. One statement allows
// them all, and none allows a request without keys.
func TestOneStatementAllowsEachOperationOnATable(t *testing.T) {
	for _, context := range []map[string]any{standard, bare} {
		functions := synth(t, context).template(t, "functions")
		for _, name := range table.Names() {
			statements := map[string]int{}
			for _, s := range at(readable(policy(t, functions, name)), "Statement").([]any) {
				if at(s, "Effect") != "Allow" {
					continue
				}
				if partitions(s) != nil && at(s, "Condition", "Null", "dynamodb:LeadingKeys") != "false" {
					t.Errorf("%s: %v allows requests without keys", name, at(s, "Sid"))
				}
				for _, action := range list(at(s, "Action")) {
					statements[fmt.Sprint(action, " on ", at(s, "Resource"))]++
				}
			}
			for what, n := range statements {
				if n > 1 {
					t.Errorf("%s: %d statements allow %s, want one", name, n, what)
				}
			}
		}
	}
}

// Lambda stops the 17th invocation of a function that causes its own invocations, unless its template allows them.
func TestFunctionsOnACycleMayRecurse(t *testing.T) {
	for _, context := range []map[string]any{standard, bare} {
		functions := synth(t, context).template(t, "functions")
		starts := map[string][]string{} // functions and queues by what starts them
		for _, m := range functions.of("AWS::Lambda::EventSourceMapping") {
			from, _ := at(m.Properties, "EventSourceArn", "Fn::GetAtt", 0).(string)
			starts[from] = append(starts[from], strings.Trim(readable(m.Properties["FunctionName"]).(string), "${}"))
		}
		for _, name := range table.Names() {
			id := strings.ToUpper(name[:1]) + name[1:]
			for _, s := range at(readable(policy(t, functions, name)), "Statement").([]any) {
				for _, action := range list(at(s, "Action")) {
					for _, resource := range list(at(s, "Resource")) {
						switch to := resource.(string); action {
						case "sqs:SendMessage":
							starts[id] = append(starts[id], strings.TrimSuffix(strings.TrimPrefix(to, "functions."), ".Arn"))
						case "lambda:InvokeFunction":
							to = to[strings.LastIndex(to, "-")+1:]
							starts[id] = append(starts[id], strings.ToUpper(to[:1])+to[1:])
						}
					}
				}
			}
		}
		var started func(from string, seen map[string]bool) map[string]bool
		started = func(from string, seen map[string]bool) map[string]bool {
			for _, to := range starts[from] {
				if !seen[to] {
					seen[to] = true
					started(to, seen)
				}
			}
			return seen
		}
		recursive := 0
		for id, f := range functions.of("AWS::Lambda::Function") {
			var want any
			if started(id, map[string]bool{})[id] {
				recursive++
				want = "Allow"
			}
			if got := f.Properties["RecursiveLoop"]; got != want {
				t.Errorf("%s: RecursiveLoop = %v, want %v", id, got, want)
			}
		}
		if recursive == 0 {
			t.Error("the templates have no cycle, want the cycle of worker and its queues")
		}
	}
}
