package call

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/chain"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const RowFormat = 1

type RowKind byte

const (
	RowCall   RowKind = 1
	RowReset  RowKind = 2
	RowAnswer RowKind = 3
	RowVoid   RowKind = 4
)

func (k RowKind) String() string {
	switch k {
	case RowCall:
		return "call"
	case RowReset:
		return "reset"
	case RowAnswer:
		return "answer"
	case RowVoid:
		return "void"
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// streamedBit occurs only in request rows and cutBit only in response rows, so they can have the
// same value.
const (
	usageBit    RowKind = 0x80
	pricedBit   RowKind = 0x40
	streamedBit RowKind = 0x20
	cutBit      RowKind = 0x20
	subjectBit  RowKind = 0x10 // the payer is a subject of an account
)

type RequestRow struct {
	Position uint64
	WriteID  store.WriteID
	Kind     RowKind

	Seq       int64 // not stored for a call; without meaning for a reset
	Prev      identity.Hash
	Time      time.Time
	Signature []byte
	Text      textkeys.Sealed

	Hash           identity.Hash
	Epoch          uint64 // number of resets up to this row
	EpochStart     uint64 // position of the reset that began the epoch, or 0
	PrevEpochStart uint64
	Floor          time.Time // latest signed time on the stream, including this row

	// ResponseTip and Due are set only for calls.
	ResponseTip  uint64    // last response position before the accept
	Due          time.Time // time from which any process may void the undecided call
	PaidBy       PayerKind
	Payer        [32]byte
	Subject      string // in hex, or ""
	PriceVersion uint64
	Price        uint64 // micro-dollars debited with the accept
	Shard        uint8  // balance shard that receives a refund
	// IsStreamed is set if a call with a price can be read while it is being answered.
	IsStreamed bool
}

type ResponseRow struct {
	Position uint64
	WriteID  store.WriteID
	Kind     RowKind

	RequestPosition uint64
	RequestHash     identity.Hash
	RequestEpoch    uint64

	// The tip of the response chain after this row. A void repeats the previous tip.
	Epoch uint64
	Seq   int64
	Hash  identity.Hash

	// Text is an answer's text or a void's Cause.
	Text textkeys.Sealed

	Usage *Usage

	CutReason CutReason

	// Charge is in micro-dollars.
	Charge   uint64
	IsPriced bool

	// The last fields are set only for answers.
	Prev      identity.Hash
	Time      time.Time
	Signature []byte
	Duration  time.Duration // in whole milliseconds
}

func (r *RequestRow) Tip() chain.Tip {
	t := chain.Tip{Epoch: r.Epoch, Floor: r.Floor}
	if r.Kind == RowCall {
		t.Seq, t.Hash = r.Seq, r.Hash
	}
	return t
}

var errInvalidRow = errors.New("row does not decode")

const SubjectSize = 16

func (r *RequestRow) encode() []byte {
	b := make([]byte, 0, 360+len(r.Text.Box))
	kind := r.Kind
	if r.PaidBy != Unpriced {
		kind |= pricedBit
	}
	if r.IsStreamed {
		kind |= streamedBit
	}
	subject, err := hex.DecodeString(r.Subject)
	if err != nil || len(subject) != SubjectSize {
		subject = nil
	}
	if subject != nil && r.PaidBy != Unpriced {
		kind |= subjectBit
	}
	b = append(b, RowFormat, byte(kind))
	b = append(b, r.Hash[:]...)
	b = append(b, r.Prev[:]...)
	b = append(b, r.Signature...)
	b = appendTime(b, r.Time)
	b = binary.AppendUvarint(b, uint64(r.Floor.UnixMicro()-r.Time.UnixMicro()))
	b = binary.AppendUvarint(b, r.Epoch)
	b = binary.AppendUvarint(b, r.EpochStart)
	b = binary.AppendUvarint(b, r.PrevEpochStart)
	if r.Kind == RowReset {
		b = binary.AppendUvarint(b, uint64(r.Seq))
	} else {
		b = binary.AppendUvarint(b, r.ResponseTip)
		b = appendTime(b, r.Due)
		b = binary.AppendUvarint(b, r.Price)
		b = append(b, r.Shard)
		if r.PaidBy != Unpriced {
			b = append(b, byte(r.PaidBy))
			b = append(b, r.Payer[:]...)
			b = append(b, subject...)
			b = binary.AppendUvarint(b, r.PriceVersion)
		}
	}
	return appendText(b, r.Text)
}

func DecodeRequest(row store.Row) (RequestRow, error) {
	r := RequestRow{Position: row.Position, WriteID: row.WriteID}
	d, err := newReader(row, RowCall, RowReset, RowCall|pricedBit, RowCall|pricedBit|streamedBit, RowCall|pricedBit|subjectBit, RowCall|pricedBit|streamedBit|subjectBit)
	if err != nil {
		return r, err
	}
	r.Kind = d.kind &^ (pricedBit | streamedBit | subjectBit)
	isPriced := d.kind&pricedBit != 0
	r.IsStreamed = d.kind&streamedBit != 0
	d.readFixed(r.Hash[:])
	d.readFixed(r.Prev[:])
	r.Signature = d.readBytes(identity.SignatureSize)
	r.Time = d.readTime()
	// The sum is computed in microseconds, because a Duration overflows after 292 years. A call
	// signed in year 1 would then lower the floor.
	r.Floor = time.UnixMicro(r.Time.UnixMicro() + int64(d.readUvarint(lastMicro-firstMicro))).UTC()
	r.Epoch, r.EpochStart, r.PrevEpochStart = d.readUvarint(math.MaxInt64), d.readUvarint(row.Position), d.readUvarint(row.Position)
	if r.Kind == RowReset {
		r.Seq = int64(d.readUvarint(envelope.MaxSeq))
	} else {
		r.Seq = int64(row.Position - r.EpochStart)
		r.ResponseTip = d.readUvarint(math.MaxInt64)
		r.Due = d.readTime()
		r.Price = d.readUvarint(math.MaxInt64)
		r.Shard = d.readByte()
		if isPriced {
			r.PaidBy = PayerKind(d.readByte())
			d.readFixed(r.Payer[:])
			if d.kind&subjectBit != 0 {
				r.Subject = hex.EncodeToString(d.readBytes(SubjectSize))
			}
			r.PriceVersion = d.readUvarint(math.MaxInt64)
			d.bad = d.bad || r.PaidBy == Unpriced || r.PaidBy > PaidByVoucher
		}
		d.bad = d.bad || !isPriced && r.Price > 0
	}
	r.Text = d.readText()
	return r, d.checkEnd(row)
}

func (r *ResponseRow) encode() []byte {
	b := make([]byte, 0, 384+len(r.Text.Box))
	kind := r.Kind
	if r.Usage != nil {
		kind |= usageBit
	}
	if r.IsPriced {
		kind |= pricedBit
	}
	if r.CutReason != "" {
		kind |= cutBit
	}
	b = append(b, RowFormat, byte(kind))
	b = append(b, r.RequestHash[:]...)
	b = append(b, r.Hash[:]...)
	b = binary.AppendUvarint(b, r.RequestPosition)
	b = binary.AppendUvarint(b, r.RequestEpoch)
	b = binary.AppendUvarint(b, uint64(r.Seq))
	if r.Kind == RowVoid {
		b = binary.AppendUvarint(b, r.Epoch) // an answer has the epoch of its request
		if r.Usage != nil {
			b = appendUsage(b, r.Usage)
		}
		if r.Text.Box != nil {
			b = appendText(b, r.Text)
		}
		return b
	}
	b = append(b, r.Prev[:]...)
	b = append(b, r.Signature...)
	b = appendTime(b, r.Time)
	// A clock may step back, but the row must still be decodable.
	b = binary.AppendUvarint(b, uint64(min(max(r.Duration.Milliseconds(), 0), math.MaxInt32)))
	if r.Usage != nil {
		b = appendUsage(b, r.Usage)
	}
	if r.IsPriced {
		b = binary.AppendUvarint(b, r.Charge)
	}
	if r.CutReason != "" {
		b = append(b, r.CutReason.code())
	}
	return appendText(b, r.Text)
}

func DecodeResponse(row store.Row) (ResponseRow, error) {
	r := ResponseRow{Position: row.Position, WriteID: row.WriteID}
	d, err := newReader(row, RowVoid, RowVoid|usageBit,
		RowAnswer, RowAnswer|usageBit, RowAnswer|pricedBit, RowAnswer|usageBit|pricedBit,
		RowAnswer|cutBit, RowAnswer|usageBit|cutBit, RowAnswer|pricedBit|cutBit, RowAnswer|usageBit|pricedBit|cutBit)
	if err != nil {
		return r, err
	}
	r.Kind = d.kind &^ (usageBit | pricedBit | cutBit)
	hasUsage, isCut := d.kind&usageBit != 0, d.kind&cutBit != 0
	r.IsPriced = d.kind&pricedBit != 0
	d.readFixed(r.RequestHash[:])
	d.readFixed(r.Hash[:])
	r.RequestPosition, r.RequestEpoch = d.readUvarint(math.MaxInt64), d.readUvarint(math.MaxInt64)
	r.Seq = int64(d.readUvarint(envelope.MaxSeq))
	if r.Kind == RowVoid {
		r.Epoch = d.readUvarint(math.MaxInt64)
		if hasUsage {
			r.Usage = d.readUsage()
		}
		if len(d.b) > 0 {
			r.Text = d.readText()
		}
		return r, d.checkEnd(row)
	}
	r.Epoch = r.RequestEpoch
	d.readFixed(r.Prev[:])
	r.Signature = d.readBytes(identity.SignatureSize)
	r.Time = d.readTime()
	r.Duration = time.Duration(d.readUvarint(math.MaxInt32)) * time.Millisecond
	if hasUsage {
		r.Usage = d.readUsage()
	}
	if r.IsPriced {
		r.Charge = d.readUvarint(math.MaxInt64)
	}
	if isCut {
		r.CutReason = d.readCutReason()
	}
	r.Text = d.readText()
	return r, d.checkEnd(row)
}

func appendTime(b []byte, t time.Time) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(t.UnixMicro()))
}

func appendText(b []byte, t textkeys.Sealed) []byte {
	b = binary.BigEndian.AppendUint32(b, t.Day)
	return append(b, t.Box...)
}

// reader decodes a row. After the first error, it returns zeros, and checkEnd returns the error.
type reader struct {
	b    []byte
	kind RowKind
	bad  bool
}

func newReader(row store.Row, kinds ...RowKind) (*reader, error) {
	if len(row.Data) < 2 {
		return nil, fmt.Errorf("%w: %d bytes", errInvalidRow, len(row.Data))
	}
	if row.Data[0] != RowFormat {
		return nil, fmt.Errorf("%w: format %d, this program reads %d", errInvalidRow, row.Data[0], RowFormat)
	}
	k := RowKind(row.Data[1])
	for _, want := range kinds {
		if k == want {
			return &reader{b: row.Data[2:], kind: k}, nil
		}
	}
	return nil, fmt.Errorf("%w: unexpected kind of row: %v", errInvalidRow, k)
}

func (d *reader) readBytes(n int) []byte {
	if d.bad = d.bad || len(d.b) < n; d.bad {
		return nil
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out
}

func (d *reader) readFixed(dst []byte) { copy(dst, d.readBytes(len(dst))) }

func (d *reader) readByte() byte {
	if b := d.readBytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *reader) readUvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if d.bad = d.bad || n <= 0 || v > limit; d.bad {
		return 0
	}
	d.b = d.b[n:]
	return v
}

// Times in a row are microseconds in the years 1 to 9999.
const (
	firstMicro = -62135596800_000000
	lastMicro  = 253402300799_999999
)

func (d *reader) readTime() time.Time {
	b := d.readBytes(8)
	if b == nil {
		return time.Time{}
	}
	micro := int64(binary.BigEndian.Uint64(b))
	if d.bad = micro < firstMicro || micro > lastMicro; d.bad {
		return time.Time{}
	}
	return time.UnixMicro(micro).UTC()
}

func (d *reader) readText() textkeys.Sealed {
	day := d.readBytes(4)
	if day == nil {
		return textkeys.Sealed{}
	}
	box := d.b
	d.b = nil
	return textkeys.Sealed{Day: binary.BigEndian.Uint32(day), Box: box}
}

func (d *reader) checkEnd(row store.Row) error {
	if d.bad || len(d.b) > 0 {
		return fmt.Errorf("%w: position %d, %v of %d bytes", errInvalidRow, row.Position, d.kind, len(row.Data))
	}
	return nil
}
