package assembly

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

const (
	Create = "create"
	Update = "update"
	Remove = "remove"
)

// Change is a change of a resource, or of another section of a template such as Outputs.
type Change struct {
	Verb       string   `json:"verb"`
	Resource   string   `json:"resource"` // logical id of the resource, or name of the section
	Type       string   `json:"type,omitempty"`
	Properties []string `json:"properties,omitempty"` // sorted names of changed properties
}

type Template struct {
	resources map[string]resource
	sections  map[string]any
}

type resource struct {
	Type       string
	Properties map[string]any
	attributes map[string]any // policies, dependencies and other attributes
}

func Parse(b []byte) (Template, error) {
	// An empty input is a template without resources.
	t := Template{resources: map[string]resource{}, sections: map[string]any{}}
	if len(b) == 0 {
		return t, nil
	}
	if err := json.Unmarshal(b, &t.sections); err != nil {
		return t, problem.Wrap(problem.Damaged, err, "a template is not JSON")
	}
	resources, _ := t.sections["Resources"].(map[string]any)
	delete(t.sections, "Resources")
	for id, v := range resources {
		r, ok := v.(map[string]any)
		if !ok {
			return t, problem.New(problem.Damaged, "resource %q of a template is not an object", id)
		}
		res := resource{attributes: maps.Clone(r)}
		res.Type, _ = r["Type"].(string)
		res.Properties, _ = r["Properties"].(map[string]any)
		for _, name := range []string{"Type", "Properties", "Metadata"} {
			delete(res.attributes, name) // Metadata does not affect the resource
		}
		t.resources[id] = res
	}
	return t, nil
}

func Compare(before, after Template) []Change {
	var changes []Change
	for _, id := range slices.Sorted(maps.Keys(union(before.resources, after.resources))) {
		b, hasBefore := before.resources[id]
		a, hasAfter := after.resources[id]
		switch {
		case !hasBefore:
			changes = append(changes, Change{Verb: Create, Resource: id, Type: a.Type})
		case !hasAfter:
			changes = append(changes, Change{Verb: Remove, Resource: id, Type: b.Type})
		default:
			names := append(differingKeys(b.Properties, a.Properties), differingKeys(b.attributes, a.attributes)...)
			if b.Type != a.Type {
				names = append(names, "Type")
			}
			if len(names) > 0 {
				slices.Sort(names)
				changes = append(changes, Change{Update, id, a.Type, names})
			}
		}
	}
	for _, name := range differingKeys(before.sections, after.sections) {
		changes = append(changes, Change{Verb: Update, Resource: name})
	}
	return changes
}

// Loss is a data resource that a deployment would replace or remove.
type Loss struct {
	Resource string `json:"resource"`
	Type     string `json:"type"`
	Reason   string `json:"why"`
}

func (l Loss) String() string { return fmt.Sprintf("%s (%s) %s", l.Resource, l.Type, l.Reason) }

// immutableProperties maps each data resource type to the properties that CloudFormation cannot
// change in place, and to their defaults.
var immutableProperties = map[string]map[string]any{
	"AWS::DynamoDB::GlobalTable": {"TableName": nil, "KeySchema": nil, "LocalSecondaryIndexes": nil},
	"AWS::DynamoDB::Table":       {"TableName": nil, "KeySchema": nil, "LocalSecondaryIndexes": nil, "ImportSourceSpecification": nil},
	"AWS::KMS::Key":              {"KeySpec": "SYMMETRIC_DEFAULT", "KeyUsage": "ENCRYPT_DECRYPT", "Origin": "AWS_KMS", "MultiRegion": false},
	"AWS::KMS::ReplicaKey":       {"PrimaryKeyArn": nil},
	"AWS::S3::Bucket":            {"BucketName": nil, "BucketNamePrefix": nil, "ObjectLockEnabled": false},
}

func IsDataType(resourceType string) bool { return immutableProperties[resourceType] != nil }

// ListLosses lists the data resources in before that the change to after would replace or remove. A
// DeletionPolicy of Retain does not prevent a loss: the old table would remain, but the host would
// use a new, empty one.
func ListLosses(before, after Template) []Loss {
	var losses []Loss
	for _, id := range slices.Sorted(maps.Keys(before.resources)) {
		b := before.resources[id]
		if !IsDataType(b.Type) {
			continue
		}
		a, hasAfter := after.resources[id]
		reason := ""
		switch {
		case !hasAfter:
			reason = "would be removed from the stack"
		case a.Type != b.Type:
			reason = "would become a " + a.Type
		default:
			reason = lossReason(b, a)
		}
		if reason != "" {
			losses = append(losses, Loss{id, b.Type, reason})
		}
	}
	return losses
}

func lossReason(before, after resource) string {
	var names []string
	for name, defaultValue := range immutableProperties[before.Type] {
		if !reflect.DeepEqual(withDefault(before.Properties[name], defaultValue), withDefault(after.Properties[name], defaultValue)) {
			names = append(names, name)
		}
	}
	if changesKeyType(before, after) {
		names = append(names, "AttributeDefinitions")
	}
	if len(names) > 0 {
		slices.Sort(names)
		return "would be replaced, because of a change of " + strings.Join(names, ", ")
	}
	for _, region := range memberValues(before.Properties["Replicas"], "Region") {
		if !slices.ContainsFunc(memberValues(after.Properties["Replicas"], "Region"), func(r any) bool { return reflect.DeepEqual(r, region) }) {
			return fmt.Sprintf("would lose its replica in %v", region)
		}
	}
	return ""
}

func changesKeyType(before, after resource) bool {
	newTypes := map[any]any{}
	defs, _ := after.Properties["AttributeDefinitions"].([]any)
	for _, d := range defs {
		if d, ok := d.(map[string]any); ok {
			if name, ok := d["AttributeName"].(string); ok {
				newTypes[name] = d["AttributeType"]
			}
		}
	}
	defs, _ = before.Properties["AttributeDefinitions"].([]any)
	for _, d := range defs {
		d, _ := d.(map[string]any)
		name, _ := d["AttributeName"].(string)
		if newType, exists := newTypes[name]; exists && !reflect.DeepEqual(newType, d["AttributeType"]) {
			return true
		}
	}
	return false
}

func memberValues(list any, member string) []any {
	var out []any
	items, _ := list.([]any)
	for _, v := range items {
		if o, ok := v.(map[string]any); ok {
			out = append(out, o[member])
		}
	}
	return out
}

func withDefault(v, defaultValue any) any {
	if v == nil {
		return defaultValue
	}
	return v
}

func differingKeys(a, b map[string]any) []string {
	var out []string
	for name := range union(a, b) {
		if !isEqualJSON(a[name], b[name]) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func union[V any](a, b map[string]V) map[string]V {
	merged := maps.Clone(a)
	if merged == nil {
		merged = map[string]V{}
	}
	maps.Copy(merged, b)
	return merged
}

// isEqualJSON compares two JSON values. CloudFormation returns '?' for characters outside of ASCII,
// so '?' equals any such character.
func isEqualJSON(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	return reflect.DeepEqual(replaceNonASCII(a), replaceNonASCII(b))
}

func replaceNonASCII(v any) any {
	switch v := v.(type) {
	case string:
		return strings.Map(func(r rune) rune {
			if r > 0x7f {
				return '?'
			}
			return r
		}, v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = replaceNonASCII(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name := range v {
			out[name] = replaceNonASCII(v[name])
		}
		return out
	}
	return v
}

func (t Template) IsRetained(id string) bool {
	policy, _ := t.resources[id].attributes["DeletionPolicy"].(string)
	return policy == "Retain" || policy == "RetainExceptOnCreate"
}

// Count is the number of resources of a type.
type Count struct {
	Type          string
	ResourceCount int
}

func (t Template) CountTypes() []Count {
	counts := map[string]int{}
	for _, r := range t.resources {
		counts[r.Type]++
	}
	out := make([]Count, 0, len(counts))
	for _, resourceType := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, Count{resourceType, counts[resourceType]})
	}
	return out
}
