package loop

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
)

// vaultFolder is the only folder to which a read-only agent may write.
const vaultFolder = ".vault"

// shellTool and the keys of pathArguments are tool names in agents' files.
const shellTool = "Bash"

var pathArguments = map[string]string{"Write": "file_path", "Edit": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}

type refusal struct {
	modelMessage string
	ownerReason  string
	remedy       string
}

func findRefusal(a *definition.Agent, name string, tool *Tool, arguments map[string]json.RawMessage) *refusal {
	newReadOnlyRefusal := func(format string, args ...any) *refusal {
		return &refusal{fmt.Sprintf(format, args...), "mode is read-only, and the tool does not declare readOnlyHint", "mode=" + string(definition.ReadWrite)}
	}
	switch {
	case slices.ContainsFunc(a.DisallowedTools, func(entry string) bool { return matchesEntry(entry, name) }):
		return &refusal{fmt.Sprintf("tool %.80q is denied: its agent disallows it", name), "disallowed_tools names it", "disallowed_tools without it"}
	case len(a.AllowedTools) > 0 && !slices.Contains(a.AllowedTools, name):
		return &refusal{fmt.Sprintf("tool %.80q is denied: its agent allows %s", name, strings.Join(a.AllowedTools, ", ")), "allowed_tools does not name it", "allowed_tools with it"}
	case a.Mode == definition.ReadWrite:
		return nil
	case name == shellTool:
		return newReadOnlyRefusal("Bash is denied in mode read-only; use Read, Glob or Grep")
	}
	if argument, ok := pathArguments[name]; ok {
		var file string
		if err := json.Unmarshal(arguments[argument], &file); err != nil || !isInVault(file) {
			return newReadOnlyRefusal("%s is denied: mode read-only allows it only below %s/, got %.200q", name, vaultFolder, file)
		}
		return nil
	}
	if tool != nil && tool.Writes {
		return newReadOnlyRefusal("tool %.80q is denied in mode read-only: it may change something", name)
	}
	return nil
}

func vaultArguments(tool string) map[string]json.RawMessage {
	// An agent that may use a file tool may always use it for a file in the vault.
	argument, ok := pathArguments[tool]
	if !ok {
		return nil
	}
	return map[string]json.RawMessage{argument: json.RawMessage(`"` + vaultFolder + `"`)}
}

// matchesEntry also accepts an entry without the suffix that MakeNamesUnique added to the tool's
// name.
func matchesEntry(entry, name string) bool {
	if entry == name {
		return true
	}
	end := len(name) - suffixSize
	if end < 0 || name[end] != '_' || strings.Trim(name[end+1:], "0123456789abcdef") != "" {
		return false
	}
	return entry[:min(len(entry), maxNameLength-suffixSize)] == name[:end]
}

func isInVault(file string) bool {
	// A workspace has no links, so checking the path is sufficient.
	if file == "" || strings.ContainsAny(file, "\\\x00") || slices.Contains(strings.Split(file, "/"), "..") {
		return false
	}
	file = path.Clean("/" + file)
	return file == "/"+vaultFolder || strings.HasPrefix(file, "/"+vaultFolder+"/")
}
