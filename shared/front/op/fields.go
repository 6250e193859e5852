package op

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	inPath   = "path"
	inQuery  = "query"
	inHeader = "header"
	inBody   = "body"
)

const (
	unreadBody = "ignored" // accepted but not read
	textBody   = "text"
)

type Field struct {
	Place string // path, query, header or body
	Name  string
	Type  reflect.Type
	index []int
}

func (s Spec) Fields() []Field { return fieldsOf(s.In, s.Path) }

type requestFields []Field

var fieldCache sync.Map // fields by request type and path

// fieldsOf panics if the type is not a valid request, so that any test reveals the mistake.
func fieldsOf(t reflect.Type, path string) requestFields {
	key := struct {
		t    reflect.Type
		path string
	}{t, path}
	if f, ok := fieldCache.Load(key); ok {
		return f.(requestFields)
	}
	var fieldList requestFields
	unboundVars := map[string]bool{}
	for _, segment := range strings.Split(path, "/") {
		// A variable may be followed by a word, as in {id}:cancel.
		name, ok := strings.CutPrefix(segment, "{")
		name, _, closed := strings.Cut(name, "}")
		name, isRest := strings.CutSuffix(name, "...")
		if isRest && !strings.HasSuffix(path, segment) {
			panic("op: a variable for several segments must be at the end of the path " + path)
		}
		if ok && closed && name != "$" {
			unboundVars[name] = true
		}
	}
	for _, f := range reflect.VisibleFields(t) {
		for _, place := range []string{inPath, inQuery, inHeader, inBody} {
			name, ok := f.Tag.Lookup(place)
			if !ok || place == inPath && !unboundVars[name] {
				continue
			}
			if place != inBody && !isTextType(f.Type) && (place != inQuery || f.Type != reflect.TypeFor[[]string]()) {
				panic(fmt.Sprintf("op: %v.%s cannot be read from a %s", t, f.Name, place))
			}
			if place == inPath {
				delete(unboundVars, name)
			}
			fieldList = append(fieldList, Field{place, name, f.Type, f.Index})
		}
	}
	if len(unboundVars) > 0 {
		panic(fmt.Sprintf("op: %v has no field for a variable of %s", t, path))
	}
	fieldCache.Store(key, fieldList)
	return fieldList
}

func isTextType(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Uint64:
		return true
	}
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func (f requestFields) readBody(w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	for _, field := range f {
		switch {
		case field.Place != inBody:
		case field.Name == unreadBody:
			return nil, nil
		case field.Name == textBody:
			return httpapi.ReadBytes(w, r, bodyLimits(limit).Bytes)
		default:
			return httpapi.ReadBody(w, r, bodyLimits(limit).Bytes)
		}
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if n, _ := io.ReadFull(r.Body, make([]byte, 1)); n > 0 {
			return nil, problem.Invalid(inBody, "none", "some")
		}
	}
	return nil, nil
}

func (f requestFields) decode(r *http.Request, body []byte, limit int, dst reflect.Value) (err error) {
	query := r.URL.Query()
	for _, field := range f {
		target := dst.FieldByIndex(field.index)
		switch field.Place {
		case inPath:
			err = parseField(target, field.Name, []string{r.PathValue(field.Name)})
		case inQuery:
			err = parseField(target, field.Name, query[field.Name])
		case inHeader:
			err = parseField(target, field.Name, r.Header.Values(field.Name))
		case inBody:
			switch {
			case field.Name == unreadBody:
			case field.Name == textBody:
				target.SetString(string(body))
			case target.Kind() == reflect.Slice:
				target.SetBytes(body)
			default:
				err = canon.Unmarshal(body, target.Addr().Interface(), bodyLimits(limit))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func parseField(dst reflect.Value, name string, values []string) error {
	if list, ok := dst.Addr().Interface().(*[]string); ok {
		*list = values
		return nil
	}
	if len(values) == 0 || values[0] == "" && dst.Kind() != reflect.Pointer {
		return nil
	}
	text := values[0]
	if dst.Kind() == reflect.Pointer {
		dst.Set(reflect.New(dst.Type().Elem()))
		dst = dst.Elem()
	}
	if t, ok := dst.Addr().Interface().(encoding.TextUnmarshaler); ok {
		err := t.UnmarshalText([]byte(text))
		switch p := problem.AsError(err); {
		case err == nil:
			return nil
		case dst.Type() == reflect.TypeFor[identity.ID]():
			return problem.Invalid(name, "an id of 64 hex digits", httpapi.QuoteTruncated(text))
		default:
			return problem.Invalid(name, cmp.Or(p.Want, "another text"), httpapi.QuoteTruncated(text))
		}
	}
	switch dst.Kind() {
	case reflect.String:
		dst.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return problem.Invalid(name, "true or false", httpapi.QuoteTruncated(text))
		}
		dst.SetBool(text == "true")
	default:
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil || n == 0 {
			return problem.Invalid(name, "a positive number", httpapi.QuoteTruncated(text))
		}
		dst.SetUint(n)
	}
	return nil
}

func (s Spec) encodeRequest(in any) (path string, header http.Header, body []byte, err error) {
	path, header = s.Path, http.Header{}
	src, query := reflect.ValueOf(in).Elem(), url.Values{}
	for _, field := range s.Fields() {
		value := src.FieldByIndex(field.index)
		if field.Place == inBody {
			switch {
			case field.Name == unreadBody:
			case field.Name == textBody:
				body = []byte(value.String())
				header.Set("Content-Type", "application/octet-stream")
			case value.Kind() == reflect.Slice:
				body = append([]byte{}, value.Bytes()...)
			default:
				if body, err = json.Marshal(value.Interface()); err != nil {
					return "", nil, nil, problem.Wrap(problem.Usage, err, "the body is not JSON")
				}
			}
			continue
		}
		formatted := formatField(value, field.Place == inPath)
		if field.Place == inPath && len(formatted) == 0 {
			return "", nil, nil, problem.New(problem.Usage, "%s: expected one for the path, got none", field.Name)
		}
		for _, text := range formatted {
			switch field.Place {
			case inPath:
				if placeholder := "{" + field.Name + "...}"; strings.Contains(path, placeholder) {
					names := strings.Split(text, "/")
					for i, name := range names {
						if name == "" || name == "." || name == ".." {
							return "", nil, nil, problem.Invalid(field.Name, "names between single slashes, without . and ..", fmt.Sprintf("%.80q", text))
						}
						names[i] = url.PathEscape(name)
					}
					path = strings.Replace(path, placeholder, strings.Join(names, "/"), 1)
				}
				path = strings.Replace(path, "{"+field.Name+"}", escapeSegment(text), 1)
			case inQuery:
				query.Add(field.Name, text)
			case inHeader:
				header.Set(field.Name, text)
			}
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, header, body, nil
}

// escapeSegment quotes an empty text and a text of dots, because such a segment would change the
// path.
func escapeSegment(text string) string {
	if strings.Trim(text, ".") == "" {
		text = strconv.Quote(text)
	}
	return url.PathEscape(text)
}

func formatField(v reflect.Value, includeZero bool) []string {
	switch v.Kind() {
	case reflect.Slice:
		return v.Interface().([]string)
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		v, includeZero = v.Elem(), true
	}
	if v.IsZero() && !includeZero {
		return nil
	}
	if t, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, err := t.MarshalText()
		if err != nil {
			return nil
		}
		return []string{string(text)}
	}
	return []string{fmt.Sprint(v.Interface())}
}
