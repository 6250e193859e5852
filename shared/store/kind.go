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

type Shape struct {
	// Name is the noun for one document, for example "payment".
	Name string
	// Partition and Sort are patterns for the key of a document. Each star stands for one part.
	Partition, Sort string
	Index           string
	Owner           OwnerKind
	Verify          Verification
}

// OwnerKind classifies the owner of a partition, whose id or name is the partition's first star.
type OwnerKind uint8

const (
	OwnedByHost OwnerKind = iota
	OwnedByVacant
	OwnedByAccount
	OwnedByTenant
)

type Verification uint8

const (
	// VerifySkip is for documents that are secret, short-lived or reproducible. The export omits them.
	VerifySkip Verification = iota + 1
	VerifyParse
	// VerifyWithRows also compares the documents with rows and other documents.
	VerifyWithRows
)

func (s Shape) Describe() Shape { return s }

func (s Shape) Key(parts ...string) Key {
	partition, parts := fillStars(s.Partition, parts)
	sort, parts := fillStars(s.Sort, parts)
	if len(parts) > 0 {
		panic("store: more parts than stars in " + s.Partition + " and " + s.Sort)
	}
	return Key{Partition: partition, Sort: sort}
}

func (s Shape) IndexKey(sort string, parts ...string) Key {
	partition, parts := fillStars(s.Index, parts)
	if len(parts) > 0 {
		panic("store: more parts than stars in " + s.Index)
	}
	return Key{Partition: partition, Sort: sort}
}

func (s Shape) Range(parts ...string) Range {
	partition, parts := fillStars(s.Partition, parts)
	if len(parts) > 0 {
		panic("store: more parts than stars in " + s.Partition)
	}
	r := Range{Partition: partition}
	if literal, _, hasStar := strings.Cut(s.Sort, "*"); literal != "" {
		r.Start, r.End = literal, literal+"\x00" // exactly one document
		if hasStar {
			r.End = literal[:len(literal)-1] + string(literal[len(literal)-1]+1)
		}
	}
	return r
}

func (s Shape) IndexRange(parts ...string) Range {
	return Range{Partition: s.IndexKey("", parts...).Partition, Index: true}
}

func (s Shape) HasRange(r Range) bool {
	pattern, rangeOf := s.Partition, s.Range
	if r.Index {
		pattern, rangeOf = s.Index, s.IndexRange
	}
	parts, ok := matchStars(pattern, r.Partition)
	return ok && pattern != "" && r == rangeOf(parts...)
}

func fillStars(pattern string, parts []string) (string, []string) {
	literal, rest, hasStar := strings.Cut(pattern, "*")
	if !hasStar {
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
	for ; hasStar; literal, rest, hasStar = strings.Cut(rest, "*") {
		b.WriteString(literal)
		b.WriteString(parts[0])
		parts = parts[1:]
	}
	b.WriteString(literal)
	return b.String(), parts
}

// Parts reverses Key. ok is false if k has another shape.
func (s Shape) Parts(k Key) (parts []string, ok bool) {
	partitionParts, ok := matchStars(s.Partition, k.Partition)
	if !ok {
		return nil, false
	}
	sortParts, ok := matchStars(s.Sort, k.Sort)
	return append(partitionParts, sortParts...), ok
}

func (s Shape) Matches(k Key) bool {
	_, ok := s.Parts(k)
	return ok
}

func (s Shape) HasPartition(partition string) bool {
	_, ok := matchStars(s.Partition, partition)
	return ok
}

// A star of the pattern ends where the literal after it first occurs.
func matchStars(pattern, text string) (parts []string, ok bool) {
	literal, rest, hasStar := strings.Cut(pattern, "*")
	if text, ok = strings.CutPrefix(text, literal); !ok || !hasStar {
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
	parts, ok = matchStars(rest, text[len(part):])
	return append([]string{part}, parts...), ok
}

// DocKind is a kind of document. Package documents lists all kinds for verification and the export.
type DocKind[T any] struct {
	Shape
	Codec[T]
	// KeyParts returns the key parts that v implies, or nil. Parse rejects a document under another
	// key.
	KeyParts   func(v T) []string
	CheckValue func(d Doc, v T) error
}

type Codec[T any] struct {
	Decode func(Doc) (T, error)
	Encode func(T) ([]byte, error)
	// Number returns the document's Number. It is nil if T does not contain the number.
	Number func(T) int64
}

type AnyDocKind struct {
	Shape
	Check func(Doc) error
}

// Any returns the kind without its type parameter. Code that does not depend on T has no type
// parameter, so that the program contains the code only once.
func (k *DocKind[T]) Any() AnyDocKind {
	s, decode, keyParts, checkValue := k.Shape, k.Decode, k.KeyParts, k.CheckValue
	return AnyDocKind{s, func(d Doc) error {
		_, err := parseDoc(&s, decode, keyParts, checkValue, d)
		return err
	}}
}

type Reader interface {
	Doc(ctx context.Context, k Key) (Doc, error)
}

// Parse decodes and checks a document. Its errors have kind Damaged.
func (k *DocKind[T]) Parse(d Doc) (T, error) {
	return parseDoc(&k.Shape, k.Decode, k.KeyParts, k.CheckValue, d)
}

func parseDoc[T any](s *Shape, decode func(Doc) (T, error), keyParts func(T) []string, checkValue func(Doc, T) error, d Doc) (T, error) {
	v, err := decode(d)
	var parts []string
	if err == nil && keyParts != nil {
		parts = keyParts(v)
	}
	if err == nil && checkValue != nil {
		err = checkValue(d, v)
	}
	if err = s.parseError(&d, parts, err); err != nil {
		var zero T
		return zero, err
	}
	return v, nil
}

// parseError adds the text of err to the message for clients only if err is a problem.Error.
func (s *Shape) parseError(d *Doc, keyParts []string, err error) error {
	if err == nil && keyParts != nil && s.Key(keyParts...) != d.Key {
		err = problem.New(problem.Damaged, "it belongs under another key")
	}
	var cause *problem.Error
	switch {
	case err == nil:
		return nil
	case d.Version == 0 && len(d.Data) == 0:
		return s.missingError(d.Key)
	case errors.As(err, &cause):
		return &problem.Error{Kind: problem.Damaged, Detail: fmt.Sprintf("the %s at %s is not readable: %s", s.Name, d.Key, cause.Text()), Err: cause.Err}
	}
	return problem.Wrap(problem.Damaged, err, "the %s at %s is not readable", s.Name, d.Key)
}

func (s *Shape) missingError(k Key) error {
	return problem.New(problem.Damaged, "the %s at %s is missing", s.Name, k)
}

func (k *DocKind[T]) Check(d Doc) error {
	_, err := parseDoc(&k.Shape, k.Decode, k.KeyParts, k.CheckValue, d)
	return err
}

func (k *DocKind[T]) Get(ctx context.Context, reader Reader, key Key) (v T, d Doc, err error) {
	if d, err = reader.Doc(ctx, key); err == nil && d.Version > 0 {
		v, err = parseDoc(&k.Shape, k.Decode, k.KeyParts, k.CheckValue, d)
	}
	return v, d, err
}

// Require reads a document that must exist. If it is absent, the error has kind Damaged.
func (k *DocKind[T]) Require(ctx context.Context, reader Reader, key Key) (v T, d Doc, err error) {
	if d, err = reader.Doc(ctx, key); err == nil && d.Version == 0 {
		err = k.Shape.missingError(key)
	}
	if err == nil {
		v, err = parseDoc(&k.Shape, k.Decode, k.KeyParts, k.CheckValue, d)
	}
	return v, d, err
}

// Put ignores the data of d.
func (k *DocKind[T]) Put(tx *Tx, d Doc, v T) {
	data, err := k.Encode(v)
	if k.Number != nil {
		d.Number = k.Number(v)
	}
	tx.putEncoded(k.Name, d, data, err)
}

func (t *Tx) putEncoded(name string, d Doc, data []byte, err error) {
	if err != nil {
		t.encodeErr = errors.Join(t.encodeErr, problem.Wrap(problem.Internal, err, "the %s at %s", name, d.Key))
		return
	}
	d.Data = data
	t.Put(d)
}

func (k *DocKind[T]) Each(ctx context.Context, lister Lister, r Range) iter.Seq2[T, error] {
	s, decode, keyParts, checkValue := k.Shape, k.Decode, k.KeyParts, k.CheckValue
	return func(yield func(T, error) bool) {
		for d, err := range Documents(ctx, lister, r) {
			var v T
			if err == nil {
				v, err = parseDoc(&s, decode, keyParts, checkValue, d)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// JSONCodec returns a codec for JSON objects with a "format" member. It ignores unknown members,
// because another process may run a newer version. An incompatible change needs a new format
// number.
func JSONCodec[T any](format int) Codec[T] {
	return Codec[T]{
		Decode: func(d Doc) (v T, err error) {
			err = decodeJSON(format, d.Data, &v)
			return v, err
		},
		Encode: func(v T) ([]byte, error) { return encodeJSON(format, v) },
	}
}

func formatMember(format int) []byte {
	return strconv.AppendInt([]byte(`{"format":`), int64(format), 10)
}

func decodeJSON(format int, data []byte, v any) error {
	if rest, ok := bytes.CutPrefix(data, formatMember(format)); !ok || len(rest) == 0 || rest[0] != ',' && rest[0] != '}' {
		var header struct {
			Format int `json:"format"`
		}
		if err := json.Unmarshal(data, &header); err != nil {
			return err
		}
		if err := CheckFormat(format, header.Format); err != nil {
			return err
		}
	}
	return json.Unmarshal(data, v)
}

func encodeJSON(format int, v any) ([]byte, error) {
	prefix := formatMember(format)
	b := bytes.NewBuffer(bytes.Clone(prefix))
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false) // escaping would change the bytes of signed parts
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	data := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	switch members := data[len(prefix):]; {
	case len(members) < 2 || members[0] != '{':
		return nil, errors.New("it is not an object")
	case members[1] == '}':
		return append(data[:len(prefix)], '}'), nil
	}
	data[len(prefix)] = ','
	return data, nil
}

func CheckFormat(want, got int) error {
	switch {
	case got == want:
		return nil
	case got > want:
		return problem.New(problem.Damaged, "it has format %d, and this vacancy reads format %d: a newer vacancy wrote it", got, want)
	case got > 0:
		return problem.New(problem.Damaged, "it has format %d, and this vacancy reads format %d: an older vacancy wrote it; use that vacancy, or start with another data directory", got, want)
	}
	return problem.New(problem.Damaged, "expected format %d, got %d", want, got)
}

func CountCodec() Codec[int64] {
	return Codec[int64]{
		Decode: func(d Doc) (int64, error) { return d.Number, nil },
		Encode: func(int64) ([]byte, error) { return nil, nil },
		Number: func(n int64) int64 { return n },
	}
}

func BytesCodec() Codec[[]byte] {
	return Codec[[]byte]{
		Decode: func(d Doc) ([]byte, error) { return d.Data, nil },
		Encode: func(b []byte) ([]byte, error) { return b, nil },
	}
}

func TextCodec() Codec[string] {
	return Codec[string]{
		Decode: func(d Doc) (string, error) { return string(d.Data), nil },
		Encode: func(s string) ([]byte, error) { return []byte(s), nil },
	}
}
