package dynamo

import (
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// The attribute names are short, because their bytes count towards the size of every item. A later
// layout would use other names.
const (
	attrPK      = "pk" // rows: the stream, as bytes; docs: the partition
	attrSK      = "sk" // rows: the position; docs: the sort
	attrWriteID = "a"
	attrData    = "d"
	attrVersion = "v"  // docs
	attrNumber  = "n"  // docs; 0 if absent
	attrIndexPK = "xp" // only docs with an index key
	attrIndexSK = "xs"
	attrExpires = "t" // only docs that expire: Unix seconds, which DynamoDB's TTL reads
)

const docsIndex = "listed"

type item = map[string]types.AttributeValue

func stringValue(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func uintValue(n uint64) types.AttributeValue   { return numberValue(strconv.FormatUint(n, 10)) }
func numberValue(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }

func bytesValue(b []byte) types.AttributeValue {
	if b == nil {
		b = []byte{} // the SDK would send nil as a missing value, which DynamoDB rejects
	}
	return &types.AttributeValueMemberB{Value: b}
}

func rowItemKey(s store.Stream, p uint64) item {
	return item{attrPK: bytesValue([]byte(s)), attrSK: uintValue(p)}
}

func rowItem(a store.Append) item {
	it := rowItemKey(a.Stream, a.Position)
	it[attrWriteID] = bytesValue(a.WriteID[:])
	it[attrData] = bytesValue(a.Data)
	return it
}

func docItemKey(k store.Key) item {
	return item{attrPK: stringValue(k.Partition), attrSK: stringValue(k.Sort)}
}

func docItem(p store.Put) item {
	it := docItemKey(p.Key)
	it[attrVersion] = uintValue(p.IfVersion + 1)
	it[attrWriteID] = bytesValue(p.WriteID[:])
	it[attrData] = bytesValue(p.Data)
	if p.Number != 0 {
		it[attrNumber] = numberValue(strconv.FormatInt(p.Number, 10))
	}
	if p.Index != (store.Key{}) {
		it[attrIndexPK], it[attrIndexSK] = stringValue(p.Index.Partition), stringValue(p.Index.Sort)
	}
	if !p.Expires.IsZero() {
		it[attrExpires] = uintValue(uint64(p.Expires.Unix()))
	}
	return it
}

func parseRow(it item) (store.Row, error) {
	r := itemReader{item: it}
	row := store.Row{Position: r.uint(attrSK), WriteID: r.writeID(), Data: r.bytes(attrData)}
	if row.Position == 0 {
		r.recordError(attrSK, "a position from 1")
	}
	return row, r.err
}

func ParseStreamRow(it map[string]types.AttributeValue) (store.Stream, store.Row, error) {
	r := itemReader{item: it}
	stream := store.Stream(r.bytes(attrPK))
	if r.err != nil {
		return "", store.Row{}, r.err
	}
	row, err := parseRow(it)
	return stream, row, err
}

func parseDoc(it item) (store.Doc, error) {
	r := itemReader{item: it}
	doc := store.Doc{
		Key:     store.Key{Partition: r.text(attrPK), Sort: r.text(attrSK)},
		Version: r.uint(attrVersion),
	}
	// A document created by Add has neither attribute.
	if r.has(attrWriteID) || r.has(attrData) {
		doc.WriteID, doc.Data = r.writeID(), r.bytes(attrData)
	}
	if r.has(attrNumber) {
		doc.Number = r.int(attrNumber)
	}
	if r.has(attrIndexPK) {
		doc.Index = store.Key{Partition: r.text(attrIndexPK), Sort: r.text(attrIndexSK)}
	}
	if r.has(attrExpires) {
		doc.Expires = time.Unix(r.int(attrExpires), 0).UTC()
	}
	return doc, r.err
}

type itemReader struct {
	item item
	err  error
}

func (r *itemReader) has(name string) bool { return r.item[name] != nil }

func (r *itemReader) recordError(name, want string) {
	if r.err == nil {
		r.err = &problem.Error{Kind: problem.Damaged, Field: "attribute " + name, Want: want,
			Got: fmt.Sprintf("%T", r.item[name])}
	}
}

func (r *itemReader) text(name string) string {
	v, ok := r.item[name].(*types.AttributeValueMemberS)
	if !ok {
		r.recordError(name, "a string")
		return ""
	}
	return v.Value
}

func (r *itemReader) bytes(name string) []byte {
	v, ok := r.item[name].(*types.AttributeValueMemberB)
	if !ok {
		r.recordError(name, "bytes")
		return nil
	}
	return v.Value
}

func (r *itemReader) writeID() (a store.WriteID) {
	if copy(a[:], r.bytes(attrWriteID)) != len(a) {
		r.recordError(attrWriteID, "16 bytes")
	}
	return a
}

func (r *itemReader) number(name string) string {
	v, ok := r.item[name].(*types.AttributeValueMemberN)
	if !ok {
		r.recordError(name, "a number")
		return ""
	}
	return v.Value
}

func (r *itemReader) uint(name string) uint64 {
	n, err := strconv.ParseUint(r.number(name), 10, 64)
	if err != nil {
		r.recordError(name, "a whole number from 0")
	}
	return n
}

func (r *itemReader) int(name string) int64 {
	n, err := strconv.ParseInt(r.number(name), 10, 64)
	if err != nil {
		r.recordError(name, "a whole number of 64 bits")
	}
	return n
}
