package agentfile

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/yamldoc"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Local has the settings of an agent's file for a program on this machine, which has abilities that a host lacks, and
// lacks others.
type Local struct {
	Model           string            `json:"model"`
	FallbackModel   string            `json:"fallback_model"`
	Tier            models.Tier       `json:"tier"`
	Mode            definition.Mode   `json:"mode"`
	MaxTurns        int               `json:"max_turns"`
	Budget          *money.Amount     `json:"budget"`
	Effort          string            `json:"effort"`
	OutputFormat    definition.Format `json:"output_format"`
	ApprovalMode    string            `json:"approval_mode"`
	AllowedTools    []string          `json:"allowed_tools"`
	DisallowedTools []string          `json:"disallowed_tools"`
	IncludeDirs     []string          `json:"include_dirs"`
	System          string            `json:"-"` // the texts of the root and of the file
	Warnings        []string          `json:"-"`
}

// localKeys are the settings that a program on this machine may have.
var localKeys = []string{
	"model", "fallback_model", "tier", "mode", "max_turns", "budget", "effort", "output_format", "approval_mode", "allowed_tools", "tools",
	"disallowed_tools", "include_dirs",
}

// ReadLocal reads an agent's file for a program of a provider, which is gemini or claude. PROVIDER/NAME.md beside the
// file is read instead, if it exists. root is the folder with instructions and rules of all agents.
func ReadLocal(file, provider, root string) (Local, error) {
	dir, name := filepath.Split(file)
	if own := filepath.Join(provider, name); exists(filepath.Join(dir, own)) {
		name = own
	}
	l, err := readLocal(filepath.Join(dir, "."), filepath.ToSlash(name), provider, root)
	if err != nil {
		return l, problem.Within(kindOf(err), file, err)
	}
	return l, nil
}

func readLocal(dir, name, provider, root string) (l Local, err error) {
	r, err := Options{Root: root}.open(dir)
	if err != nil {
		return l, err
	}
	defer r.close()
	doc, err := readText(r.beside, name)
	if err != nil {
		return l, asText(err)
	}
	front, persona, err := split(doc)
	if err != nil {
		return l, err
	}
	settings, err := yamldoc.JSON(front)
	if err != nil {
		return l, err
	}
	var given members
	if json.Unmarshal(settings, &given) != nil {
		return l, problem.New(problem.Usage, "expected settings such as model: NAME before the text")
	}
	names := make([]string, 0, len(given))
	for key := range given {
		names = append(names, key)
	}
	slices.Sort(names) // so that warnings have one order
	if unknown := slices.DeleteFunc(slices.Clone(names), isKey); len(unknown) > 0 {
		return l, unknownKeys(unknown)
	}
	m := members{}
	for _, key := range names {
		take := keys[key]
		switch {
		case string(given[key]) == "null" || key == "description" || key == "name" || key == "provider" || key == "color":
			continue
		case !slices.Contains(localKeys, key):
			r.warn("%s: not used, because a program on this machine does the turns", key)
			continue
		case key == "approval_mode":
			m[key] = given[key]
		case key == "include_dirs":
			err = r.localFolders(m, key, given[key])
		case take != nil:
			err = take(r, m, key, given[key])
		default:
			m[key] = given[key]
		}
		if err != nil {
			return l, err
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		return l, problem.Wrap(problem.Usage, err, "the settings have no form in JSON")
	}
	if err := json.Unmarshal(b, &l); err != nil {
		return l, problem.New(problem.Usage, "a setting has another form than expected: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	l.System, l.Warnings = r.prompt(provider, name, persona), r.warnings
	return l, l.check()
}

// check returns an error unless each setting has a known value.
func (l *Local) check() error {
	for _, word := range []struct {
		key, value string
		known      []string
	}{
		{"mode", string(l.Mode), []string{string(definition.ReadOnly), string(definition.ReadWrite)}},
		{"effort", l.Effort, []string{"low", "medium", "high"}},
		{"output_format", string(l.OutputFormat), []string{string(definition.Text), string(definition.JSON)}},
		{"approval_mode", l.ApprovalMode, []string{"default", "auto_edit", "yolo", "plan"}},
	} {
		if word.value != "" && !slices.Contains(word.known, word.value) {
			return &problem.Error{Kind: problem.Usage, Field: word.key, Want: "one of " + strings.Join(word.known, ", "), Got: fmt.Sprintf("%.40q", word.value)}
		}
	}
	if l.MaxTurns < 0 || l.MaxTurns > definition.MaxTurns {
		return &problem.Error{Kind: problem.Usage, Field: "max_turns", Want: fmt.Sprintf("1 to %d", definition.MaxTurns), Got: fmt.Sprint(l.MaxTurns)}
	}
	return nil
}

// localFolders reads folders below the root. It omits other folders, with a warning.
func (r *reader) localFolders(a members, key string, value json.RawMessage) error {
	all, err := listOf(key, value)
	if err != nil {
		return err
	}
	below := []string{}
	for _, one := range all {
		if r.root != nil && filepath.IsLocal(one) {
			if info, err := r.root.Stat(one); err == nil && info.IsDir() { // fails if a link leads out of the root
				below = append(below, one)
				continue
			}
		}
		r.warn("%s: %s is not a folder below the root; it is left out", key, one)
	}
	a.set(key, below)
	return nil
}
