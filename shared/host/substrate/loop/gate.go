package loop

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
)

// vault is the one folder of its workspace that a read-only agent may write to.
const vault = ".vault"

// Tools by the names that agents' files know, with the argument that names the file
// to be written.
const shell = "Bash"

var fileArgument = map[string]string{"Write": "file_path", "Edit": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}

// refusal says why an agent may not use a tool.
type refusal struct {
	text   string // for the model
	reason string // for the agent's owner
	change string // the setting that permits the tool
}

// refuse returns the reason why the agent may not use a tool, or nil if it may. tool is nil
// if no tool has the name. arguments are nil if they are not an object. Offered asks with nil, or with anyFile.
//
// A tool that is disallowed is refused though it is allowed, too. Mode read-only
// refuses the shell, tools that write, and writes to files outside the vault.
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

// anyFile returns arguments with which an agent may call a file tool if it may call the tool at all; nil for other tools.
func anyFile(tool string) map[string]json.RawMessage {
	argument, ok := fileArgument[tool]
	if !ok {
		return nil
	}
	return map[string]json.RawMessage{argument: json.RawMessage(`"` + vault + `"`)}
}

// disallows reports whether a name on an agent's list of disallowed tools is a tool's, or
// would be if no other tool had it, too (MakeNamesUnique).
func disallows(no, name string) bool {
	if no == name {
		return true
	}
	end := len(name) - apart
	if end < 0 || name[end] != '_' || strings.Trim(name[end+1:], "0123456789abcdef") != "" {
		return false
	}
	return no[:min(len(no), maxName-apart)] == name[:end]
}

// inVault reports whether a file of the workspace is in the vault. A workspace has
// no links, so that the path decides.
func inVault(file string) bool {
	if file == "" || strings.ContainsAny(file, "\\\x00") || slices.Contains(strings.Split(file, "/"), "..") {
		return false
	}
	file = path.Clean("/" + file)
	return file == "/"+vault || strings.HasPrefix(file, "/"+vault+"/")
}
