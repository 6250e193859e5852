package mcpclients

import (
	"bytes"
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

func (c *Client) table(e Entry) string {
	// Strings of JSON are also valid strings of TOML.
	var b, inner []byte
	tableName := strings.Join(c.Table, ".") + "." + e.Name
	b = append(b, "["+tableName+"]\n"...)
	for _, f := range c.fields(e) {
		switch v := f.value.(type) {
		case string:
			b = append(canon.AppendString(append(b, f.name+" = "...), v), '\n')
		case []string:
			b = append(appendList(append(b, f.name+" = "...), v), '\n')
		case []field:
			inner = append(inner, "\n["+tableName+"."+f.name+"]\n"...)
			for _, pair := range v {
				inner = append(canon.AppendString(append(inner, pair.name+" = "...), pair.value.(string)), '\n')
			}
		}
	}
	return string(append(b, inner...))
}

func (c *Client) mergeTOML(old []byte, e Entry) (merged []byte, replaced bool, err error) {
	before, err := decodeTOML(old)
	if err != nil {
		return nil, false, err
	}
	regions, err := c.regions(old, e.Name)
	if err != nil {
		return nil, false, err
	}
	text := c.table(e)
	if bytes.Contains(old, []byte("\r\n")) {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	newline := text[strings.IndexAny(text, "\r\n") : strings.IndexByte(text, '\n')+1]
	if len(regions) == 0 {
		end := len(bytes.TrimRight(old, " \t\r\n"))
		regions = []change{{end, len(old), newline + newline + text}}
		if end == 0 {
			regions[0].text = text
		}
	} else {
		replaced = true
		regions[0].text = text
	}
	merged = apply(old, regions...)
	after, err := decodeTOML(merged)
	if err != nil {
		return nil, false, problem.New(problem.Usage, "cannot add a table to %s as the file is written: add the entry by hand (%s)", strings.Join(c.Table, "."), problem.AsError(err).Text())
	}
	return merged, replaced, c.compare(before, after, e)
}

func decodeTOML(b []byte) (v map[string]any, err error) {
	err = toml.Unmarshal(b, &v)
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		line, _ := bad.Position()
		return nil, problem.New(problem.Usage, "line %d: %s", line, strings.TrimPrefix(bad.Error(), "toml: "))
	}
	if err != nil {
		return nil, problem.New(problem.Usage, "%s", strings.TrimPrefix(err.Error(), "toml: "))
	}
	if v == nil {
		v = map[string]any{}
	}
	return v, nil
}

// regions returns changes that delete the tables of the named entry. Comments after the last line
// of a table are not deleted.
func (c *Client) regions(b []byte, name string) (regions []change, err error) {
	var p unstable.Parser
	p.Reset(b)
	var table []string
	inside := false
	path := append(append([]string{}, c.Table...), name)
	for p.NextExpression() {
		x := p.Expression()
		keys, offset := keysOf(x)
		switch x.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = keys
			inside = hasPrefix(keys, path)
			if hasPrefix(path, keys) && x.Kind == unstable.ArrayTable {
				return nil, atLine(b, offset, "%s: expected a table, got a list of tables", strings.Join(keys, "."))
			}
			if inside {
				begin := bytes.LastIndexByte(b[:offset], '\n') + 1
				regions = append(regions, change{begin, lineEnd(b, offset), ""})
			}
		case unstable.KeyValue:
			whole := append(append([]string{}, table...), keys...)
			switch {
			case inside:
				regions[len(regions)-1].end = lineEnd(b, int(x.Raw.Offset+x.Raw.Length))
			case hasPrefix(whole, path):
				return nil, atLine(b, offset, "expected a separate table for the entry %s; remove the entry, or change it by hand", name)
			case hasPrefix(path, whole):
				return nil, atLine(b, offset, "%s: expected tables such as [%s], got a value", strings.Join(whole, "."), strings.Join(path, "."))
			}
		}
	}
	return regions, p.Error()
}

func keysOf(x *unstable.Node) (keys []string, offset int) {
	offset = -1
	for it := x.Key(); it.Next(); {
		if offset < 0 {
			offset = int(it.Node().Raw.Offset)
		}
		keys = append(keys, string(it.Node().Data))
	}
	return keys, max(offset, 0)
}

func hasPrefix(keys, prefix []string) bool {
	return len(keys) >= len(prefix) && strings.Join(keys[:len(prefix)], "\x00") == strings.Join(prefix, "\x00")
}

func lineEnd(b []byte, offset int) int {
	if i := bytes.IndexByte(b[offset:], '\n'); i >= 0 {
		return offset + i + 1
	}
	return len(b)
}
