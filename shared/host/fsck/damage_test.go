package fsck_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// altered is a host whose view shows other rows, documents and streams than are stored.
type altered struct {
	hosttest.Store
	rows map[store.Stream]func([]store.Row) []store.Row
	docs map[store.Key]func(store.Doc) store.Doc
	more []store.Stream // after all others
}

func (a *altered) Walk(ctx context.Context, fn func(store.View) error) error {
	return a.Store.Walk(ctx, func(v store.View) error { return fn(alteredView{v, a}) })
}

type alteredView struct {
	store.View
	*altered
}

func (v alteredView) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	change := v.altered.rows[s]
	if change == nil {
		return v.View.Rows(ctx, s, from, n, d)
	}
	all, err := v.View.Rows(ctx, s, 1, store.MaxPage, store.Ascending)
	if err != nil {
		return nil, err
	}
	var page []store.Row
	rows := change(all)
	if d == store.Descending {
		slices.Reverse(rows)
	}
	for _, row := range rows {
		if len(page) == n {
			break
		}
		if d == store.Ascending && row.Position >= from || d == store.Descending && row.Position <= from {
			page = append(page, row)
		}
	}
	return page, nil
}

func (v alteredView) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	d, err := v.View.Doc(ctx, k)
	if change := v.altered.docs[k]; change != nil && err == nil {
		d = change(d)
	}
	return d, err
}

func (v alteredView) Streams(ctx context.Context, prefix store.Stream, n int, cursor string) ([]store.Stream, string, error) {
	page, next, err := v.View.Streams(ctx, prefix, n, cursor)
	if err == nil && next == "" {
		page = append(page, v.more...)
	}
	return page, next, err
}

// These are the offsets of a row's parts if all its numbers are below 128. See call/rows.go.
const (
	atHash       = 2
	atPrev       = 34
	atSignature  = 66
	atTime       = 130
	atFloor      = 138
	atEpoch      = 139
	atEpochStart = 140
	atSeen       = 142
	atDay        = 153
	atBox        = 157

	atRequestHash  = 2
	atRequest      = 66
	atRequestEpoch = 67
	atReplySeq     = 68
	atVoidEpoch    = 69
	atReplyPrev    = 69
	atReplySig     = 101
	atReplyBox     = 178
)

// flip changes a bit of a row.
func flip(position uint64, at int) func([]store.Row) []store.Row {
	return edit(position, func(b []byte) []byte { b[at] ^= 0x10; return b })
}

// set changes a byte of a row.
func set(position uint64, at int, to byte) func([]store.Row) []store.Row {
	return edit(position, func(b []byte) []byte { b[at] = to; return b })
}

func edit(position uint64, change func([]byte) []byte) func([]store.Row) []store.Row {
	return func(rows []store.Row) []store.Row {
		rows[position-1].Data = change(rows[position-1].Data)
		return rows
	}
}

func drop(position uint64) func([]store.Row) []store.Row {
	return func(rows []store.Row) []store.Row { return slices.Delete(rows, int(position-1), int(position)) }
}

func swap(a, b uint64) func([]store.Row) []store.Row {
	return func(rows []store.Row) []store.Row {
		rows[a-1].Data, rows[b-1].Data = rows[b-1].Data, rows[a-1].Data
		return rows
	}
}

// request decodes a request row of a's pair.
func (c *caller) request(position uint64) (call.RequestRow, store.Row) {
	c.Helper()
	rows, err := c.Store.Rows(c.Ctx, c.Pair().Requests(), position, 1, store.Ascending)
	c.Must(err)
	r, err := call.DecodeRequest(rows[0])
	c.Must(err)
	return r, rows[0]
}

// forge gives a request another text and time, with a valid signature and seal.
func (c *caller) forge(position uint64, text string, at time.Time) func([]store.Row) []store.Row {
	c.Helper()
	r, row := c.request(position)
	sealed, bound := r.SealedText(c.Pair())
	plain, err := c.Texts.Open(c.Ctx, bound, sealed)
	c.Must(err)
	e, err := r.Envelope(c.Pair(), plain)
	c.Must(err)
	old := e.Payload.Parts[0]
	plain = bytes.Replace(plain, append([]byte{byte(len(old))}, old...), append([]byte{byte(len(text))}, text...), 1)
	e.Payload.Parts[0], e.Time = text, at
	hash, err := e.Sign(c.Ctx, c.Key)
	c.Must(err)
	box, err := c.Texts.Seal(c.Ctx, append([]byte(c.Pair().Requests()), hash[:]...), plain)
	c.Must(err)

	b := append([]byte{row.Data[0], row.Data[1]}, hash[:]...)
	b = append(append(b, e.Prev[:]...), e.Signature...)
	b = binary.BigEndian.AppendUint64(b, uint64(at.UnixMicro()))
	before, _ := c.request(position - 1)
	b = binary.AppendUvarint(b, uint64(max(0, before.Floor.UnixMicro()-at.UnixMicro())))
	_, n := binary.Uvarint(row.Data[atFloor:])
	head := len(row.Data) - len(sealed.Box) - 4
	b = append(b, row.Data[atFloor+n:head]...)
	b = append(binary.BigEndian.AppendUint32(b, box.Day), box.Box...)
	return edit(position, func([]byte) []byte { return b })
}

// foreign replaces a request's signature by the signature of another key.
func (c *caller) foreign(position uint64) func([]store.Row) []store.Row {
	c.Helper()
	r, _ := c.request(position)
	sealed, bound := r.SealedText(c.Pair())
	plain, err := c.Texts.Open(c.Ctx, bound, sealed)
	c.Must(err)
	e, err := r.Envelope(c.Pair(), plain)
	c.Must(err)
	other, err := identity.NewKey(rand.Reader)
	c.Must(err)
	_, err = e.Sign(c.Ctx, other)
	c.Must(err)
	return edit(position, func(b []byte) []byte { copy(b[atSignature:], e.Signature); return b })
}

// again decides a request a second time with a void.
func (c *caller) again(position uint64) func([]store.Row) []store.Row {
	r, _ := c.request(position)
	return func(rows []store.Row) []store.Row {
		tip, err := call.DecodeResponse(rows[len(rows)-1])
		c.Must(err)
		b := append([]byte{call.RowFormat, byte(call.RowVoid)}, r.Hash[:]...)
		b = append(append(b, tip.Hash[:]...), byte(position), byte(r.Epoch), byte(tip.Seq), byte(tip.Epoch))
		return append(rows, store.Row{Position: tip.Position + 1, WriteID: store.WriteID{1}, Data: b})
	}
}

// short returns findings in the form of the tables below: kind of stream or document, position,
// check.
func short(c *caller, found []fsck.Finding) []string {
	names := strings.NewReplacer(
		c.Pair().Requests().String(), "req", c.Pair().Responses().String(), "rsp",
		store.StreamOf(store.KindLogbook, c.Demo.ID).String(), "log", vacants.RecordKey(c.Demo.ID).String(), "record",
	)
	out := []string{}
	for _, f := range found {
		s := names.Replace(f.Location)
		if f.Position > 0 {
			s = fmt.Sprintf("%s %d", s, f.Position)
		}
		out = append(out, s+": "+string(f.Check))
	}
	return out
}

func TestEachDamageOfAPairIsFoundAndNamed(t *testing.T) {
	a := story(t, memory.New())
	req, rsp := a.Pair().Requests(), a.Pair().Responses()
	for _, tc := range []struct {
		damage string
		in     store.Stream
		change func([]store.Row) []store.Row
		want   []string
	}{
		{"flipped byte in a request's text", req, flip(8, atBox+30), []string{"req 8: text"}},
		{"flipped byte in a request's hash", req, flip(8, atHash), []string{"req 8: text"}},
		{"flipped byte in a request's signature", req, flip(8, atSignature), []string{"req 8: signature"}},
		{"flipped byte in a request's time", req, flip(8, atTime+7), []string{"req 8: hash", "req 8: signature"}},
		{"another day's key for a request", req, flip(8, atDay+3), []string{"req 8: text"}},
		{"flipped byte in a sealed request's hash", req, flip(3, atHash), []string{"rsp 3: request", "req 4: prev"}},
		{"missing request", req, drop(8), []string{"req 8: position"}},
		{"missing first request", req, drop(1), []string{"req 1: position"}},
		{"missing reset", req, drop(9), []string{"req 9: position"}},
		{"missing last requests that were answered", req, func(r []store.Row) []store.Row { return r[:14] }, []string{"rsp 12: request"}},
		{"swapped requests", req, swap(6, 8), []string{
			"req 6: prev", "req 6: hash", "req 6: signature", "rsp 6: request", "req 7: prev",
			"req 8: floor", "req 8: prev", "req 8: hash", "req 8: signature", "rsp 7: request",
		}},
		{"foreign signature on a request", req, a.foreign(8), []string{"req 8: signature"}},
		{"wrong epoch of a request", req, set(10, atEpoch, 3), []string{"req 10: epoch"}},
		{"wrong prev of a request", req, flip(8, atPrev), []string{"req 8: prev", "req 8: hash", "req 8: signature"}},
		{"wrong prev of a sealed request", req, flip(4, atPrev), []string{"req 4: prev"}},
		{"duplicated seq of a request", req, set(8, atEpochStart, 1), []string{"req 8: seq", "req 8: hash", "req 8: signature"}},
		{"wrong way back to the epoch before", req, set(12, atEpochStart+1, 8), []string{"req 12: back"}},
		{"wrong floor", req, set(8, atFloor, 5), []string{"req 8: floor"}},
		{"seen responses that are not there", req, set(8, atSeen, 100), []string{"req 8: seen", "rsp 7: seen"}},
		{"row of a newer format", req, set(8, 0, 2), []string{"req 8: format"}},
		{"row of another stream's kind", req, set(8, 1, byte(call.RowVoid)), []string{"req 8: row"}},
		{"row cut short", req, edit(8, func(b []byte) []byte { return b[:100] }), []string{"req 8: row"}},
		{"row without bytes", req, edit(8, func([]byte) []byte { return nil }), []string{"req 8: row"}},
		{"call that says RESET_CHAIN", req, a.forge(16, envelope.ResetText, a.Time), []string{"req 16: kind"}},
		{"reset that says something else", req, a.forge(12, "hello", requestTime(a, 12)), []string{"req 12: kind"}},
		{"reset signed before the floor", req, a.forge(12, envelope.ResetText, requestTime(a, 10)), []string{"req 12: time"}},
		{"first call after a reset signed before the floor", req, a.forge(10, "epoch one", requestTime(a, 1)), []string{"req 10: time", "rsp 9: request", "req 11: prev"}},

		{"flipped byte in an answer's text", rsp, flip(6, atReplyBox+30), []string{"rsp 6: text"}},
		{"flipped byte in an answer's hash", rsp, flip(6, atHash+32), []string{"rsp 6: text"}},
		{"foreign signature on an answer", rsp, flip(6, atReplySig), []string{"rsp 6: signature"}},
		{"wrong prev of an answer", rsp, flip(6, atReplyPrev), []string{"rsp 6: prev", "rsp 6: hash", "rsp 6: signature"}},
		{"duplicated seq of an answer", rsp, set(6, atReplySeq, 4), []string{"rsp 6: seq", "rsp 6: hash", "rsp 6: signature"}},
		{"answer of another epoch than its request", rsp, set(9, atRequestEpoch, 5), []string{"rsp 9: epoch"}},
		{"answer without request", rsp, set(12, atRequest, 99), []string{"rsp 12: request"}},
		{"answer to request 0", rsp, set(12, atRequest, 0), []string{"rsp 12: request"}},
		{"answer to a reset", rsp, set(12, atRequest, 12), []string{"rsp 12: request"}},
		{"answer naming another request", rsp, set(12, atRequest, 16), []string{"rsp 12: request"}},
		{"answer naming another request's hash", rsp, flip(12, atRequestHash), []string{"rsp 12: request", "rsp 12: hash", "rsp 12: signature"}},
		{"request decided twice", rsp, a.again(15), []string{"rsp 13: decision"}},
		{"request voided after its answer, long ago", rsp, a.again(1), []string{"rsp 13: decision"}},
		{"void that moves the chain", rsp, set(11, atReplySeq, 9), []string{"rsp 11: void"}},
		{"void of another epoch", rsp, set(11, atVoidEpoch, 1), []string{"rsp 11: void"}},
		{"missing answer", rsp, drop(6), []string{"rsp 6: position"}},
		{"missing last answers", rsp, func(r []store.Row) []store.Row { return r[:9] }, []string{"req 14: seen", "req 15: seen", "req 16: seen"}},
		{"swapped answers", rsp, swap(6, 7), []string{"rsp 6: seen", "rsp 6: seq", "rsp 6: prev", "rsp 7: seq", "rsp 7: prev", "rsp 8: void"}},
		{"answer of a newer format", rsp, set(6, 0, 9), []string{"rsp 6: format"}},
		{"all responses missing", rsp, func([]store.Row) []store.Row { return nil }, nil},
		{"all requests missing", req, func([]store.Row) []store.Row { return nil }, nil},
	} {
		t.Run(tc.damage, func(t *testing.T) {
			damaged := &altered{Store: a.Store, rows: map[store.Stream]func([]store.Row) []store.Row{tc.in: tc.change}}
			_, found := a.check(damaged)
			_, again := a.checkWith(damaged, narrow)
			if diff := cmp.Diff(found, again); diff != "" {
				t.Errorf("Run() finds other things in small pages (-large +small):\n%s", diff)
			}
			if tc.want == nil {
				if len(found) == 0 {
					t.Error("Run() finds nothing")
				}
				return
			}
			if diff := cmp.Diff(tc.want, short(a, found)); diff != "" {
				t.Errorf("Run() (-want +got):\n%s\n%v", diff, found)
			}
		})
	}
}

func requestTime(c *caller, position uint64) time.Time {
	r, _ := c.request(position)
	return r.Time
}
