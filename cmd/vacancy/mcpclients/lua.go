package mcpclients

import (
	"bytes"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// luaMark begins a Lua file of this package. A file that does not begin with luaMark is left unchanged.
const luaMark = "-- Written by \"vacancy acp config\"."

// module returns the text of a Lua module whose value is the entry. The client starts the program with
// only the variables in the entry, so the module adds HOME and the variable that contains the key.
func (c *Client) module(e Entry) string {
	inherited := []string{"HOME"}
	if e.Variable != "" {
		inherited = append(inherited, e.Variable)
	}
	entry := layout{newline: "\n", unit: unit}.object(nil, c.fields(e), "")
	b := fmt.Appendf(nil, "%s Use it in the settings of avante.nvim:\n", luaMark)
	b = fmt.Appendf(b, "-- require(\"avante\").setup({ provider = %q, acp_providers = { [%q] = require(%q) } })\n", e.Name, e.Name, "vacancy."+e.Name)
	b = fmt.Appendf(b, "local entry = vim.json.decode([==[%s]==])\nentry.env = entry.env or {}\n", entry)
	for _, name := range inherited {
		b = fmt.Appendf(b, "entry.env.%s = os.getenv(%q)\n", name, name)
	}
	return string(append(b, "return entry\n"...))
}

func (c *Client) mergeLua(old []byte, e Entry) (merged []byte, replaced bool, err error) {
	if !bytes.HasPrefix(old, []byte(luaMark)) {
		return nil, false, problem.New(problem.Usage, "line 1: expected the first line of a file that this command wrote; use another name, or remove the file")
	}
	return []byte(c.module(e)), true, nil
}
