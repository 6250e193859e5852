package bleve

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"

	index "github.com/blevesearch/bleve_index_api"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
)

const (
	idField     = "_id" // defined by scorch
	columnField = "c"   // doc value with score, price and FirstSeq
	proofField  = "v"   // stored texts of the entry, which verify uncertain matches
)

type document struct {
	entry  *search.Entry
	fields []*field
}

func newDocument(e *search.Entry) *document {
	return &document{entry: e, fields: []*field{
		{name: termField, options: index.IndexField | index.SkipFreqNorm, analyse: func() index.TokenFrequencies { return entryTerms(e) }},
		{name: columnField, options: index.IndexField | index.DocValues | index.SkipFreqNorm,
			analyse: singleTerm(encodeColumn(e))},
		{name: proofField, options: index.StoreField, value: encodeProof(e)},
	}}
}

func (d *document) ID() string { return string(d.entry.ID[:]) }

func (d *document) AddIDField() {
	d.fields = append(d.fields, &field{name: idField, options: index.IndexField | index.StoreField | index.SkipFreqNorm,
		value: d.entry.ID[:], analyse: singleTerm(d.ID())})
}

func (d *document) VisitFields(visit index.FieldVisitor) {
	for _, f := range d.fields {
		visit(f)
	}
}

func (d *document) VisitComposite(index.CompositeFieldVisitor) {}
func (d *document) HasComposite() bool                         { return false }
func (d *document) Indexed() bool                              { return true }
func (d *document) Size() int                                  { return int(d.StoredFieldsBytes()) }
func (d *document) NumPlainTextBytes() uint64                  { return d.StoredFieldsBytes() }

func (d *document) StoredFieldsBytes() (n uint64) {
	for _, f := range d.fields {
		n += uint64(len(f.value))
	}
	return n
}

type field struct {
	name    string
	options index.FieldIndexingOptions
	value   []byte
	terms   index.TokenFrequencies
	analyse func() index.TokenFrequencies
}

func (f *field) Name() string                                     { return f.name }
func (f *field) Value() []byte                                    { return f.value }
func (f *field) ArrayPositions() []uint64                         { return nil }
func (f *field) EncodedFieldType() byte                           { return 't' }
func (f *field) Options() index.FieldIndexingOptions              { return f.options }
func (f *field) AnalyzedLength() int                              { return len(f.terms) }
func (f *field) AnalyzedTokenFrequencies() index.TokenFrequencies { return f.terms }
func (f *field) NumPlainTextBytes() uint64                        { return uint64(len(f.value)) }

func (f *field) Analyze() { f.terms = f.analyse() }

func singleTerm(term string) func() index.TokenFrequencies {
	return func() index.TokenFrequencies { return index.TokenFrequencies{term: new(index.TokenFreq)} }
}

// encodeColumn uses hex because doc values are separated by the byte 0xff.
func encodeColumn(e *search.Entry) string {
	b := make([]byte, 0, 18)
	b = binary.BigEndian.AppendUint16(b, uint16(search.ScoreStep(e.Score)))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Price))
	b = binary.BigEndian.AppendUint64(b, e.FirstSeq)
	return hex.EncodeToString(b)
}

const columnSize = 2 * (2 + 8 + 8)

func parseColumn(b []byte) (step uint16, price int64, firstSeq uint64, err error) {
	if len(b) != columnSize {
		return 0, 0, 0, strconv.ErrSyntax
	}
	s, err := strconv.ParseUint(string(b[:4]), 16, 16)
	if err != nil {
		return 0, 0, 0, err
	}
	p, err := strconv.ParseUint(string(b[4:20]), 16, 64)
	if err != nil {
		return 0, 0, 0, err
	}
	firstSeq, err = strconv.ParseUint(string(b[20:]), 16, 64)
	return uint16(s), int64(p), firstSeq, err
}
