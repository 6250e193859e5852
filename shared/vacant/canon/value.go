package canon

import (
	"cmp"
	"slices"
	"strconv"
	"unicode/utf16"
)

// Value is a JSON value of any kind. Values are immutable, and the zero Value is null.
type Value struct {
	kind    Kind
	text    string
	items   []Value
	members []Member // sorted by the bytes of their keys, as CJ requires
}

type Member struct {
	Key   string
	Value Value
}

func Parse(data []byte, l Limits) (Value, error) {
	d := NewDecoder(data, l)
	v, err := d.Value()
	if err == nil {
		err = d.End()
	}
	if err != nil {
		return Value{}, err
	}
	return v, nil
}

// NewObject returns an object. The keys of members must be distinct.
func NewObject(members ...Member) Value {
	return Value{kind: Object, members: sortMembers(slices.Clone(members))}
}

func NewArray(items ...Value) Value { return Value{kind: Array, items: slices.Clone(items)} }

func NewBool(b bool) Value { return Value{kind: Bool, text: strconv.FormatBool(b)} }

// NewString returns a string. s must be valid UTF-8.
func NewString(s string) Value { return Value{kind: String, text: s} }

func NewInt(n int64) Value { return Value{kind: Int, text: strconv.FormatInt(n, 10)} }

func sortMembers(ms []Member) []Member {
	slices.SortFunc(ms, func(a, b Member) int { return cmp.Compare(a.Key, b.Key) })
	return ms
}

func (d *Decoder) Value() (Value, error) {
	v := Value{kind: d.Kind()}
	var err error
	switch v.kind {
	case Object:
		err = d.Object(func(key string) error {
			m, err := d.Value()
			v.members = append(v.members, Member{key, m})
			return err
		})
		sortMembers(v.members)
	case Array:
		err = d.Array(func(int) error {
			e, err := d.Value()
			v.items = append(v.items, e)
			return err
		})
	case String:
		v.text, err = d.readString()
	case Int:
		if v.text, err = d.readNumber(); v.text == "-0" {
			v.text = "0"
		}
	case Float:
		var f float64
		f, err = d.Float64()
		v.text = string(AppendFloat(nil, f))
	case Bool:
		var b bool
		b, err = d.Bool()
		v.text = strconv.FormatBool(b)
	default:
		err = d.Null()
	}
	return v, err
}

func (v Value) Kind() Kind { return max(v.kind, Null) }

func (v Value) Text() string {
	if v.kind != String {
		return ""
	}
	return v.text
}

func (v Value) Int64() (int64, bool) {
	n, err := strconv.ParseInt(v.text, 10, 64)
	return n, v.kind == Int && err == nil
}

func (v Value) Items() []Value { return v.items }

// Members returns the members of an object in CJ order. The caller must not change them.
func (v Value) Members() []Member { return v.members }

func (v Value) Get(key string) (Value, bool) {
	i, ok := slices.BinarySearchFunc(v.members, key, func(m Member, k string) int { return cmp.Compare(m.Key, k) })
	if !ok {
		return Value{}, false
	}
	return v.members[i].Value, true
}

func (v Value) AppendCJ(dst []byte) []byte { return v.appendWith(dst, AppendString) }

func (v Value) AppendASCII(dst []byte) []byte { return v.appendWith(dst, AppendStringASCII) }

// AppendJCS appends the canonical form of RFC 8785, which other protocols sign.
func (v Value) AppendJCS(dst []byte) []byte {
	switch v.kind {
	case Object:
		members := slices.Clone(v.members)
		slices.SortFunc(members, func(a, b Member) int {
			return slices.Compare(utf16.Encode([]rune(a.Key)), utf16.Encode([]rune(b.Key)))
		})
		dst = append(dst, '{')
		for i, m := range members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = m.Value.AppendJCS(append(AppendString(dst, m.Key), ':'))
		}
		return append(dst, '}')
	case Array:
		dst = append(dst, '[')
		for i, e := range v.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = e.AppendJCS(dst)
		}
		return append(dst, ']')
	case Int, Float:
		if f, err := strconv.ParseFloat(v.text, 64); err == nil {
			return appendECMA(dst, f)
		}
	}
	return v.AppendCJ(dst)
}

func (v Value) appendWith(dst []byte, appendQuoted func([]byte, string) []byte) []byte {
	switch v.kind {
	case Object:
		dst = append(dst, '{')
		for i, m := range v.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendQuoted(dst, m.Key), ':')
			dst = m.Value.appendWith(dst, appendQuoted)
		}
		return append(dst, '}')
	case Array:
		dst = append(dst, '[')
		for i, e := range v.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = e.appendWith(dst, appendQuoted)
		}
		return append(dst, ']')
	case String:
		return appendQuoted(dst, v.text)
	case Int, Float, Bool:
		return append(dst, v.text...)
	}
	return append(dst, "null"...)
}
