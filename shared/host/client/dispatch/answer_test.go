package dispatch

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Every answer of a host is read without harm, and the shown text is safe for a
// terminal.
func FuzzReadAnswer(f *testing.F) {
	if b, err := os.ReadFile("testdata/dispatch.json"); err == nil {
		f.Add(200, b[:min(len(b), 4000)])
	}
	for _, s := range []string{`{"detail":[1],"state":5,"expected_seq":1e400,"chain_tip":null}`, `{"state":"too_old","floor":"2026-05-06","now":"x"}`,
		`{"reply":{},"reply_seq":9007199254740993,"reply_hash":"00"}`, "\xff\xfe", "{", "[]", `{"a":1,"a":2}`, `{"detail":"\u001b[2J"}`} {
		f.Add(409, []byte(s))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		a := parseReply(status, body)
		if s := a.safeDetail(); len(s) > maxQuotedBytes+8 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("shown() = %q", s)
		}
		_, _, _, _, _ = a.isConflict(), a.isBelowFloor(), a.isInconclusive(), a.isRouteMissing(), a.isSeqTaken(1)
		if row := kindOf(a).Forms(); row.ExitCode == problem.ExitUsage && kindOf(a) != problem.TooLarge {
			t.Errorf("kindOf() = %v: what the host says is not the user's wrong usage", kindOf(a))
		}
	})
}

// A decoded state encodes to the same bytes.
func FuzzDecodeState(f *testing.F) {
	s := fullState(f)
	f.Add(s.AppendJSON(nil))
	f.Add((&State{Self: identity.ID{1}, Target: identity.ID{2}}).AppendJSON(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := DecodeState(data)
		if err != nil {
			if !problem.Is(err, problem.Damaged) {
				t.Errorf("DecodeState() = %v, want damaged", err)
			}
			return
		}
		again, err := DecodeState(s.AppendJSON(nil))
		if err != nil {
			t.Fatalf("DecodeState() of what was written = %v", err)
		}
		if d := cmp.Diff(s, again); d != "" {
			t.Errorf("(-read +read again):\n%s", d)
		}
	})
}

func fullState(t testing.TB) State {
	t.Helper()
	k, err := identity.KeyFromSeed(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	other := identity.ID{2}
	at := time.Date(2026, 5, 6, 1, 2, 3, 4000, time.UTC)
	ctx := "ctx\u2028"
	env := func(seq int64, prev identity.Hash, text string) envelope.Envelope {
		e := envelope.Envelope{From: k.ID(), To: other, Seq: seq, Prev: prev, Time: at, IdempotencyKey: "k",
			Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text, "2"}, ContextID: &ctx, SelfEval: &envelope.SelfEval{Factual: 1}}}
		if _, err := e.Sign(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		return e
	}
	tip := identity.Hash{7}
	reset, reply := env(1, identity.Hash{}, envelope.ResetText), env(9, tip, "reply")
	return State{
		Self: k.ID(), Target: other, RequestTip: Point{4, tip}, ResponseTip: Point{3, identity.Hash{8}}, Answered: []Point{{2, identity.Hash{6}}, {4, tip}},
		Sent: []envelope.Envelope{env(5, tip, "a"), env(5, tip, "b")}, Acceptable: []envelope.Envelope{env(1, identity.Hash{}, "c")},
		Overtaken: []envelope.Envelope{env(2, tip, "d")}, PendingReset: &reset, CallKey: "k", LastSignedTime: at, ClockOffset: -3 * time.Second, BindsAnswers: true, LostAnswers: 2,
		UnreturnedOutcomes: []CallOutcome{
			{Request: env(3, tip, "e"), Fate: Answered, Reply: &reply, ReplySeq: 9, ReplyHash: reply.Hash(), CutReason: "length"},
			{Request: env(3, tip, "f"), Fate: Unanswered, Detail: "why"},
		},
	}
}

func TestAnAnswerSaysThatItIsCut(t *testing.T) {
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"result":{"message":{},"cut":"length"}}`: "length",
		`{"jsonrpc":"2.0","id":1,"result":{"message":{"cut":"x"}}}`:       "",
		`{"jsonrpc":"2.0","id":1,"result":{"message":{},"cut":7}}`:        "",
		`{"jsonrpc":"2.0","id":1,"result":"cut"}`:                         "",
		`{"detail":"d","state":"answered","reply":{},"cut":"canceled"}`:   "canceled",
	} {
		a := parseReply(200, []byte(body))
		if a.cutReason != want || !a.isObject || a.hasResult != strings.Contains(body, "result") {
			t.Errorf("%s: cut %q, want %q", body, a.cutReason, want)
		}
	}
}

func TestAnAnswerNamesTheWaysToPay(t *testing.T) {
	for body, want := range map[string]string{
		`{"detail":"d","code":"payment_required","pay":[{"way":"credit","of":"x"},{"way":"link"}]}`: "credit link",
		`{"detail":"d","pay":{"way":"link"}}`:                                                       "",
		`{"detail":"d","pay":[7,{"way":8},{"of":"x"}]}`:                                             "",
	} {
		a := parseReply(402, []byte(body))
		if strings.Join(a.paymentOptions, " ") != want || a.detail != "d" {
			t.Errorf("%s: %q, want %q", body, a.paymentOptions, want)
		}
	}
}

func TestStateIsReadAsItWasWritten(t *testing.T) {
	s := fullState(t)
	written := s.AppendJSON(nil)
	got, err := DecodeState(written)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(s, got); d != "" {
		t.Errorf("DecodeState() (-want +got):\n%s", d)
	}
	for name, change := range map[string][2]string{
		"a newer format":      {`"format": 1`, `"format": 2`},
		"an unknown member":   {`"bound"`, `"band"`},
		"a missing member":    {`"lost": 2,`, ``},
		"format not first":    {"\"format\": 1,\n\"self\": \"" + s.Self.String() + "\"", "\"self\": \"" + s.Self.String() + "\",\n\"format\": 1"},
		"another caller":      {`"self": "` + s.Self.String(), `"self": "` + identity.ID{9}.String()},
		"another sequence":    {`{"seq": 4`, `{"seq": 5`},
		"a negative count":    {`"lost": 2`, `"lost": -2`},
		"a clock of years":    {`"ahead_us": -3000000`, `"ahead_us": -30000000000000000`},
		"another fate":        {`"fate": "unanswered"`, `"fate": "fine"`},
		"an answer of none":   {`"fate": "unanswered"`, `"fate": "answered"`},
		"trailing data":       {"]\n}\n", "]\n}\n{}"},
		"a hash without seq":  {`{"seq": 4`, `{"seq": 0`},
		"null in a list":      {"\"live\": [\n", "\"live\": [null,\n"},
		"no late request":     {`{"request": {"role"`, `{"request": null, "x": {"role"`},
		"a member of a point": {`{"seq": 4,`, `{"seq": 4, "x": 1,`},
	} {
		bad := strings.Replace(string(written), change[0], change[1], 1)
		if bad == string(written) {
			t.Fatalf("%s: nothing changed", name)
		}
		if _, err := DecodeState([]byte(bad)); !problem.Is(err, problem.Damaged) {
			t.Errorf("%s: DecodeState() = %v, want damaged", name, err)
		}
	}
}

func TestKindsOfRefusals(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   problem.Kind
	}{
		{402, "payment_required", problem.PaymentRequired},
		{402, "", problem.PaymentRequired},
		{410, "", problem.Gone},
		{423, "nonsense", problem.NotAccepting},
		{421, "misdirected", problem.Misdirected},
		{400, "malformed", problem.Forbidden},
		{400, "clock", problem.ClockSkew},
		{413, "", problem.TooLarge},
		{404, "", problem.NotFound},
		{418, "", problem.Forbidden},
		{307, "", problem.Forbidden},
		{200, "gone", problem.Unavailable},
		{0, "gone", problem.Gone},
		{0, "", problem.Unavailable},
	} {
		if got := kindOf(hostReply{status: c.status, code: c.code}); got != c.want {
			t.Errorf("kindOf(%d, %q) = %v, want %v", c.status, c.code, got, c.want)
		}
	}
}

func TestTheLastAnsweredCallsAreKnown(t *testing.T) {
	r := run{state: State{RequestTip: Point{5, identity.Hash{5}}}}
	if p, ok := r.state.LastAnswered(0); !ok || p.Seq != 5 {
		t.Errorf("LastAnswered() of an earlier program's state = %v, %t, want its last call", p, ok)
	}
	for n := range int64(20) {
		fate := Answered
		if n%2 == 1 {
			fate = Unanswered
		}
		r.addOutcome(CallOutcome{Request: envelope.Envelope{Seq: n + 1}, Fate: fate})
		r.addOutcome(CallOutcome{Request: envelope.Envelope{Seq: n + 1}, Fate: TextGone})
	}
	if len(r.state.Answered) != maxAnswered {
		t.Errorf("%d calls are stored, want %d", len(r.state.Answered), maxAnswered)
	}
	for seq, want := range map[int64]int64{0: 20, 20: 20, 19: 19, 1: 0, 21: 0} {
		if p, ok := r.state.LastAnswered(seq); p.Seq != want || ok != (want > 0) {
			t.Errorf("LastAnswered(%d) = %v, %t, want %d", seq, p, ok, want)
		}
	}
}
