package call

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/store"
)

// MaxToolTexts bounds the texts of the tools of a call in bytes.
const MaxToolTexts = 64 << 10

// maxSealed bounds an answer with the texts of its tools, so that the row fits into every store
// with any answer that fits by itself.
const maxSealed = store.MaxData - 4<<10

// ToolTexts is a call of a tool with its texts. They are sealed with the text of the row that
// decides the call, and can be read as long as that.
type ToolTexts struct {
	ToolUse
	Arguments string `json:"arguments"`
	Result    string `json:"result"`
	Cut       bool   `json:"cut,omitempty"` // a text ends early, because the texts of the call are too long
}

// appendTools appends tools to an encoded payload. Texts that exceed maxSealed with it are cut,
// the last ones first.
func appendTools(b []byte, tools []ToolTexts) []byte {
	if len(tools) == 0 {
		return b
	}
	all := encodeTools(tools)
	if excess := len(b) + len(all) - maxSealed; excess > 0 {
		tools = slices.Clone(tools)
		for i := len(tools) - 1; i >= 0 && excess > 0; i-- {
			for _, text := range []*string{&tools[i].Result, &tools[i].Arguments} {
				n := min(max(excess, 0), len(*text))
				excess -= n
				*text = strings.ToValidUTF8((*text)[:len(*text)-n], "")
				tools[i].Cut = tools[i].Cut || n > 0
			}
		}
		if all = encodeTools(tools); len(b)+len(all) > maxSealed {
			return b
		}
	}
	b[0] |= hasTools
	return append(b, all...)
}

func encodeTools(tools []ToolTexts) (b []byte) {
	for _, t := range tools {
		b = appendString(appendString(b, t.Name), string(t.Outcome))
		b = binary.AppendUvarint(b, uint64(t.MS))
		cut := byte(0)
		if t.Cut {
			cut = 1
		}
		b = appendString(appendString(append(b, cut), t.Arguments), t.Result)
	}
	return b
}

// tools reads to the end.
func (d *reader) tools() (all []ToolTexts) {
	for len(d.b) > 0 && !d.bad {
		var t ToolTexts
		t.Name, t.Outcome = d.string(), ToolOutcome(d.string())
		t.MS = int64(d.uvarint(math.MaxInt64))
		t.Cut = d.byte() == 1
		t.Arguments, t.Result = d.string(), d.string()
		all = append(all, t)
	}
	return all
}

// ToolCalls are the calls of tools within a call whose texts are kept.
type ToolCalls struct {
	Position uint64      `json:"position"` // of the request row
	Answered bool        `json:"answered"`
	Tools    []ToolTexts `json:"tools"`
}

// maxToolCalls bounds ReadToolCalls in bytes of texts.
const maxToolCalls = 1 << 20

// ReadToolCalls reads the pair's last n decisions and returns the kept texts of tools, the newest
// first, and how many of these decisions have texts whose key is destroyed.
func (h *Host) ReadToolCalls(ctx context.Context, pair Pair, n int) (all []ToolCalls, destroyed int, err error) {
	rows, err := h.Store.Rows(ctx, pair.Responses(), math.MaxInt64, n, store.Descending)
	if err != nil {
		return nil, 0, h.unavailable(err)
	}
	size := 0
	for _, row := range rows {
		r, err := DecodeResponse(row)
		if err != nil {
			return nil, 0, h.damaged(pair.Responses(), err)
		}
		tools, err := h.openTools(ctx, pair, &r)
		if errors.Is(err, textkeys.ErrGone) {
			destroyed++
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		if len(tools) == 0 {
			continue
		}
		if all = append(all, ToolCalls{r.Request, r.Kind == RowAnswer, tools}); size > maxToolCalls {
			break
		}
		for _, t := range tools {
			size += len(t.Arguments) + len(t.Result)
		}
	}
	return all, destroyed, nil
}

// openTools opens the texts of the tools of a row. The error may be textkeys.ErrGone.
func (h *Host) openTools(ctx context.Context, pair Pair, r *ResponseRow) (tools []ToolTexts, err error) {
	sealed, bound := r.Sealed(pair)
	if r.Kind == RowVoid {
		var ok bool
		if sealed, bound, ok = r.SealedCause(pair); !ok {
			return nil, nil
		}
	}
	plain, err := h.Texts.Open(ctx, bound, sealed)
	switch {
	case errors.Is(err, textkeys.ErrGone):
		return nil, err
	case errors.Is(err, textkeys.ErrDamaged):
		return nil, h.damaged(pair.Responses(), fmt.Errorf("%w: a text does not open", errRow))
	case err != nil:
		return nil, h.unavailable(err)
	}
	if r.Kind == RowVoid {
		var c sealedCause
		d := &reader{}
		if err := json.Unmarshal(plain, &c); err == nil {
			d.b = c.Tools
		}
		tools = d.tools()
		if d.bad {
			err = fmt.Errorf("%w: the tools of a void", errRow)
		}
	} else {
		_, _, tools, err = parseSealed(plain)
	}
	return tools, h.damaged(pair.Responses(), err)
}
