package mcpclients

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// luaMark begins a Lua file of this package. A file that does not begin with luaMark is left unchanged.
const luaMark = "-- Written by \"vacancy acp config\"."

// module returns a Lua file that returns the entry.
func (c *Client) module(e Entry) string {
	var b strings.Builder
	name := luaString(e.Name)
	fmt.Fprintf(&b, "%s Use it in the settings of avante.nvim:\n", luaMark)
	fmt.Fprintf(&b, "-- require(\"avante\").setup({ provider = %s, acp_providers = { [%s] = require(%s) } })\n", name, name, luaString("vacancy."+e.Name))
	fmt.Fprintf(&b, "return {\n  command = %s,\n  args = {", luaString(e.Command))
	for i, arg := range e.Args {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(" " + luaString(arg))
	}
	b.WriteString(" },\n  env = {\n    HOME = os.getenv(\"HOME\"),\n")
	for _, v := range e.Env {
		fmt.Fprintf(&b, "    %s = %s,\n", v.Name, luaString(v.Value))
	}
	if e.Variable != "" {
		fmt.Fprintf(&b, "    %s = os.getenv(%s),\n", e.Variable, luaString(e.Variable))
	}
	b.WriteString("  },\n}\n")
	return b.String()
}

// luaString quotes a string. Bytes other than printable ASCII are decimal escapes, as Lua reads them.
func luaString(s string) string {
	b := []byte{'"'}
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = fmt.Appendf(b, "\\%03d", c)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}

func (c *Client) mergeLua(old []byte, e Entry) (merged []byte, replaced bool, err error) {
	if !bytes.HasPrefix(old, []byte(luaMark)) {
		return nil, false, problem.New(problem.Usage, "line 1: expected the first line of a file that this command wrote; use another name, or remove the file")
	}
	return []byte(c.module(e)), true, nil
}
