package setting

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// StoredOutput is a stack output, so CloudFormation changes it together with the resources, and the
// stored settings match the stage even after a failed deployment.
const StoredOutput = "Settings"

// OmitDefaults returns the context values that differ from their defaults. If a later release
// changes a default, an omitted value changes with it.
func OmitDefaults(context map[string]string) map[string]string {
	stored := map[string]string{}
	for _, s := range Table() {
		if text, isSet := context[s.Context]; isSet && text != s.Default && !slices.Contains([]string{"", "stage", "changes"}, s.Context) {
			stored[s.Context] = text
		}
	}
	return stored
}

func OmitDeployContexts(context map[string]string) map[string]string {
	rest := maps.Clone(context)
	maps.DeleteFunc(rest, func(name, _ string) bool { return slices.Contains(DeployContexts(), name) })
	return rest
}

func FormatStored(stored map[string]string) string {
	b, _ := json.Marshal(stored) // a map of strings always encodes
	return string(b)
}

// ParseStored parses the value of the output StoredOutput. It accepts unknown names.
func ParseStored(text string) (map[string]string, error) {
	stored := map[string]string{}
	if err := json.Unmarshal([]byte(text), &stored); err != nil || stored == nil {
		return nil, fmt.Errorf(`output %s: expected an object of strings such as {"worstDay":"50"}, got %.80q`, StoredOutput, text)
	}
	return stored, nil
}

// Change has an empty From or To if the setting has neither a value nor a default.
type Change struct{ Name, From, To string }

// Compare returns the settings that differ between the context values of two deployments, sorted by
// name. A missing value means the default.
func Compare(from, to map[string]string) (changes []Change) {
	names := slices.AppendSeq(slices.Collect(maps.Keys(from)), maps.Keys(to))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if c := (Change{name, effectiveValue(from, name), effectiveValue(to, name)}); c.From != c.To {
			changes = append(changes, c)
		}
	}
	return changes
}

func effectiveValue(context map[string]string, name string) string {
	if text, isSet := context[name]; isSet {
		return text
	}
	i := slices.IndexFunc(Table(), func(s Setting) bool { return s.Context == name && name != "" })
	if i < 0 {
		return ""
	}
	return Table()[i].Default
}

func (c Change) String() string {
	return fmt.Sprintf("%s: from %s to %s", c.Name, cmp.Or(c.From, "nothing"), cmp.Or(c.To, "nothing"))
}
