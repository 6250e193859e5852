package canon

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Unmarshal decodes one document into v, a pointer to a struct with json tags. It is as strict as
// [Decoder], and refuses unknown members unless Limits.SkipUnknown is true. If a member is absent,
// its field is unchanged, so v can hold defaults.
//
// The tag "canon" contains options, for example `canon:"required,max=80"`:
//
//   - required: the member must be present
//   - null: null is allowed and sets the zero value
//   - max=N: at most N bytes in a string, or N elements in a list or map
//   - min=N: an integer of at least N, or a string of at least N bytes
//   - secret: errors do not quote the value
func Unmarshal(data []byte, v any, l Limits) error {
	dst := reflect.ValueOf(v)
	if dst.Kind() != reflect.Pointer || dst.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("canon: Unmarshal into a %T, which does not point to a struct", v))
	}
	u := &unmarshaler{dec: NewDecoder(data, l)}
	if k := u.dec.Kind(); k != Object {
		if k == Invalid {
			return u.dec.noValueError()
		}
		return problem.New(problem.NotJSON, "body: expected one JSON object, got %s", k)
	}
	if err := u.decodeObject(dst.Elem()); err != nil {
		return err
	}
	return u.dec.End()
}

// UnmarshalSigned decodes a signed document of at most limit bytes. document is its name in errors.
// Unknown members are refused, because the signature does not cover them.
func UnmarshalSigned(document string, data []byte, v any, limit int) error {
	if len(data) > limit {
		return &problem.Error{Kind: problem.TooLarge, Field: document, Want: fmt.Sprintf("at most %d bytes", limit), Got: strconv.Itoa(len(data))}
	}
	limits := DefaultLimits()
	limits.Bytes = limit
	err := Unmarshal(data, v, limits)
	if err == nil {
		return nil
	}
	p := *problem.AsError(err)
	switch p.Got {
	case unknownMember:
		if strings.HasPrefix(p.Field, `"`) {
			p.Field, _ = strconv.Unquote(p.Field)
		}
		p.Detail = fmt.Sprintf("%.40q is not a member of a %s", p.Field, document)
	case missingMember:
		p.Detail = p.Field + ": expected, but missing"
	}
	if p.Kind != problem.NotJSON {
		p.Kind = problem.Malformed
	}
	return problem.WithPlace(p.Kind, document, &p)
}

const (
	unknownMember = "another member"
	missingMember = "nothing"
)

// Decode decodes the next value into v, a pointer, like Unmarshal.
func (d *Decoder) Decode(v any) error {
	u := &unmarshaler{dec: d}
	keys := d.keys
	d.keys = keys[len(keys):]
	err := u.decodeValue(reflect.ValueOf(v).Elem(), options{})
	d.keys = keys
	return err
}

// Unmarshaler is a type that decodes itself from JSON.
type Unmarshaler interface {
	UnmarshalCanon(d *Decoder) error
}

// JSONDescriber is a type that describes its JSON values in error messages.
type JSONDescriber interface{ DescribeJSON() string }

type unmarshaler struct {
	dec         *Decoder
	path        []pathStep
	lastPathErr error // error that already has its complete path
}

type pathStep struct {
	key       string
	isElement bool
	index     int
}

func (u *unmarshaler) currentPath() string {
	var b strings.Builder
	for _, s := range u.path {
		switch {
		case s.isElement:
			fmt.Fprintf(&b, "[%d]", s.index)
		case b.Len() > 0:
			b.WriteString("." + quoteName(s.key))
		default:
			b.WriteString(quoteName(s.key))
		}
	}
	if b.Len() == 0 {
		return "body"
	}
	return b.String()
}

func (u *unmarshaler) pathError(want, got string) error {
	u.lastPathErr = problem.Invalid(u.currentPath(), want, got)
	return u.lastPathErr
}

func (u *unmarshaler) addPath(err error) error {
	if problem.AsError(err).Kind != problem.Malformed {
		return err // the error is about the complete document
	}
	u.lastPathErr = problem.AtPath(u.currentPath(), err)
	return u.lastPathErr
}

func (u *unmarshaler) mismatchError(o options, want string) error {
	if o.secret && u.dec.Kind() != Invalid {
		return u.pathError(want, u.dec.Kind().String())
	}
	err := u.dec.MismatchError(want)
	if e := problem.AsError(err); e.Want == want {
		return u.pathError(want, e.Got)
	}
	return err
}

func (u *unmarshaler) decodeObject(dst reflect.Value) error {
	fields := loadFields(dst.Type())
	found := make([]bool, len(fields.list))
	err := u.dec.Object(func(key string) error {
		u.path = append(u.path, pathStep{key: key})
		i, isKnown := fields.byName[key]
		if !isKnown && u.dec.limits.SkipUnknown {
			u.path = u.path[:len(u.path)-1]
			return u.dec.Skip()
		}
		if !isKnown {
			return u.pathError(fields.names, unknownMember)
		}
		f := &fields.list[i]
		found[i] = true
		err := u.decodeMember(dst.FieldByIndex(f.index), f.options)
		u.path = u.path[:len(u.path)-1]
		return err
	})
	if err != nil {
		if err != u.lastPathErr && problem.AsError(err).Want == wantKeyOnce {
			return u.addPath(err)
		}
		return err
	}
	for i := range fields.list {
		if f := &fields.list[i]; f.required && !found[i] {
			u.path = append(u.path, pathStep{key: f.name})
			return u.pathError(describeType(dst.FieldByIndex(f.index).Type()), missingMember)
		}
	}
	return nil
}

func (u *unmarshaler) decodeMember(dst reflect.Value, o options) error {
	if u.dec.Kind() == Null && (o.nullable || u.dec.limits.Lenient && !o.required) {
		if o.nullable {
			dst.SetZero()
		}
		return u.dec.Null()
	}
	return u.decodeValue(dst, o)
}

var (
	rawType  = reflect.TypeFor[json.RawMessage]()
	timeType = reflect.TypeFor[time.Time]()
)

func (u *unmarshaler) decodeValue(dst reflect.Value, o options) error {
	if dst.Kind() == reflect.Pointer {
		dst.Set(reflect.New(dst.Type().Elem())) // other values may share the default's pointer
		return u.decodeValue(dst.Elem(), o)
	}
	if r, ok := dst.Addr().Interface().(Unmarshaler); ok {
		return u.readRelative(r.UnmarshalCanon)
	}
	switch dst.Type() {
	case rawType:
		if u.dec.Kind() == Null {
			return u.mismatchError(o, describeType(rawType))
		}
		return u.readRelative(func(d *Decoder) error {
			raw, err := d.Raw()
			dst.SetBytes(append([]byte(nil), raw...))
			return err
		})
	case timeType:
		return u.decodeText(o, "a time such as 2026-12-31T00:00:00Z", func(s string) error {
			timestamp, err := time.Parse(time.RFC3339, s)
			dst.Set(reflect.ValueOf(timestamp))
			return err
		})
	}
	if t, ok := dst.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.decodeText(o, String.String(), func(s string) error { return t.UnmarshalText([]byte(s)) })
	}
	switch dst.Kind() {
	case reflect.String:
		return u.decodeText(o, String.String(), func(s string) error { dst.SetString(s); return nil })
	case reflect.Bool:
		if u.dec.Kind() != Bool {
			return u.mismatchError(o, Bool.String())
		}
		b, err := u.dec.Bool()
		dst.SetBool(b)
		return err
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := u.decodeInteger(o, describeType(dst.Type()))
		if err == nil && o.min != nil && n < int64(*o.min) {
			return u.pathError(fmt.Sprintf("at least %d", *o.min), strconv.FormatInt(n, 10))
		}
		if err == nil && dst.OverflowInt(n) {
			return u.pathError(fmt.Sprintf("an integer of at most %d bits", dst.Type().Bits()), strconv.FormatInt(n, 10))
		}
		dst.SetInt(n)
		return err
	case reflect.Float64:
		if k := u.dec.Kind(); k != Int && k != Float {
			return u.mismatchError(o, Float.String())
		}
		f, err := u.dec.Float64()
		dst.SetFloat(f)
		return u.rangeError(o, err)
	case reflect.Struct:
		if u.dec.Kind() != Object {
			return u.mismatchError(o, Object.String())
		}
		return u.decodeObject(dst)
	case reflect.Slice:
		return u.decodeList(dst, o)
	case reflect.Map:
		return u.decodeMap(dst, o)
	}
	panic(fmt.Sprintf("canon: Unmarshal into a field of type %s", dst.Type()))
}

func (u *unmarshaler) readRelative(read func(*Decoder) error) error {
	keys := u.dec.keys
	u.dec.keys = keys[len(keys):] // errors of read name members relative to this value
	err := read(u.dec)
	u.dec.keys = keys
	if err != nil {
		return u.addPath(err)
	}
	return nil
}

func (u *unmarshaler) decodeText(o options, want string, set func(string) error) error {
	if u.dec.Kind() != String {
		return u.mismatchError(o, want)
	}
	s, err := u.dec.String()
	switch {
	case err != nil && o.secret:
		return u.pathError("a string of JSON", "another text")
	case err != nil:
		return err
	case o.min != nil && len(s) < *o.min:
		return u.pathError(fmt.Sprintf("at least %d bytes", *o.min), fmt.Sprintf("%d bytes", len(s)))
	case o.max > 0 && len(s) > o.max:
		return u.pathError(fmt.Sprintf("at most %d bytes", o.max), fmt.Sprintf("%d bytes", len(s)))
	}
	if err := set(s); err != nil {
		e := problem.AsError(err)
		switch got := fmt.Sprintf("%.80q", s); {
		case o.secret:
			return u.pathError(want, "another text")
		case e.Want != "":
			return u.pathError(e.Want, got)
		case want != String.String():
			return u.pathError(want, got)
		}
		return u.addPath(problem.New(problem.Malformed, "%s", e.Text()))
	}
	return nil
}

func (u *unmarshaler) decodeInteger(o options, want string) (int64, error) {
	if !u.dec.canBeInteger() {
		return 0, u.mismatchError(o, want)
	}
	n, err := u.dec.Int64()
	return n, u.rangeError(o, err)
}

func (u *unmarshaler) rangeError(o options, err error) error {
	if err != nil {
		// An error without a Want is about the complete document.
		if want := problem.AsError(err).Want; want != "" {
			return u.mismatchError(o, want)
		}
	}
	return err
}

func (u *unmarshaler) decodeList(dst reflect.Value, o options) error {
	if u.dec.Kind() != Array {
		return u.mismatchError(o, Array.String())
	}
	maxLen := o.max
	o.max, o.min = 0, nil
	dst.SetZero() // other values may share the default's elements
	depth := len(u.path)
	u.path = append(u.path, pathStep{isElement: true})
	err := u.dec.Array(func(i int) error {
		if maxLen > 0 && i >= maxLen {
			u.path = u.path[:depth]
			return u.pathError(fmt.Sprintf("at most %d", maxLen), "more")
		}
		u.path[depth].index = i
		item := reflect.New(dst.Type().Elem()).Elem()
		err := u.decodeValue(item, o)
		dst.Set(reflect.Append(dst, item))
		return err
	})
	if err == nil {
		u.path = u.path[:depth]
		if dst.IsNil() {
			dst.Set(reflect.MakeSlice(dst.Type(), 0, 0)) // an empty list, not an absent list
		}
	}
	return err
}

func (u *unmarshaler) decodeMap(dst reflect.Value, o options) error {
	if u.dec.Kind() != Object {
		return u.mismatchError(o, Object.String())
	}
	maxLen := o.max
	o.max, o.min = 0, nil
	dst.Set(reflect.MakeMap(dst.Type()))
	err := u.dec.Object(func(key string) error {
		if maxLen > 0 && dst.Len() >= maxLen {
			return u.pathError(fmt.Sprintf("at most %d", maxLen), "more")
		}
		u.path = append(u.path, pathStep{key: key})
		name := reflect.New(dst.Type().Key()).Elem()
		if t, ok := name.Addr().Interface().(encoding.TextUnmarshaler); ok {
			if err := t.UnmarshalText([]byte(key)); err != nil {
				return u.addPath(problem.New(problem.Malformed, "%s", problem.AsError(err).Text()))
			}
		} else {
			name.SetString(key)
		}
		if dst.MapIndex(name).IsValid() {
			return u.pathError(wantKeyOnce, "it twice")
		}
		item := reflect.New(dst.Type().Elem()).Elem()
		if err := u.decodeValue(item, o); err != nil {
			return err
		}
		dst.SetMapIndex(name, item)
		u.path = u.path[:len(u.path)-1]
		return nil
	})
	if err != nil && err != u.lastPathErr && problem.AsError(err).Want == wantKeyOnce {
		return u.addPath(err)
	}
	return err
}

func describeType(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if describer, ok := reflect.Zero(t).Interface().(JSONDescriber); ok {
		return describer.DescribeJSON()
	}
	switch {
	case t == rawType, reflect.PointerTo(t).Implements(reflect.TypeFor[Unmarshaler]()):
		return "a value"
	case t == timeType, reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return String.String()
	}
	return map[reflect.Kind]Kind{
		reflect.String: String, reflect.Bool: Bool, reflect.Float64: Float, reflect.Struct: Object, reflect.Map: Object, reflect.Slice: Array,
		reflect.Int: Int, reflect.Int8: Int, reflect.Int16: Int, reflect.Int32: Int, reflect.Int64: Int,
	}[t.Kind()].String()
}

type options struct {
	required, nullable, secret bool
	max                        int // no limit if zero
	min                        *int
}

type field struct {
	name  string
	index []int
	options
}

type fields struct {
	list   []field
	byName map[string]int
	names  string // for error messages
}

var fieldCache sync.Map // map[reflect.Type]*fields

func loadFields(t reflect.Type) *fields {
	if f, ok := fieldCache.Load(t); ok {
		return f.(*fields)
	}
	f := &fields{byName: map[string]int{}}
	f.addStruct(t, nil)
	names := make([]string, len(f.list))
	for i, member := range f.list {
		f.byName[member.name] = i
		names[i] = member.name
	}
	switch n := len(names); n {
	case 0:
		f.names = "no member"
	case 1:
		f.names = names[0]
	default:
		f.names = strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
	cached, _ := fieldCache.LoadOrStore(t, f)
	return cached.(*fields)
}

func (f *fields) addStruct(t reflect.Type, index []int) {
	for i := range t.NumField() {
		structField := t.Field(i)
		tag, tagged := structField.Tag.Lookup("json")
		fieldIndex := append(index[:len(index):len(index)], i) // the capacity forces a copy for each field
		name, _, _ := strings.Cut(tag, ",")
		switch {
		case structField.Anonymous && !tagged:
			f.addStruct(structField.Type, fieldIndex)
		case structField.IsExported() && name != "-" && name != "":
			f.list = append(f.list, field{name, fieldIndex, parseOptions(structField)})
		}
	}
}

func parseOptions(f reflect.StructField) (o options) {
	for option := range strings.SplitSeq(f.Tag.Get("canon"), ",") {
		switch name, value, _ := strings.Cut(option, "="); name {
		case "":
		case "required":
			o.required = true
		case "null":
			o.nullable = true
		case "secret":
			o.secret = true
		case "max", "min":
			n, err := strconv.Atoi(value)
			if err != nil {
				panic(fmt.Sprintf("canon: the tag of %s: %s=%s", f.Name, name, value))
			}
			if name == "max" {
				o.max = n
			} else {
				o.min = &n
			}
		default:
			panic(fmt.Sprintf("canon: the tag of %s has the option %q", f.Name, name))
		}
	}
	return o
}
