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

const defaultIndent = "  "

func (c *Client) formatJSON(e Entry) []byte {
	l := layout{newline: "\n", indentUnit: defaultIndent}
	b := l.appendObject(nil, []member{{c.TablePath[0], []member{{e.Name, c.entryValue(e)}}}}, "")
	return append(b, '\n')
}

type layout struct{ newline, indentUnit string }

// appendObject renders an object. indent is the indentation of its first line.
func (l layout) appendObject(b []byte, members []member, indent string) []byte {
	b = append(b, '{')
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, l.newline+indent+l.indentUnit...)
		b = l.appendValue(append(canon.AppendString(b, m.name), ": "...), m.value, indent+l.indentUnit)
	}
	return append(append(b, l.newline+indent...), '}')
}

func (l layout) appendValue(b []byte, value any, indent string) []byte {
	switch v := value.(type) {
	case bool:
		return strconv.AppendBool(b, v)
	case string:
		return canon.AppendString(b, v)
	case []string:
		return appendList(b, v)
	}
	return l.appendObject(b, asMembers(value), indent)
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

type change struct {
	start, end int
	text       string
}

// applyChanges applies changes, which must be sorted and must not overlap.
func applyChanges(b []byte, changes ...change) (out []byte) {
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
	l := detectLayout(old, &root)
	node, indent := &root, ""
	for depth := 0; ; depth++ {
		o, ok := node.Value.(*hujson.Object)
		if !ok {
			location := "the file"
			if depth > 0 {
				location = c.TablePath[depth-1]
			}
			return nil, false, errorAtLine(old, node.StartOffset, "%s: expected an object, got another value", location)
		}
		name := e.Name
		if depth < len(c.TablePath) {
			name = c.TablePath[depth]
		}
		childIndent := memberIndent(o, indent+l.indentUnit)
		found, err := findMember(old, o, name)
		if err != nil {
			return nil, false, err
		}
		switch {
		case found == nil:
			newMember := member{name, c.entryValue(e)}
			if depth < len(c.TablePath) {
				newMember.value = []member{{e.Name, c.entryValue(e)}}
			}
			merged = l.insertMember(old, node, o, newMember, childIndent, indent)
		case depth == len(c.TablePath):
			replaced = true
			merged = applyChanges(old, change{found.StartOffset, found.EndOffset, string(l.appendValue(nil, c.entryValue(e), childIndent))})
		default:
			node, indent = found, childIndent
			continue
		}
		break
	}
	if err := c.checkJSONChange(old, merged, e); err != nil {
		return nil, false, err
	}
	return merged, replaced, nil
}

func detectLayout(b []byte, root *hujson.Value) layout {
	l := layout{newline: "\n", indentUnit: defaultIndent}
	if bytes.Contains(b, []byte("\r\n")) {
		l.newline = "\r\n"
	}
	if o, ok := root.Value.(*hujson.Object); ok {
		if indent := memberIndent(o, ""); indent != "" {
			l.indentUnit = indent
		}
	}
	return l
}

// memberIndent returns the indentation of an object's first member, or fallback.
func memberIndent(o *hujson.Object, fallback string) string {
	if len(o.Members) == 0 {
		return fallback
	}
	leadingText := string(o.Members[0].Name.BeforeExtra)
	i := strings.LastIndexByte(leadingText, '\n')
	if i < 0 || strings.Trim(leadingText[i+1:], " \t") != "" {
		return fallback
	}
	return leadingText[i+1:]
}

func findMember(file []byte, o *hujson.Object, name string) (found *hujson.Value, err error) {
	for i := range o.Members {
		m := &o.Members[i]
		if l, ok := m.Name.Value.(hujson.Literal); !ok || l.String() != name {
			continue
		}
		if found != nil {
			return nil, errorAtLine(file, m.Name.StartOffset, "%s occurs twice", name)
		}
		found = &m.Value
	}
	return found, nil
}

// insertMember adds a member at the end of an object. outerIndent is the indentation of the
// object's line.
func (l layout) insertMember(b []byte, node *hujson.Value, o *hujson.Object, m member, indent, outerIndent string) []byte {
	text := l.newline + indent + string(canon.AppendString(nil, m.name)) + ": " + string(l.appendValue(nil, m.value, indent))
	closingBrace := node.EndOffset - 1
	// The member follows the last comment or value before the closing brace.
	end := len(bytes.TrimRightFunc(b[:closingBrace], unicode.IsSpace))
	insertion := change{end, end, text}
	if !strings.Contains(string(b[end:closingBrace]), "\n") {
		insertion = change{end, closingBrace, text + l.newline + outerIndent}
	}
	if len(o.Members) == 0 {
		return applyChanges(b, insertion)
	}
	last := &o.Members[len(o.Members)-1].Value
	// The file uses trailing commas, so the new member also gets one.
	if last.AfterExtra != nil {
		insertion.text = text + "," + strings.TrimPrefix(insertion.text, text)
		return applyChanges(b, insertion)
	}
	return applyChanges(b, change{last.EndOffset, last.EndOffset, ","}, insertion)
}

// checkJSONChange returns an error unless the change only added or replaced the entry.
func (c *Client) checkJSONChange(old, merged []byte, e Entry) error {
	before, err := decodeJSON(old)
	if err != nil {
		return err
	}
	after, err := decodeJSON(merged)
	if err != nil {
		return problem.Wrap(problem.Internal, err, "the changed file does not parse")
	}
	return c.checkDecodedChange(before, after, e)
}

func decodeJSON(b []byte) (v map[string]any, err error) {
	if b, err = hujson.Standardize(bytes.Clone(b)); err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		return nil, problem.New(problem.Usage, "%s", strings.TrimPrefix(err.Error(), "hujson: "))
	}
	return v, nil
}

func (c *Client) checkDecodedChange(before, after map[string]any, e Entry) error {
	object := before
	for _, name := range c.TablePath {
		inner, ok := object[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[name] = inner
		}
		object = inner
	}
	object[e.Name] = membersToMap([]member{{e.Name, c.entryValue(e)}})[e.Name]
	if !reflect.DeepEqual(before, after) {
		return problem.New(problem.Internal, "the change would affect more than the entry")
	}
	return nil
}

func membersToMap(members []member) map[string]any {
	m := map[string]any{}
	for _, entryMember := range members {
		switch v := entryMember.value.(type) {
		case bool, string:
			m[entryMember.name] = v
		case []string:
			list := []any{}
			for _, s := range v {
				list = append(list, s)
			}
			m[entryMember.name] = list
		case []member:
			m[entryMember.name] = membersToMap(v)
		}
	}
	return m
}
