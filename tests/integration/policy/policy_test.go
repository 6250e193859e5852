package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const rows = "arn:aws:dynamodb:us-east-1:000000000000:table/rows"

func parsed(t *testing.T, statements string) Policy {
	t.Helper()
	p, err := Parse([]byte(`{"Version":"2012-10-17","Statement":` + statements + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestARequestPassesByAnAllowAndNoDeny(t *testing.T) {
	for _, tt := range []struct {
		name, statements string
		request          Request
		want             bool
	}{
		{"nothing is allowed by itself", `[]`, Request{Action: "dynamodb:PutItem", Resource: rows}, false},
		{"an exact grant", `{"Effect":"Allow","Action":"dynamodb:PutItem","Resource":"` + rows + `"}`, Request{Action: "dynamodb:PutItem", Resource: rows}, true},
		{"the case of an action does not count", `{"Effect":"Allow","Action":"dynamodb:putitem","Resource":"` + rows + `"}`, Request{Action: "dynamodb:PutItem", Resource: rows}, true},
		{"another action", `{"Effect":"Allow","Action":["dynamodb:GetItem","dynamodb:Query"],"Resource":"*"}`, Request{Action: "dynamodb:PutItem", Resource: rows}, false},
		{"another table whose name begins the same", `{"Effect":"Allow","Action":"dynamodb:PutItem","Resource":"` + rows + `"}`, Request{Action: "dynamodb:PutItem", Resource: rows + "2"}, false},
		{"the table does not cover its index", `{"Effect":"Allow","Action":"dynamodb:Query","Resource":"` + rows + `"}`, Request{Action: "dynamodb:Query", Resource: rows + "/index/by"}, false},
		{"a wildcard covers the index", `{"Effect":"Allow","Action":"dynamodb:Q*","Resource":"` + rows + `/index/*"}`, Request{Action: "dynamodb:Query", Resource: rows + "/index/by"}, true},
		{"a Deny counts before an Allow", `[{"Effect":"Allow","Action":"*","Resource":"*"},{"Effect":"Deny","Action":"dynamodb:Scan","Resource":"` + rows + `"}]`, Request{Action: "dynamodb:Scan", Resource: rows}, false},
		{"a Deny of another table does not", `[{"Effect":"Allow","Action":"*","Resource":"*"},{"Effect":"Deny","Action":"dynamodb:Scan","Resource":"` + rows + `"}]`, Request{Action: "dynamodb:Scan", Resource: "arn:x"}, true},
		{"a grant of one resource is none of all", `{"Effect":"Allow","Action":"kms:Sign","Resource":"arn:k"}`, Request{Action: "kms:Sign", Resource: "*"}, false},
		{"a condition that holds", `{"Effect":"Allow","Action":"kms:Decrypt","Resource":"*","Condition":{"StringEquals":{"kms:ViaService":["a","b"]}}}`,
			Request{Action: "kms:Decrypt", Resource: "k", Context: map[string][]string{"kms:viaservice": {"b"}}}, true},
		{"one that does not", `{"Effect":"Allow","Action":"kms:Decrypt","Resource":"*","Condition":{"StringEquals":{"kms:ViaService":"a"}}}`,
			Request{Action: "kms:Decrypt", Resource: "k", Context: map[string][]string{"kms:viaservice": {"b"}}}, false},
		{"one whose key the request lacks", `{"Effect":"Allow","Action":"kms:Decrypt","Resource":"*","Condition":{"StringLike":{"kms:ViaService":"*"}}}`,
			Request{Action: "kms:Decrypt", Resource: "k"}, false},
		{"all conditions must hold", `{"Effect":"Allow","Action":"kms:Decrypt","Resource":"*","Condition":{"StringLike":{"a":"*"},"Bool":{"b":true}}}`,
			Request{Action: "kms:Decrypt", Resource: "k", Context: map[string][]string{"a": {"x"}, "b": {"false"}}}, false},
		{"ForAllValues with one too many", `{"Effect":"Allow","Action":"kms:Decrypt","Resource":"*","Condition":{"ForAllValues:StringEquals":{"k":["a"]}}}`,
			Request{Action: "kms:Decrypt", Resource: "k", Context: map[string][]string{"k": {"a", "b"}}}, false},
		{"ForAllValues holds for none", `{"Effect":"Allow","Action":"kms:Decrypt","Resource":"*","Condition":{"ForAllValues:StringEquals":{"k":["a"]}}}`,
			Request{Action: "kms:Decrypt", Resource: "k"}, true},
		{"IfExists holds for a key that is not there", `{"Effect":"Allow","Action":"s3:ListBucket","Resource":"*","Condition":{"StringLikeIfExists":{"s3:prefix":"a/*"}}}`,
			Request{Action: "s3:ListBucket", Resource: "b"}, true},
		{"and as ever for one that is", `{"Effect":"Allow","Action":"s3:ListBucket","Resource":"*","Condition":{"StringLikeIfExists":{"s3:prefix":"a/*"}}}`,
			Request{Action: "s3:ListBucket", Resource: "b", Context: map[string][]string{"s3:prefix": {"b/"}}}, false},
		{"NotLike holds for another", `{"Effect":"Allow","Action":"kms:Decrypt","Resource":"*","Condition":{"StringNotLike":{"c":"textkey:*"}}}`,
			Request{Action: "kms:Decrypt", Resource: "k", Context: map[string][]string{"c": {"vacant"}}}, true},
		{"and not for what is like it", `{"Effect":"Allow","Action":"kms:Decrypt","Resource":"*","Condition":{"StringNotLike":{"c":"textkey:*"}}}`,
			Request{Action: "kms:Decrypt", Resource: "k", Context: map[string][]string{"c": {"textkey:2026-01-01"}}}, false},
		{"Null false wants the key", `{"Effect":"Allow","Action":"kms:Decrypt","Resource":"*","Condition":{"Null":{"k":"false"}}}`,
			Request{Action: "kms:Decrypt", Resource: "k"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, by := parsed(t, tt.statements).Decide(tt.request); got != tt.want {
				t.Errorf("Decide() = %t by %v, want %t", got, by, tt.want)
			}
		})
	}
}

func TestUnknownPolicyElementsAreRefused(t *testing.T) {
	for _, tt := range []struct{ name, doc, says string }{
		{"an older language", `{"Version":"2008-10-17","Statement":[]}`, "version"},
		{"an unknown operator", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"a:b","Resource":"*","Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}}}`, "IpAddress"},
		{"NotAction", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","NotAction":"a:b","Resource":"*"}}`, "NotAction"},
		{"NotResource", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"a:b","NotResource":"*"}}`, "NotResource"},
		{"a principal", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*","Action":"a:b","Resource":"*"}}`, "Principal"},
		{"an effect by another name", `{"Version":"2012-10-17","Statement":{"Effect":"allow","Action":"a:b","Resource":"*"}}`, "effect"},
		{"no resource", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"a:b"}}`, "0 resources"},
		{"two documents", `{"Version":"2012-10-17","Statement":[]}{}`, "more than one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Parse([]byte(tt.doc)); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Parse() = %v, want an error that says %q", err, tt.says)
			}
		})
	}
}

func TestAResourcesPolicyIsReadForTheAccountsRoles(t *testing.T) {
	const doc = `{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::000000000000:root"},"Action":"kms:Decrypt","Resource":"*","Condition":{"ArnEquals":{"aws:PrincipalArn":"arn:role/a"}}},
		{"Effect":"Allow","Principal":{"Service":"logs.amazonaws.com"},"Action":"kms:Encrypt","Resource":"*"}]}`
	p, err := ParseOf([]byte(doc), "000000000000")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		action, role string
		want         bool
	}{{"kms:Decrypt", "arn:role/a", true}, {"kms:Decrypt", "arn:role/b", false}, {"kms:Encrypt", "arn:role/a", false}} {
		r := Request{Action: tt.action, Resource: "arn:k", Context: map[string][]string{"aws:principalarn": {tt.role}}}
		if got, _ := p.Decide(r); got != tt.want {
			t.Errorf("%s by %s = %t, want %t", tt.action, tt.role, got, tt.want)
		}
	}
	for _, account := range []string{"", "111111111111"} {
		if _, err := ParseOf([]byte(doc), account); err == nil {
			t.Errorf("ParseOf(account %q) = nil, want an error: the principal is of another", account)
		}
	}
}

func TestPatternsFitAsIAMFitsThem(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a:b/c", true}, {"a*c", "abbc", true}, {"a*c", "abcb", false},
		{"a?c", "abc", true}, {"a?c", "ac", false}, {"*b*d", "abcbcd", true}, {"a**b", "ab", true}, {"a*b*c", "a-b-b-c-c", true}, {"?", "", false},
	} {
		if got := Like(tt.pattern, tt.text); got != tt.want {
			t.Errorf("Like(%q, %q) = %t, want %t", tt.pattern, tt.text, got, tt.want)
		}
	}
}

func TestGrantsThatDecidedNothingAreNamed(t *testing.T) {
	p := parsed(t, `[{"Effect":"Allow","Action":["a:Get","a:Put"],"Resource":["x","y"]},{"Effect":"Deny","Action":"a:Scan","Resource":"x"}]`)
	_, by := p.Decide(Request{Action: "a:Get", Resource: "y"})
	want := []Use{{Statement: 0, Action: "a:Put"}, {Statement: 0, Resource: "x"}}
	if diff := cmp.Diff(want, p.Unused(by)); diff != "" {
		t.Errorf("Unused() (-want +got):\n%s", diff)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["a:b"],"Resource":"*","Condition":{"Bool":{"k":true}}}]}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		p, err := Parse(doc)
		if err != nil {
			return
		}
		for _, s := range p {
			if len(s.Actions) == 0 || len(s.Resources) == 0 {
				t.Errorf("Parse(%q) has a statement without actions or resources: %+v", doc, s)
			}
		}
		p.Decide(Request{Action: "a:b", Resource: "x"})
	})
}

// Two statements allow each item of a transaction, but no statement allows all of them.
func TestMergedKeysNeedOneStatement(t *testing.T) {
	statement := func(keys string) string {
		return `{"Effect":"Allow","Action":"dynamodb:UpdateItem","Resource":"docs","Condition":{"ForAllValues:StringLike":{"dynamodb:LeadingKeys":[` + keys + `]},"Null":{"dynamodb:LeadingKeys":"false"}}}`
	}
	items := []Request{
		{Action: "dynamodb:UpdateItem", Resource: "docs", Context: map[string][]string{"dynamodb:leadingkeys": {"bal#a"}}},
		{Action: "dynamodb:UpdateItem", Resource: "docs", Context: map[string][]string{"dynamodb:leadingkeys": {"turns#a"}}},
	}
	merged := Merge(items, "dynamodb:leadingkeys")
	if len(merged) != 1 {
		t.Fatalf("Merge() = %v, want one request", merged)
	}
	none := Request{Action: "dynamodb:UpdateItem", Resource: "docs", Context: map[string][]string{}}
	for statements, want := range map[string][]bool{
		statement(`"bal#*"`) + "," + statement(`"turns#*"`): {true, true, false, false},
		statement(`"bal#*","turns#*"`):                      {true, true, true, false},
	} {
		p := parsed(t, "["+statements+"]")
		var got []bool
		for _, r := range append(slices.Clone(items), merged[0], none) {
			allowed, _ := p.Decide(r)
			got = append(got, allowed)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s allows %v, want %v: each item, both, and none", statements, got, want)
		}
	}
}
