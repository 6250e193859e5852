package assembly

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Count is the number of resources of a type.
type Count struct {
	Type string
	N    int
}

// Counts counts the resources of each type, sorted by type.
func (t Template) Counts() []Count {
	n := map[string]int{}
	for _, r := range t.resources {
		n[r.Type]++
	}
	out := make([]Count, 0, len(n))
	for _, kind := range slices.Sorted(maps.Keys(n)) {
		out = append(out, Count{kind, n[kind]})
	}
	return out
}

// Roles lists the roles of a template, sorted: by name, or by logical id if
// CloudFormation chooses the name.
func (t Template) Roles() []string {
	var out []string
	for id, r := range t.resources {
		if r.Type == "AWS::IAM::Role" {
			name, _ := r.Properties["RoleName"].(string)
			out = append(out, cmp.Or(name, id))
		}
	}
	slices.Sort(out)
	return out
}

// Opening is a statement that grants public access.
type Opening struct {
	Resource string // physical name if the template has one, else logical id
	Actions  []string
	ByURL    bool     // granted for a Function URL
	Where    []string // the condition keys, sorted
}

// Openings lists what a template allows to everybody: permissions of functions,
// and statements in any policy. A statement with a condition is listed too,
// because the command cannot judge whether the condition restricts anybody.
func (t Template) Openings() []Opening {
	var out []Opening
	for _, id := range slices.Sorted(maps.Keys(t.resources)) {
		r := t.resources[id]
		if r.Type == "AWS::Lambda::Permission" {
			if anybody(r.Properties["Principal"]) {
				out = append(out, Opening{t.named(r.Properties["FunctionName"]), texts(r.Properties["Action"]), viaURL(r.Properties), nil})
			}
			continue
		}
		for _, s := range allowed(r.Properties) {
			o := Opening{Resource: id, Actions: texts(s["Action"])}
			if _, all := s["NotAction"]; all {
				o.Actions = append([]string{"all but"}, texts(s["NotAction"])...)
			}
			conditions, _ := s["Condition"].(map[string]any)
			for _, keys := range conditions {
				keys, _ := keys.(map[string]any)
				o.Where = slices.AppendSeq(o.Where, maps.Keys(keys))
			}
			slices.Sort(o.Where)
			out = append(out, o)
		}
	}
	slices.SortStableFunc(out, func(a, b Opening) int { return strings.Compare(a.Resource, b.Resource) })
	return out
}

// viaURL reports whether a permission is for a Function URL.
func viaURL(permission map[string]any) bool {
	return permission["InvokedViaFunctionUrl"] == true || permission["FunctionUrlAuthType"] != nil
}

// named returns the physical name of the function that a reference points to.
func (t Template) named(reference any) string {
	id, _ := reference.(string)
	if ref, ok := reference.(map[string]any); ok {
		if at := append(texts(ref["Ref"]), texts(ref["Fn::GetAtt"])...); len(at) > 0 {
			id = at[0]
		}
	}
	name, _ := t.resources[id].Properties["FunctionName"].(string)
	return cmp.Or(name, id, fmt.Sprint(reference))
}

// allowed finds the public Allow statements within a value.
func allowed(v any) []map[string]any {
	var out []map[string]any
	switch v := v.(type) {
	case []any:
		for _, member := range v {
			out = append(out, allowed(member)...)
		}
	case map[string]any:
		_, but := v["NotPrincipal"]
		if v["Effect"] == "Allow" && (but || anybody(v["Principal"])) {
			return []map[string]any{v}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out = append(out, allowed(v[name])...)
		}
	}
	return out
}

// anybody reports whether a principal is everybody.
func anybody(principal any) bool {
	if kinds, ok := principal.(map[string]any); ok {
		for _, who := range kinds {
			if slices.Contains(texts(who), "*") {
				return true
			}
		}
		return false
	}
	return slices.Contains(texts(principal), "*")
}

// texts returns a value that is one text or a list of texts as a list.
func texts(v any) []string {
	if s, ok := v.(string); ok {
		return []string{s}
	}
	var out []string
	all, _ := v.([]any)
	for _, member := range all {
		if s, ok := member.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
