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

func (c *Client) formatTOML(e Entry) string {
	// Strings of JSON are also valid strings of TOML.
	var b, subtables []byte
	tableName := strings.Join(c.TablePath, ".") + "." + e.Name
	b = append(b, "["+tableName+"]\n"...)
	for _, m := range c.entryMembers(e) {
		switch v := m.value.(type) {
		case string:
			b = append(canon.AppendString(append(b, m.name+" = "...), v), '\n')
		case []string:
			b = append(appendList(append(b, m.name+" = "...), v), '\n')
		case []member:
			subtables = append(subtables, "\n["+tableName+"."+m.name+"]\n"...)
			for _, sub := range v {
				subtables = append(canon.AppendString(append(subtables, sub.name+" = "...), sub.value.(string)), '\n')
			}
		}
	}
	return string(append(b, subtables...))
}

func (c *Client) mergeTOML(old []byte, e Entry) (merged []byte, replaced bool, err error) {
	before, err := decodeTOML(old)
	if err != nil {
		return nil, false, err
	}
	changes, err := c.findEntryDeletions(old, e.Name)
	if err != nil {
		return nil, false, err
	}
	text := c.formatTOML(e)
	if bytes.Contains(old, []byte("\r\n")) {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	newline := text[strings.IndexAny(text, "\r\n") : strings.IndexByte(text, '\n')+1]
	if len(changes) == 0 {
		end := len(bytes.TrimRight(old, " \t\r\n"))
		changes = []change{{end, len(old), newline + newline + text}}
		if end == 0 {
			changes[0].text = text
		}
	} else {
		replaced = true
		changes[0].text = text
	}
	merged = applyChanges(old, changes...)
	after, err := decodeTOML(merged)
	if err != nil {
		return nil, false, problem.New(problem.Usage, "cannot add a table to %s in this file: add the entry by hand (%s)", strings.Join(c.TablePath, "."), problem.AsError(err).Text())
	}
	return merged, replaced, c.checkDecodedChange(before, after, e)
}

func decodeTOML(b []byte) (v map[string]any, err error) {
	err = toml.Unmarshal(b, &v)
	var decodeErr *toml.DecodeError
	if errors.As(err, &decodeErr) {
		line, _ := decodeErr.Position()
		return nil, problem.New(problem.Usage, "line %d: %s", line, strings.TrimPrefix(decodeErr.Error(), "toml: "))
	}
	if err != nil {
		return nil, problem.New(problem.Usage, "%s", strings.TrimPrefix(err.Error(), "toml: "))
	}
	if v == nil {
		v = map[string]any{}
	}
	return v, nil
}

// findEntryDeletions returns changes that delete the tables of the named entry, but not the
// comments after a table.
func (c *Client) findEntryDeletions(b []byte, name string) (deletions []change, err error) {
	var p unstable.Parser
	p.Reset(b)
	var table []string
	inEntry := false
	entryPath := append(append([]string{}, c.TablePath...), name)
	for p.NextExpression() {
		expr := p.Expression()
		keys, offset := nodeKeys(expr)
		switch expr.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = keys
			inEntry = hasPrefix(keys, entryPath)
			if hasPrefix(entryPath, keys) && expr.Kind == unstable.ArrayTable {
				return nil, errorAtLine(b, offset, "%s: expected a table, got a list of tables", strings.Join(keys, "."))
			}
			if inEntry {
				start := bytes.LastIndexByte(b[:offset], '\n') + 1
				deletions = append(deletions, change{start, nextLineOffset(b, offset), ""})
			}
		case unstable.KeyValue:
			fullKeys := append(append([]string{}, table...), keys...)
			switch {
			case inEntry:
				deletions[len(deletions)-1].end = nextLineOffset(b, int(expr.Raw.Offset+expr.Raw.Length))
			case hasPrefix(fullKeys, entryPath):
				return nil, errorAtLine(b, offset, "expected a separate table for the entry %s; remove the entry, or change it by hand", name)
			case hasPrefix(entryPath, fullKeys):
				return nil, errorAtLine(b, offset, "%s: expected tables such as [%s], got a value", strings.Join(fullKeys, "."), strings.Join(entryPath, "."))
			}
		}
	}
	return deletions, p.Error()
}

func nodeKeys(node *unstable.Node) (keys []string, offset int) {
	offset = -1
	for it := node.Key(); it.Next(); {
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

func nextLineOffset(b []byte, offset int) int {
	if i := bytes.IndexByte(b[offset:], '\n'); i >= 0 {
		return offset + i + 1
	}
	return len(b)
}
