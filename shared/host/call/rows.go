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

// RowFormat is the first byte of every row. Rows of another format are refused.
const RowFormat = 1

// RowKind is the type of a row.
type RowKind byte

// The kinds of row: two on a request stream, two on a response stream.
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

// Bits in the kind of a row. Rows without them have the bytes that they always had.
const (
	usedBit    RowKind = 0x80 // response row that has a Usage
	paidBit    RowKind = 0x40 // call that has a price, or its answer
	shownBit   RowKind = 0x20 // call with a price whose answer can be read while it comes
	cutBit     RowKind = 0x20 // answer that has the reason of a Cut
	subjectBit RowKind = 0x10 // request that a subject of the paying account sent
)

// RequestRow is an accepted call or reset. Caller and vacant are in the
// stream's name; texts are sealed.
type RequestRow struct {
	Position uint64
	WriteID  store.WriteID
	Kind     RowKind

	// The signed envelope.
	Seq       int64 // of a call: Position - EpochStart, not stored; of a reset: as signed, without meaning
	Prev      identity.Hash
	Time      time.Time
	Signature []byte // 64 bytes
	Text      textkeys.Sealed

	Hash           identity.Hash // of the envelope
	Epoch          uint64        // resets up to and including this row
	EpochStart     uint64        // position of the reset that began the epoch (a reset's own); 0 in epoch 0
	PrevEpochStart uint64        // EpochStart of the previous epoch; 0 if that is epoch 0 or there is none
	Floor          time.Time     // largest signed time on the stream, including this row's

	// Calls only.
	ResponseTip uint64    // last response position read before the accept; the decision lies after it
	Due         time.Time // from then on anybody may void the call if it is undecided
	// Of a call with a price; PaidByNobody and zeros of others.
	PaidBy       PayerKind
	Payer        [32]byte // the account; zeros for a free call
	Subject      string   // of the account, in hex; "" if none is known
	PriceVersion uint64
	Price        uint64 // micro-dollars debited with the accept
	Shard        uint8  // of the balance, that a refund goes to
	// Shown says that the answer can be read while it comes, and is paid for.
	Shown bool
}

// ResponseRow decides a request: an answer or a void. A request has at most
// one.
type ResponseRow struct {
	Position uint64
	WriteID  store.WriteID
	Kind     RowKind

	Request      uint64        // position of the request row
	RequestHash  identity.Hash // hash of the request's envelope; an answer's idempotency key is envelope.ReplyKey of it
	RequestEpoch uint64

	// The tip of the response chain after this row. A void repeats the previous
	// row's.
	Epoch uint64
	Seq   int64
	Hash  identity.Hash

	// Text is an answer's text, or the Cause of a void if it is known.
	Text textkeys.Sealed

	// Usage is the usage that the vacant's agent reported, or nil.
	Usage *Usage

	// Cut is the reason that an answer ends early; "" for a whole answer and a
	// void.
	Cut Cut

	// Charge is the amount that the payer paid for an answer, in micro-dollars.
	// Charged reports whether the request had a price.
	Charge  uint64
	Charged bool

	// Answers only: the rest of the signed envelope, and its duration.
	Prev      identity.Hash
	Time      time.Time
	Signature []byte
	Took      time.Duration // from accept to answer, in whole milliseconds
}

// Tip returns the tip of the request chain after the row.
func (r *RequestRow) Tip() chain.Tip {
	t := chain.Tip{Epoch: r.Epoch, Floor: r.Floor}
	if r.Kind == RowCall {
		t.Seq, t.Hash = r.Seq, r.Hash
	}
	return t
}

var errRow = errors.New("row does not decode")

// SubjectSize is the size of a subject's id in bytes.
const SubjectSize = 16

func (r *RequestRow) encode() []byte {
	b := make([]byte, 0, 360+len(r.Text.Box))
	kind := r.Kind
	if r.PaidBy != PaidByNobody {
		kind |= paidBit
	}
	if r.Shown {
		kind |= shownBit
	}
	subject, err := hex.DecodeString(r.Subject)
	if err != nil || len(subject) != SubjectSize {
		subject = nil
	}
	if subject != nil && r.PaidBy != PaidByNobody {
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
		if r.PaidBy != PaidByNobody {
			b = append(b, byte(r.PaidBy))
			b = append(b, r.Payer[:]...)
			b = append(b, subject...)
			b = binary.AppendUvarint(b, r.PriceVersion)
		}
	}
	return appendText(b, r.Text)
}

// DecodeRequest decodes a row of a request stream.
func DecodeRequest(row store.Row) (RequestRow, error) {
	r := RequestRow{Position: row.Position, WriteID: row.WriteID}
	d, err := newReader(row, RowCall, RowReset, RowCall|paidBit, RowCall|paidBit|shownBit, RowCall|paidBit|subjectBit, RowCall|paidBit|shownBit|subjectBit)
	if err != nil {
		return r, err
	}
	r.Kind = d.kind &^ (paidBit | shownBit | subjectBit)
	paid := d.kind&paidBit != 0
	r.Shown = d.kind&shownBit != 0
	d.fixed(r.Hash[:])
	d.fixed(r.Prev[:])
	r.Signature = d.bytes(identity.SignatureSize)
	r.Time = d.time()
	// Computed in microseconds: a Duration overflows after 292 years, so a call
	// signed in year 1 would lower the floor.
	r.Floor = time.UnixMicro(r.Time.UnixMicro() + int64(d.uvarint(lastMicro-firstMicro))).UTC()
	r.Epoch, r.EpochStart, r.PrevEpochStart = d.uvarint(math.MaxInt64), d.uvarint(row.Position), d.uvarint(row.Position)
	if r.Kind == RowReset {
		r.Seq = int64(d.uvarint(envelope.MaxSeq))
	} else {
		r.Seq = int64(row.Position - r.EpochStart)
		r.ResponseTip = d.uvarint(math.MaxInt64)
		r.Due = d.time()
		r.Price = d.uvarint(math.MaxInt64)
		r.Shard = d.byte()
		if paid {
			r.PaidBy = PayerKind(d.byte())
			d.fixed(r.Payer[:])
			if d.kind&subjectBit != 0 {
				r.Subject = hex.EncodeToString(d.bytes(SubjectSize))
			}
			r.PriceVersion = d.uvarint(math.MaxInt64)
			d.bad = d.bad || r.PaidBy == PaidByNobody || r.PaidBy > PaidByVoucher
		}
		d.bad = d.bad || !paid && r.Price > 0
	}
	r.Text = d.text()
	return r, d.end(row)
}

func (r *ResponseRow) encode() []byte {
	b := make([]byte, 0, 384+len(r.Text.Box))
	kind := r.Kind
	if r.Usage != nil {
		kind |= usedBit
	}
	if r.Charged {
		kind |= paidBit
	}
	if r.Cut != "" {
		kind |= cutBit
	}
	b = append(b, RowFormat, byte(kind))
	b = append(b, r.RequestHash[:]...)
	b = append(b, r.Hash[:]...)
	b = binary.AppendUvarint(b, r.Request)
	b = binary.AppendUvarint(b, r.RequestEpoch)
	b = binary.AppendUvarint(b, uint64(r.Seq))
	if r.Kind == RowVoid {
		b = binary.AppendUvarint(b, r.Epoch) // the epoch of an answer is its request's
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
	// Clocks can step back or be wrong for weeks; the row must still decode.
	b = binary.AppendUvarint(b, uint64(min(max(r.Took.Milliseconds(), 0), math.MaxInt32)))
	if r.Usage != nil {
		b = appendUsage(b, r.Usage)
	}
	if r.Charged {
		b = binary.AppendUvarint(b, r.Charge)
	}
	if r.Cut != "" {
		b = append(b, r.Cut.code())
	}
	return appendText(b, r.Text)
}

// DecodeResponse decodes a row of a response stream.
func DecodeResponse(row store.Row) (ResponseRow, error) {
	r := ResponseRow{Position: row.Position, WriteID: row.WriteID}
	d, err := newReader(row, RowVoid, RowVoid|usedBit,
		RowAnswer, RowAnswer|usedBit, RowAnswer|paidBit, RowAnswer|usedBit|paidBit,
		RowAnswer|cutBit, RowAnswer|usedBit|cutBit, RowAnswer|paidBit|cutBit, RowAnswer|usedBit|paidBit|cutBit)
	if err != nil {
		return r, err
	}
	r.Kind = d.kind &^ (usedBit | paidBit | cutBit)
	used, cut := d.kind&usedBit != 0, d.kind&cutBit != 0
	r.Charged = d.kind&paidBit != 0
	d.fixed(r.RequestHash[:])
	d.fixed(r.Hash[:])
	r.Request, r.RequestEpoch = d.uvarint(math.MaxInt64), d.uvarint(math.MaxInt64)
	r.Seq = int64(d.uvarint(envelope.MaxSeq))
	if r.Kind == RowVoid {
		r.Epoch = d.uvarint(math.MaxInt64)
		if used {
			r.Usage = d.usage()
		}
		if len(d.b) > 0 {
			r.Text = d.text()
		}
		return r, d.end(row)
	}
	r.Epoch = r.RequestEpoch
	d.fixed(r.Prev[:])
	r.Signature = d.bytes(identity.SignatureSize)
	r.Time = d.time()
	r.Took = time.Duration(d.uvarint(math.MaxInt32)) * time.Millisecond
	if used {
		r.Usage = d.usage()
	}
	if r.Charged {
		r.Charge = d.uvarint(math.MaxInt64)
	}
	if cut {
		r.Cut = d.cut()
	}
	r.Text = d.text()
	return r, d.end(row)
}

func appendTime(b []byte, t time.Time) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(t.UnixMicro()))
}

func appendText(b []byte, t textkeys.Sealed) []byte {
	b = binary.BigEndian.AppendUint32(b, t.Day)
	return append(b, t.Box...)
}

// reader decodes the bytes of a row. After the first error it returns zeros;
// end reports the error.
type reader struct {
	b    []byte
	kind RowKind
	bad  bool
}

func newReader(row store.Row, kinds ...RowKind) (*reader, error) {
	if len(row.Data) < 2 {
		return nil, fmt.Errorf("%w: %d bytes", errRow, len(row.Data))
	}
	if row.Data[0] != RowFormat {
		return nil, fmt.Errorf("%w: format %d, this program reads %d", errRow, row.Data[0], RowFormat)
	}
	k := RowKind(row.Data[1])
	for _, want := range kinds {
		if k == want {
			return &reader{b: row.Data[2:], kind: k}, nil
		}
	}
	return nil, fmt.Errorf("%w: %v is out of place here", errRow, k)
}

func (d *reader) bytes(n int) []byte {
	if d.bad = d.bad || len(d.b) < n; d.bad {
		return nil
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out
}

func (d *reader) fixed(dst []byte) { copy(dst, d.bytes(len(dst))) }

func (d *reader) byte() byte {
	if b := d.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *reader) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if d.bad = d.bad || n <= 0 || v > most; d.bad {
		return 0
	}
	d.b = d.b[n:]
	return v
}

// The times a row can hold, in microseconds: years 1 to 9999, the range of an
// envelope.
const (
	firstMicro = -62135596800_000000
	lastMicro  = 253402300799_999999
)

func (d *reader) time() time.Time {
	b := d.bytes(8)
	if b == nil {
		return time.Time{}
	}
	micro := int64(binary.BigEndian.Uint64(b))
	if d.bad = micro < firstMicro || micro > lastMicro; d.bad {
		return time.Time{}
	}
	return time.UnixMicro(micro).UTC()
}

func (d *reader) text() textkeys.Sealed {
	day := d.bytes(4)
	if day == nil {
		return textkeys.Sealed{}
	}
	box := d.b
	d.b = nil
	return textkeys.Sealed{Day: binary.BigEndian.Uint32(day), Box: box}
}

func (d *reader) end(row store.Row) error {
	if d.bad || len(d.b) > 0 {
		return fmt.Errorf("%w: position %d, %v of %d bytes", errRow, row.Position, d.kind, len(row.Data))
	}
	return nil
}
