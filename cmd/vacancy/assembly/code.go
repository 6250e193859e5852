package assembly

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

const functionType = "AWS::Lambda::Function"

// Code is a function and the location of its code.
type Code struct {
	Function string // physical name
	Bucket   string // with account and region filled in
	Key      string // <asset hash>.zip
}

// Hash is the hash of the asset.
func (c Code) Hash() string { return strings.TrimSuffix(c.Key, ".zip") }

// Functions lists the functions of a template that have a name and code in a
// bucket, sorted by name.
func (t Template) Functions(account, region string) []Code {
	var out []Code
	for _, id := range slices.Sorted(maps.Keys(t.resources)) {
		r := t.resources[id]
		code, _ := r.Properties["Code"].(map[string]any)
		name, _ := r.Properties["FunctionName"].(string)
		key, _ := code["S3Key"].(string)
		if r.Type != functionType || name == "" || key == "" {
			continue
		}
		out = append(out, Code{name, filled(code["S3Bucket"], account, region), key})
	}
	slices.SortFunc(out, func(a, b Code) int { return strings.Compare(a.Function, b.Function) })
	return out
}

// filled returns a text of a template with the pseudo parameters replaced.
func filled(v any, account, region string) string {
	if sub, ok := v.(map[string]any); ok {
		v = sub["Fn::Sub"]
	}
	s, _ := v.(string)
	return strings.NewReplacer("${AWS::AccountId}", account, "${AWS::Region}", region, "${AWS::Partition}", "aws").Replace(s)
}

// CodeOnly returns nil if only the code of functions changes. Outputs may
// change too, because no function depends on them.
func CodeOnly(stack string, changes []Change) error {
	for _, c := range changes {
		switch {
		case c.Type == functionType && c.Verb == Update && slices.Equal(c.Properties, []string{"Code"}):
		case c.Type == "" && c.Resource == "Outputs":
		case c.Type == "":
			return problem.New(problem.Conflict, "more than code changed: %s of stack %s", c.Resource, stack)
		default:
			return problem.New(problem.Conflict, "more than code changed: stack %s would %s %s (%s)", stack, c.Verb, c.Resource, c.Type)
		}
	}
	return nil
}

// pinned matches the version id in a dynamic reference to a secret.
var pinned = regexp.MustCompile(`:SecretString:[^:}]*:[^:}]*:([A-Za-z0-9-]+)\}\}`)

// SecretVersion returns the version of a secret that a template pins, or "" if
// the template refers to the current one; refers is false without any
// reference.
func SecretVersion(template []byte) (version string, refers bool) {
	if found := pinned.FindSubmatch(template); found != nil {
		return string(found[1]), true
	}
	return "", strings.Contains(string(template), "{{resolve:secretsmanager:")
}
