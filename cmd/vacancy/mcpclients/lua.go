package mcpclients

import (
	"bytes"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// luaHeader begins each Lua file of this package. Other Lua files are not changed.
const luaHeader = "-- Written by \"vacancy acp config\"."

// formatLua returns a Lua module whose value is the entry. The client passes only the variables in
// the entry, so the module adds HOME and the variable with the key.
func (c *Client) formatLua(e Entry) string {
	inheritedNames := []string{"HOME"}
	if e.KeyVariable != "" {
		inheritedNames = append(inheritedNames, e.KeyVariable)
	}
	entryJSON := layout{newline: "\n", indentUnit: defaultIndent}.appendObject(nil, c.entryMembers(e), "")
	b := fmt.Appendf(nil, "%s Use it in the settings of avante.nvim:\n", luaHeader)
	b = fmt.Appendf(b, "-- require(\"avante\").setup({ provider = %q, acp_providers = { [%q] = require(%q) } })\n", e.Name, e.Name, "vacancy."+e.Name)
	b = fmt.Appendf(b, "local entry = vim.json.decode([==[%s]==])\nentry.env = entry.env or {}\n", entryJSON)
	for _, name := range inheritedNames {
		b = fmt.Appendf(b, "entry.env.%s = os.getenv(%q)\n", name, name)
	}
	return string(append(b, "return entry\n"...))
}

func (c *Client) mergeLua(old []byte, e Entry) (merged []byte, replaced bool, err error) {
	if !bytes.HasPrefix(old, []byte(luaHeader)) {
		return nil, false, problem.New(problem.Usage, "line 1: expected the first line of a file that this command wrote; use another name, or remove the file")
	}
	return []byte(c.formatLua(e)), true, nil
}
