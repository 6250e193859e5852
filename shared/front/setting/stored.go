package setting

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// StoredOutput is the name of the stack output that stores the settings of a stage. CloudFormation changes it together
// with what the settings are for, so the stage and its stored settings agree after a failed deployment, too.
const StoredOutput = "Settings"

// OmitDefaults returns the context values that a stage stores: those other than the defaults. A value that is not stored
// follows the default when a later release changes it.
func OmitDefaults(context map[string]string) map[string]string {
	stored := map[string]string{}
	for _, s := range Table() {
		if text, given := context[s.Context]; given && text != s.Default && !slices.Contains([]string{"", "stage", "changes"}, s.Context) {
			stored[s.Context] = text
		}
	}
	return stored
}

// OmitSetByDeploy returns context values without those that only a deployment sets.
func OmitSetByDeploy(context map[string]string) map[string]string {
	rest := maps.Clone(context)
	maps.DeleteFunc(rest, func(name, _ string) bool { return slices.Contains(SetByDeploy(), name) })
	return rest
}

// FormatStored returns the text of the output StoredOutput.
func FormatStored(stored map[string]string) string {
	b, _ := json.Marshal(stored) // a map of strings has no error
	return string(b)
}

// ParseStored parses the text of the output StoredOutput. Its names may be unknown to this release.
func ParseStored(text string) (map[string]string, error) {
	stored := map[string]string{}
	if err := json.Unmarshal([]byte(text), &stored); err != nil || stored == nil {
		return nil, fmt.Errorf(`output %s: expected an object of texts such as {"worstDay":"50"}, got %.80q`, StoredOutput, text)
	}
	return stored, nil
}

// Change is a setting that a deployment changes. Its values are "" for a setting without a value and a default.
type Change struct{ Name, From, To string }

// Compare returns the settings that differ between the context values of two deployments, sorted by name. A missing value
// is the default.
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
	if text, given := context[name]; given {
		return text
	}
	i := slices.IndexFunc(Table(), func(s Setting) bool { return s.Context == name && name != "" })
	if i < 0 {
		return "" // a setting of another release
	}
	return Table()[i].Default
}

// String formats a change for people.
func (c Change) String() string {
	return fmt.Sprintf("%s: from %s to %s", c.Name, cmp.Or(c.From, "nothing"), cmp.Or(c.To, "nothing"))
}
