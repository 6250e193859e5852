package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Shape describes a kind of document, except its content.
type Shape struct {
	// Name names one document, such as "payment".
	Name string
	// Partition and Sort are the two parts of the keys. Each star stands for what Key puts
	// in its place.
	Partition, Sort string
	// Index is the partition of the sparse index that lists the documents; "" if none does.
	Index string
	// Of tells the kind of owner that a partition has.
	Of Owner
	// Verify tells how vacancy verify checks the documents.
	Verify Verify
}

// Owner is a kind of owner. The first star of a partition is the owner's id or name.
type Owner uint8

// The owners of documents.
const (
	OfHost Owner = iota // also of partitions whose star is something else
	OfVacant
	OfAccount
	OfTenant
)

// Verify tells how vacancy verify checks the documents of a kind.
type Verify uint8

// What verify does. The export serves the documents that verify reads, and no others. Every
// kind says it: the zero Verify is none of them.
const (
	// Unread documents are secret, short-lived or can be made again.
	Unread Verify = iota + 1
	// Alone: verify reads all that an owner has, and reports those that Parse refuses.
	Alone
	// Joined: package fsck compares the documents with rows and with other documents.
	Joined
)

// Describe returns s, of whatever Kind it is.
func (s Shape) Describe() Shape { return s }

// Key returns the key of a document. There is a part for each star, the partition's
// stars first.
func (s Shape) Key(parts ...string) Key {
	partition, parts := fill(s.Partition, parts)
	sort, parts := fill(s.Sort, parts)
	if len(parts) > 0 {
		panic("store: more parts than stars in " + s.Partition + " and " + s.Sort)
	}
	return Key{Partition: partition, Sort: sort}
}

// Listed is the place of a document in the sparse index. There is a part for each star of
// Index.
func (s Shape) Listed(sort string, parts ...string) Key {
	partition, parts := fill(s.Index, parts)
	if len(parts) > 0 {
		panic("store: more parts than stars in " + s.Index)
	}
	return Key{Partition: partition, Sort: sort}
}

// All is the range of the documents in a partition. There is a part for each star of it.
func (s Shape) All(parts ...string) Range {
	partition, parts := fill(s.Partition, parts)
	if len(parts) > 0 {
		panic("store: more parts than stars in " + s.Partition)
	}
	r := Range{Partition: partition}
	if literal, _, more := strings.Cut(s.Sort, "*"); literal != "" {
		r.First, r.Last = literal, literal+"\x00" // the one document
		if more {
			r.Last = literal[:len(literal)-1] + string(literal[len(literal)-1]+1)
		}
	}
	return r
}

// Indexed is the range of the documents in a partition of the sparse index. There is a part
// for each star of Index.
func (s Shape) Indexed(parts ...string) Range {
	return Range{Partition: s.Listed("", parts...).Partition, Index: true}
}

// Ranges reports whether r is All or Indexed of some parts.
func (s Shape) Ranges(r Range) bool {
	of, whole := s.Partition, s.All
	if r.Index {
		of, whole = s.Index, s.Indexed
	}
	parts, ok := match(of, r.Partition)
	return ok && of != "" && r == whole(parts...)
}

// fill replaces the stars of a pattern, and returns the parts that are left.
func fill(pattern string, parts []string) (string, []string) {
	literal, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern, parts
	}
	if n := strings.Count(pattern, "*"); n > len(parts) {
		panic("store: fewer parts than stars in " + pattern)
	}
	if !strings.Contains(rest, "*") {
		return literal + parts[0] + rest, parts[1:]
	}
	var b strings.Builder
	b.Grow(len(pattern) + 2*identity.Size)
	for ; star; literal, rest, star = strings.Cut(rest, "*") {
		b.WriteString(literal)
		b.WriteString(parts[0])
		parts = parts[1:]
	}
	b.WriteString(literal)
	return b.String(), parts
}

// Parts is the inverse of Key: what each star stands for in a key. ok is false for a key of
// another shape.
func (s Shape) Parts(k Key) (parts []string, ok bool) {
	of, ok := match(s.Partition, k.Partition)
	if !ok {
		return nil, false
	}
	sorted, ok := match(s.Sort, k.Sort)
	return append(of, sorted...), ok
}

// Matches reports whether a key is of this shape.
func (s Shape) Matches(k Key) bool {
	_, ok := s.Parts(k)
	return ok
}

// Within reports whether the documents of this shape are in a partition.
func (s Shape) Within(partition string) bool {
	_, ok := match(s.Partition, partition)
	return ok
}

// match returns the texts that the stars of a pattern match in a text. If literal text
// follows a star, the match ends where that text first occurs.
func match(pattern, text string) (parts []string, ok bool) {
	literal, rest, star := strings.Cut(pattern, "*")
	if text, ok = strings.CutPrefix(text, literal); !ok || !star {
		return nil, ok && text == ""
	}
	if rest == "" {
		return []string{text}, true
	}
	next, _, _ := strings.Cut(rest, "*")
	part, _, found := strings.Cut(text, next)
	if !found {
		return nil, false
	}
	parts, ok = match(rest, text[len(part):])
	return append([]string{part}, parts...), ok
}

// Kind is a kind of document: where its documents are and what they hold. It is declared
// once, in the package that keeps such documents, and listed in package documents, over
// which verify, export and the grants of functions range.
type Kind[T any] struct {
	Shape
	Codec[T]
	// Own returns the parts of the key under which v belongs; nil if v does not tell. Parse
	// refuses a document that is under another key.
	Own func(v T) []string
	// Valid refuses what decodes and still cannot be; nil refuses nothing.
	Valid func(d Doc, v T) error
}

// Codec encodes a T in a document.
type Codec[T any] struct {
	Decode func(Doc) (T, error)
	Encode func(T) ([]byte, error)
	// Number returns the document's Number. It is nil if the number is not part
	// of T.
	Number func(T) int64
}

// AnyKind is a Kind of whatever T.
type AnyKind struct {
	Shape
	Check func(Doc) error // Kind.Check
}

// Any returns the kind without its T.
//
// There are many Kinds, and a program has the methods of each. So what does not need T is in
// functions that have none.
func (k *Kind[T]) Any() AnyKind {
	s, decode, own, valid := k.Shape, k.Decode, k.Own, k.Valid
	return AnyKind{s, func(d Doc) error {
		_, err := parse(&s, decode, own, valid, d)
		return err
	}}
}

// Reader reads documents: a Store, a View or a Tx.
type Reader interface {
	Doc(ctx context.Context, k Key) (Doc, error)
}

// Parse reads what a document holds. The error is of kind Damaged, and names the document.
func (k *Kind[T]) Parse(d Doc) (T, error) { return parse(&k.Shape, k.Decode, k.Own, k.Valid, d) }

func parse[T any](s *Shape, decode func(Doc) (T, error), own func(T) []string, valid func(Doc, T) error, d Doc) (T, error) {
	v, err := decode(d)
	var parts []string
	if err == nil && own != nil {
		parts = own(v)
	}
	if err == nil && valid != nil {
		err = valid(d, v)
	}
	if err = s.readable(&d, parts, err); err != nil {
		var none T
		return none, err
	}
	return v, nil
}

// readable is the error of a document that decoding refused, or that belongs under the key of
// other parts; own is nil if it does not tell. A reason that is a problem is for clients, too.
func (s *Shape) readable(d *Doc, own []string, err error) error {
	if err == nil && own != nil && s.Key(own...) != d.Key {
		err = problem.New(problem.Damaged, "it belongs under another key")
	}
	var why *problem.Error
	switch {
	case err == nil:
		return nil
	case d.Version == 0 && len(d.Data) == 0:
		return s.missing(d.Key)
	case errors.As(err, &why):
		return &problem.Error{Kind: problem.Damaged, Detail: fmt.Sprintf("the %s at %s is not readable: %s", s.Name, d.Key, why.Text()), Err: why.Err}
	}
	return problem.Wrap(problem.Damaged, err, "the %s at %s is not readable", s.Name, d.Key)
}

func (s *Shape) missing(k Key) error {
	return problem.New(problem.Damaged, "the %s at %s is missing", s.Name, k)
}

// Check is Parse without what it returns.
func (k *Kind[T]) Check(d Doc) error {
	_, err := parse(&k.Shape, k.Decode, k.Own, k.Valid, d)
	return err
}

// Get reads a document. One that is absent has Version 0 and holds the zero T.
func (k *Kind[T]) Get(ctx context.Context, from Reader, key Key) (v T, d Doc, err error) {
	if d, err = from.Doc(ctx, key); err == nil && d.Version > 0 {
		v, err = parse(&k.Shape, k.Decode, k.Own, k.Valid, d)
	}
	return v, d, err
}

// Need is Get for a document that must exist: the error is of kind Damaged if it is absent.
func (k *Kind[T]) Need(ctx context.Context, from Reader, key Key) (v T, d Doc, err error) {
	if d, err = from.Doc(ctx, key); err == nil && d.Version == 0 {
		err = k.Shape.missing(key)
	}
	if err == nil {
		v, err = parse(&k.Shape, k.Decode, k.Own, k.Valid, d)
	}
	return v, d, err
}

// Put writes v as a document, like Tx.Put: d is the document without its data. If v cannot
// be written, the Update ends with the error.
func (k *Kind[T]) Put(tx *Tx, d Doc, v T) {
	data, err := k.Encode(v)
	if k.Number != nil {
		d.Number = k.Number(v)
	}
	tx.put(k.Name, d, data, err)
}

// put is Put of encoded data; err is why there is none.
func (t *Tx) put(name string, d Doc, data []byte, err error) {
	if err != nil {
		t.failed = errors.Join(t.failed, problem.Wrap(problem.Internal, err, "the %s at %s", name, d.Key))
		return
	}
	d.Data = data
	t.Put(d)
}

// Each returns the documents of a range with what they hold. It ends after the first error.
func (k *Kind[T]) Each(ctx context.Context, from Lister, r Range) iter.Seq2[T, error] {
	s, decode, own, valid := k.Shape, k.Decode, k.Own, k.Valid
	return func(yield func(T, error) bool) {
		for d, err := range All(ctx, from, r) {
			var v T
			if err == nil {
				v, err = parse(&s, decode, own, valid, d)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// JSON is the codec of documents that are a JSON object: the members of T, and before them
// the format. Members that T does not have are ignored, because a newer function may have
// written them while an older one still runs; a format that changes what they mean has
// another number.
func JSON[T any](format int) Codec[T] {
	return Codec[T]{
		Decode: func(d Doc) (v T, err error) {
			err = decodeJSON(format, d.Data, &v)
			return v, err
		},
		Encode: func(v T) ([]byte, error) { return encodeJSON(format, v) },
	}
}

// firstMember is how an object of a format begins.
func firstMember(format int) []byte {
	return strconv.AppendInt([]byte(`{"format":`), int64(format), 10)
}

func decodeJSON(format int, data []byte, v any) error {
	// The member is first in what encodeJSON writes, and needs no second pass then.
	if rest, ok := bytes.CutPrefix(data, firstMember(format)); !ok || len(rest) == 0 || rest[0] != ',' && rest[0] != '}' {
		var is struct {
			Format int `json:"format"`
		}
		if err := json.Unmarshal(data, &is); err != nil {
			return err
		}
		if err := CheckFormat(format, is.Format); err != nil {
			return err
		}
	}
	return json.Unmarshal(data, v)
}

func encodeJSON(format int, v any) ([]byte, error) {
	first := firstMember(format)
	b := bytes.NewBuffer(bytes.Clone(first))
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false) // signed parts keep their bytes
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	data := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	switch members := data[len(first):]; {
	case len(members) < 2 || members[0] != '{':
		return nil, errors.New("it is not an object")
	case members[1] == '}':
		return append(data[:len(first)], '}'), nil
	}
	data[len(first)] = ','
	return data, nil
}

// CheckFormat compares the format of a document with the one that this program reads.
func CheckFormat(want, got int) error {
	switch {
	case got == want:
		return nil
	case got > want:
		return problem.New(problem.Damaged, "it has format %d, and this Vacancy reads %d: a newer one wrote it", got, want)
	case got > 0:
		return problem.New(problem.Damaged, "it has format %d, and this Vacancy reads %d: an older one wrote it; read it with that one, or begin with another data directory", got, want)
	}
	return problem.New(problem.Damaged, "expected format %d, got %d", want, got)
}

// Count is the codec of documents whose Number is all that they have.
func Count() Codec[int64] {
	return Codec[int64]{
		Decode: func(d Doc) (int64, error) { return d.Number, nil },
		Encode: func(int64) ([]byte, error) { return nil, nil },
		Number: func(n int64) int64 { return n },
	}
}

// Bytes is the codec of documents whose bytes mean something elsewhere.
func Bytes() Codec[[]byte] {
	return Codec[[]byte]{
		Decode: func(d Doc) ([]byte, error) { return d.Data, nil },
		Encode: func(b []byte) ([]byte, error) { return b, nil },
	}
}

// Text is the codec of documents that are a text.
func Text() Codec[string] {
	return Codec[string]{
		Decode: func(d Doc) (string, error) { return string(d.Data), nil },
		Encode: func(s string) ([]byte, error) { return []byte(s), nil },
	}
}
