// Package policies contains the policies of the functions' roles, as in the golden files of package
// stacks, and the calls that the roles must allow and deny. It must not import packages of the CDK.
package policies

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

//go:embed *.json
var files embed.FS

func Functions() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // the folder is embedded
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".json")
	}
	return names
}

func Document(function string) ([]byte, error) { return files.ReadFile(function + ".json") }

type Location struct{ Partition, Region, Account string }

// ReplaceNames replaces each name of a resource in a policy or in a [Call] by an example ARN. The
// label of a stream is only a year, because the policy linter parliament accepts no label with
// colons.
func (l Location) ReplaceNames(text string) string {
	arnPrefix, regionAndAccount := "arn:"+l.Partition+":", l.Region+":"+l.Account
	return strings.NewReplacer(
		"data.Rows.StreamArn", arnPrefix+"dynamodb:"+regionAndAccount+":table/rows/stream/2026",
		"data.Docs.StreamArn", arnPrefix+"dynamodb:"+regionAndAccount+":table/docs/stream/2026",
		"data.Rows.Arn", arnPrefix+"dynamodb:"+regionAndAccount+":table/rows", "data.Docs.Arn", arnPrefix+"dynamodb:"+regionAndAccount+":table/docs",
		"data.Blobs.Arn", arnPrefix+"s3:::vacancy-dev-blobs",
		"data.SealKey.Arn", arnPrefix+"kms:"+regionAndAccount+":key/11111111-1111-1111-1111-111111111111", "data.HostKey.Arn", arnPrefix+"kms:"+regionAndAccount+":key/22222222-2222-2222-2222-222222222222",
		"functions.Tasks.Arn", arnPrefix+"sqs:"+regionAndAccount+":vacancy-dev-tasks", "functions.Pushes.Arn", arnPrefix+"sqs:"+regionAndAccount+":vacancy-dev-pushes", "functions.Lost.Arn", arnPrefix+"sqs:"+regionAndAccount+":vacancy-dev-lost",
		"${AWS::Partition}", l.Partition, ":us-east-1:${AWS::AccountId}", ":"+regionAndAccount,
	).Replace(text)
}

// Call is one or more actions on a resource that a role must allow or deny in the same way.
type Call struct {
	Function string
	Actions  []string
	Resource string // name or ARN; see [Location.ReplaceNames]
	Keys     map[string][]string
	Denied   bool
}

func (c Call) String() string {
	line := fmt.Sprintf("%-12s  %s on %s", c.Function, strings.Join(c.Actions, " "), c.Resource)
	for _, key := range slices.Sorted(maps.Keys(c.Keys)) {
		line += fmt.Sprintf("  %s=%s", key, strings.Join(c.Keys[key], ","))
	}
	return strings.ReplaceAll(line, wildcardExample, "*")
}

// wildcardExample replaces * in the resource and the condition keys of a call.
const wildcardExample = "example"

// TestCalls returns calls that test each statement of a function's policy. Calls with the
// statement's condition keys must have the effect of the statement. If the effect is allow, calls
// with a foreign key or without a key must be denied.
func TestCalls(function string) ([]Call, error) {
	doc, err := Document(function)
	if err != nil {
		return nil, err
	}
	var policy struct{ Statement []statement }
	if err := json.Unmarshal(doc, &policy); err != nil {
		return nil, fmt.Errorf("policy of %s: %w", function, err)
	}
	var calls []Call
	for _, s := range policy.Statement {
		for _, resource := range s.Resource {
			call := Call{Function: function, Actions: s.Action, Resource: strings.ReplaceAll(resource, "*", wildcardExample), Denied: s.Effect == "Deny"}
			if resource == "*" {
				call.Resource = "*"
			}
			for _, keys := range s.matchingKeys() {
				call.Keys = keys
				calls = append(calls, call)
			}
			if s.Effect == "Deny" {
				continue
			}
			call.Denied = true
			for _, keys := range s.violatingKeys() {
				call.Keys = keys
				calls = append(calls, call)
			}
		}
	}
	return calls, nil
}

type statement struct {
	Effect           string
	Action, Resource stringList
	Condition        map[string]map[string]stringList // keys by operator and name
}

type stringList []string

func (l *stringList) UnmarshalJSON(b []byte) error {
	if strings.HasPrefix(string(b), "[") {
		return json.Unmarshal(b, (*[]string)(l))
	}
	*l = make(stringList, 1)
	return json.Unmarshal(b, &(*l)[0])
}

func isMultiValued(operator string) bool { return strings.HasPrefix(operator, "For") }

func (s statement) matchingKeys() []map[string][]string {
	required := map[string][]string{}
	// The value of Null is always "false", which means that the key must be present.
	for key := range s.Condition["Null"] {
		required[key] = []string{wildcardExample}
	}
	combinations := []map[string][]string{required}
	for _, operator := range slices.Sorted(maps.Keys(s.Condition)) {
		if operator == "Null" {
			continue
		}
		for key, patterns := range s.Condition[operator] {
			values := make([]string, len(patterns))
			for i, p := range patterns {
				values[i] = strings.ReplaceAll(p, "*", wildcardExample)
			}
			var next []map[string][]string
			for _, keys := range combinations {
				if isMultiValued(operator) { // a transaction may have all values at once
					next = append(next, withKey(keys, key, values))
					continue
				}
				for _, v := range values {
					next = append(next, withKey(keys, key, []string{v}))
				}
			}
			combinations = next
		}
	}
	return combinations
}

func (s statement) violatingKeys() (combinations []map[string][]string) {
	// Each returned request violates one condition.
	validKeys := s.matchingKeys()[0]
	for _, operator := range slices.Sorted(maps.Keys(s.Condition)) {
		for key := range s.Condition[operator] {
			if operator == "Null" || !isMultiValued(operator) && !strings.HasSuffix(operator, "IfExists") {
				combinations = append(combinations, withKey(validKeys, key, nil))
			}
			if operator == "Null" {
				continue
			}
			values := []string{"other#" + wildcardExample}
			if isMultiValued(operator) {
				values = append(values, validKeys[key]...)
			}
			combinations = append(combinations, withKey(validKeys, key, values))
		}
	}
	return combinations
}

func withKey(keys map[string][]string, key string, values []string) map[string][]string {
	keys = maps.Clone(keys)
	if keys[key] = values; values == nil {
		delete(keys, key)
	}
	return keys
}
