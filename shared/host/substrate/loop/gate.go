package loop

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
)

// vault is the only folder of the workspace to which a read-only agent may write.
const vault = ".vault"

// shell and the keys of fileArgument are tool names that agents' files use. fileArgument maps a tool to
// the name of the argument that contains the path of the written file.
const shell = "Bash"

var fileArgument = map[string]string{"Write": "file_path", "Edit": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}

// refusal explains why an agent may not use a tool.
type refusal struct {
	text   string // explanation for the model
	reason string // explanation for the agent's owner
	change string // setting that permits the tool
}

// refuse returns the reason why the agent may not use a tool, or nil if it may. tool is nil if no
// tool has the name. arguments is nil if the arguments are not an object. AllowedFor, which
// has no arguments yet, passes the result of anyFile.
//
// A disallowed tool is refused even if it is also allowed. Mode read-only refuses the shell, tools
// that write, and writes to files outside the vault.
func refuse(a *definition.Agent, name string, tool *Tool, arguments map[string]json.RawMessage) *refusal {
	readOnly := func(format string, args ...any) *refusal {
		return &refusal{fmt.Sprintf(format, args...), "mode is read-only, and the tool does not say that it only reads (readOnlyHint)", "mode=" + string(definition.ReadWrite)}
	}
	switch {
	case slices.ContainsFunc(a.DisallowedTools, func(no string) bool { return disallows(no, name) }):
		return &refusal{fmt.Sprintf("tool %.80q is denied: its agent disallows it", name), "disallowed_tools names it", "disallowed_tools without it"}
	case len(a.AllowedTools) > 0 && !slices.Contains(a.AllowedTools, name):
		return &refusal{fmt.Sprintf("tool %.80q is denied: its agent allows %s", name, strings.Join(a.AllowedTools, ", ")), "allowed_tools does not name it", "allowed_tools with it"}
	case a.Mode == definition.ReadWrite:
		return nil
	case name == shell:
		return readOnly("Bash is denied in mode read-only; use Read, Glob or Grep")
	}
	if argument, ok := fileArgument[name]; ok {
		var file string
		if err := json.Unmarshal(arguments[argument], &file); err != nil || !inVault(file) {
			return readOnly("%s is denied: mode read-only allows it only below %s/, got %.200q", name, vault, file)
		}
		return nil
	}
	if tool != nil && tool.Writes {
		return readOnly("tool %.80q is denied in mode read-only: it may change something", name)
	}
	return nil
}

func anyFile(tool string) map[string]json.RawMessage {
	// Every agent that may use a file tool at all may use it with a file in the vault.
	argument, ok := fileArgument[tool]
	if !ok {
		return nil
	}
	return map[string]json.RawMessage{argument: json.RawMessage(`"` + vault + `"`)}
}

// disallows reports whether no, an element of DisallowedTools, names a tool. The name may lack the
// suffix that MakeNamesUnique added to the tool's name.
func disallows(no, name string) bool {
	if no == name {
		return true
	}
	end := len(name) - suffixSize
	if end < 0 || name[end] != '_' || strings.Trim(name[end+1:], "0123456789abcdef") != "" {
		return false
	}
	return no[:min(len(no), maxName-suffixSize)] == name[:end]
}

func inVault(file string) bool {
	// A workspace has no links, so the path is sufficient.
	if file == "" || strings.ContainsAny(file, "\\\x00") || slices.Contains(strings.Split(file, "/"), "..") {
		return false
	}
	file = path.Clean("/" + file)
	return file == "/"+vault || strings.HasPrefix(file, "/"+vault+"/")
}
