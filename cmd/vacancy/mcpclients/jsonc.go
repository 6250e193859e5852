package mcpclients

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"github.com/tailscale/hujson"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// unit is one level of indentation in a file without indented lines.
const unit = "  "

func (c *Client) document(e Entry) []byte {
	l := layout{newline: "\n", unit: unit}
	b := l.object(nil, []field{{c.Table[0], []field{{e.Name, c.value(e)}}}}, "")
	return append(b, '\n')
}

// layout is the formatting of a file: its line ending and one level of its indentation.
type layout struct{ newline, unit string }

// object renders an object. indent is the indentation of the line on which it begins.
func (l layout) object(b []byte, members []field, indent string) []byte {
	b = append(b, '{')
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, l.newline+indent+l.unit...)
		b = l.value(append(canon.AppendString(b, m.name), ": "...), m.value, indent+l.unit)
	}
	return append(append(b, l.newline+indent...), '}')
}

// value renders the value of a member. indent is the indentation of the member's line.
func (l layout) value(b []byte, value any, indent string) []byte {
	switch v := value.(type) {
	case bool:
		return strconv.AppendBool(b, v)
	case string:
		return canon.AppendString(b, v)
	case []string:
		return appendList(b, v)
	}
	return l.object(b, asFields(value), indent)
}

func appendList(b []byte, items []string) []byte {
	b = append(b, '[')
	for i, s := range items {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = canon.AppendString(b, s)
	}
	return append(b, ']')
}

// change replaces the bytes from start to end by text.
type change struct {
	start, end int
	text       string
}

// apply applies changes, which must be sorted and must not overlap.
func apply(b []byte, changes ...change) (out []byte) {
	offset := 0
	for _, c := range changes {
		out = append(append(out, b[offset:c.start]...), c.text...)
		offset = c.end
	}
	return append(out, b[offset:]...)
}

func (c *Client) mergeJSON(old []byte, e Entry) (merged []byte, replaced bool, err error) {
	root, err := hujson.Parse(old)
	if err != nil {
		return nil, false, problem.New(problem.Usage, "%s", strings.TrimPrefix(err.Error(), "hujson: "))
	}
	l := layoutOf(old, &root)
	node, indent := &root, ""
	for depth := 0; ; depth++ {
		o, ok := node.Value.(*hujson.Object)
		if !ok {
			what := "the file"
			if depth > 0 {
				what = c.Table[depth-1]
			}
			return nil, false, atLine(old, node.StartOffset, "%s: expected an object, got another value", what)
		}
		name := e.Name
		if depth < len(c.Table) {
			name = c.Table[depth]
		}
		inner := indentOf(o, indent+l.unit)
		found, err := member(old, o, name)
		if err != nil {
			return nil, false, err
		}
		switch {
		case found == nil:
			added := field{name, c.value(e)}
			if depth < len(c.Table) {
				added.value = []field{{e.Name, c.value(e)}}
			}
			merged = l.insert(old, node, o, added, inner, indent)
		case depth == len(c.Table):
			replaced = true
			merged = apply(old, change{found.StartOffset, found.EndOffset, string(l.value(nil, c.value(e), inner))})
		default:
			node, indent = found, inner
			continue
		}
		break
	}
	if err := c.check(old, merged, e); err != nil {
		return nil, false, err
	}
	return merged, replaced, nil
}

func layoutOf(b []byte, root *hujson.Value) layout {
	l := layout{newline: "\n", unit: unit}
	if bytes.Contains(b, []byte("\r\n")) {
		l.newline = "\r\n"
	}
	if o, ok := root.Value.(*hujson.Object); ok {
		if own := indentOf(o, ""); own != "" {
			l.unit = own
		}
	}
	return l
}

// indentOf returns the indentation of an object's first member. It returns fallback if the object
// is empty or the first member is not on its own line.
func indentOf(o *hujson.Object, otherwise string) string {
	if len(o.Members) == 0 {
		return otherwise
	}
	before := string(o.Members[0].Name.BeforeExtra)
	i := strings.LastIndexByte(before, '\n')
	if i < 0 || strings.Trim(before[i+1:], " \t") != "" {
		return otherwise
	}
	return before[i+1:]
}

func member(file []byte, o *hujson.Object, name string) (found *hujson.Value, err error) {
	for i := range o.Members {
		m := &o.Members[i]
		if l, ok := m.Name.Value.(hujson.Literal); !ok || l.String() != name {
			continue
		}
		if found != nil {
			return nil, atLine(file, m.Name.StartOffset, "%s occurs twice", name)
		}
		found = &m.Value
	}
	return found, nil
}

// insert adds a member at the end of an object. indent is the indentation of the members, and
// outerIndent is the indentation of the object's line.
func (l layout) insert(b []byte, node *hujson.Value, o *hujson.Object, m field, indent, outer string) []byte {
	text := l.newline + indent + string(canon.AppendString(nil, m.name)) + ": " + string(l.value(nil, m.value, indent))
	closing := node.EndOffset - 1
	// The member follows the last comment or value before the closing brace.
	end := len(bytes.TrimRightFunc(b[:closing], unicode.IsSpace))
	tail := change{end, end, text}
	if !strings.Contains(string(b[end:closing]), "\n") {
		tail = change{end, closing, text + l.newline + outer}
	}
	if len(o.Members) == 0 {
		return apply(b, tail)
	}
	last := &o.Members[len(o.Members)-1].Value
	// The file uses trailing commas, so the new member also gets one.
	if last.AfterExtra != nil {
		tail.text = text + "," + strings.TrimPrefix(tail.text, text)
		return apply(b, tail)
	}
	return apply(b, change{last.EndOffset, last.EndOffset, ","}, tail)
}

// check decodes a file before and after a change, and returns an error unless the change only added
// or replaced the entry.
func (c *Client) check(old, merged []byte, e Entry) error {
	before, err := decode(old)
	if err != nil {
		return err
	}
	after, err := decode(merged)
	if err != nil {
		return problem.Wrap(problem.Internal, err, "the changed file does not parse")
	}
	return c.compare(before, after, e)
}

func decode(b []byte) (v map[string]any, err error) {
	if b, err = hujson.Standardize(bytes.Clone(b)); err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		return nil, problem.New(problem.Usage, "%s", strings.TrimPrefix(err.Error(), "hujson: "))
	}
	return v, nil
}

// compare returns an error unless after equals before with the entry added or replaced.
func (c *Client) compare(before, after map[string]any, e Entry) error {
	object := before
	for _, name := range c.Table {
		inner, ok := object[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[name] = inner
		}
		object = inner
	}
	object[e.Name] = plain([]field{{e.Name, c.value(e)}})[e.Name]
	if !reflect.DeepEqual(before, after) {
		return problem.New(problem.Internal, "the change would affect more than the entry")
	}
	return nil
}

func plain(fields []field) map[string]any {
	m := map[string]any{}
	for _, f := range fields {
		switch v := f.value.(type) {
		case bool, string:
			m[f.name] = v
		case []string:
			list := []any{}
			for _, s := range v {
				list = append(list, s)
			}
			m[f.name] = list
		case []field:
			m[f.name] = plain(v)
		}
	}
	return m
}
