package envelope_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// request is the body of E1 (PROTOCOL §24). Tests change parts of it.
const request = `{"jsonrpc":"2.0","id":"k","method":"message/send","params":{"message":{` +
	`"role":"ROLE_USER","parts":[{"type":"text","text":"hello"}],"contextId":null,"messageId":null,"metadata":{"urn:vacant:v1":{` +
	`"from_vacant_id":"` + hexA + `","to_vacant_id":"` + hexB + `","sequence_no":1,"timestamp":"2026-05-06T00:00:00+00:00",` +
	`"prev_envelope_hash":"` + zeros + `","idempotency_key":"idem-1","caller_signature":"` + sigE1 + `"}}}}}`

// with returns request with old replaced by new. old must occur exactly once.
func with(t testing.TB, old, new string) string {
	t.Helper()
	if strings.Count(request, old) != 1 {
		t.Fatalf("%q is %d times in the request", old, strings.Count(request, old))
	}
	return strings.Replace(request, old, new, 1)
}

const (
	roleUser = `"role":"ROLE_USER"`
	partsOne = `"parts":[{"type":"text","text":"hello"}]`
	seqOne   = `"sequence_no":1`
	keyIdem1 = `"idempotency_key":"idem-1"`
	time0    = `"timestamp":"2026-05-06T00:00:00+00:00"`
	prevZero = `"prev_envelope_hash":"` + zeros + `"`
	sigOne   = `"caller_signature":"` + sigE1 + `"`
	fromA    = `"from_vacant_id":"` + hexA + `"`
	toB      = `"to_vacant_id":"` + hexB + `"`
	ctxNull  = `"contextId":null`
	midNull  = `"messageId":null`
)

// The cases cover the rows of PROTOCOL §5.4 that are refused, and rows 2 to 4 of §6.2.
func TestEveryRowOfTheParsingRules(t *testing.T) {
	const (
		aTime  = "expected an ISO 8601 time of the years 1 to 9999, got "
		aDim   = "expected a number from 0 to 1, got "
		parse  = "There was an error parsing the body: "
		meta   = "invalid metadata: "
		eval   = "invalid selfEval: "
		digits = "expected hexadecimal digits, got "
	)
	block := request[strings.Index(request, `{"from_vacant_id"`) : len(request)-4]
	metadata := `{"urn:vacant:v1":` + block + `}`
	message := request[strings.Index(request, `{"role"`) : len(request)-2]
	params := `{"message":` + message + `}`
	selfEval := func(s string) string { return ctxNull + `,"selfEval":` + s }
	tests := []struct{ name, old, new, text string }{
		{"no jsonrpc", `"jsonrpc":"2.0",`, ``, "jsonrpc field must be '2.0'; got None"},
		{"jsonrpc null", `"2.0"`, `null`, "jsonrpc field must be '2.0'; got None"},
		{"jsonrpc 2.0", `"2.0"`, `2.0`, "jsonrpc field must be '2.0'; got 2.0"},
		{"jsonrpc 2", `"2.0"`, `2`, "jsonrpc field must be '2.0'; got 2"},
		{"jsonrpc 2e0", `"2.0"`, `2e0`, "jsonrpc field must be '2.0'; got 2.0"},
		{"jsonrpc 1.0", `"2.0"`, `"1.0"`, "jsonrpc field must be '2.0'; got '1.0'"},
		{"jsonrpc true", `"2.0"`, `true`, "jsonrpc field must be '2.0'; got True"},
		{"jsonrpc false", `"2.0"`, `false`, "jsonrpc field must be '2.0'; got False"},
		{"jsonrpc array", `"2.0"`, `["2.0"]`, "jsonrpc field must be '2.0'; got […]"},
		{"jsonrpc object", `"2.0"`, `{"2.0":1}`, "jsonrpc field must be '2.0'; got {…}"},
		{"jsonrpc long number", `"2.0"`, strings.Repeat("7", 99), "jsonrpc field must be '2.0'; got " + strings.Repeat("7", 60) + "…"},
		{"jsonrpc in capitals", `"jsonrpc"`, `"JSONRPC"`, "jsonrpc field must be '2.0'; got None"},
		{"method with an apostrophe", `"message/send"`, `"it's"`, `method must be 'message/send'; got "it's"`},
		{"method with both quotes", `"message/send"`, `"'\""`, `method must be 'message/send'; got '\'"'`},
		{"method with controls", `"message/send"`, `"\n\t\r\u0000\u007f\u00ad\u200b\\é\udb40\udc01"`, `method must be 'message/send'; got '\n\t\r\x00\x7f\xad\u200b\\é\U000e0001'`},
		{"method long", `"message/send"`, `"` + strings.Repeat("m", 99) + `"`, "method must be 'message/send'; got '" + strings.Repeat("m", 60) + "…'"},
		{"no method", `"method":"message/send",`, ``, "method must be 'message/send'; got None"},
		{"method stream", `message/send`, `message/stream`, "method must be 'message/send'; got 'message/stream'"},

		{"no params", `,"params":` + params, ``, "missing field: 'params'"},
		{"params null", params, `null`, "params: expected an object, got null"},
		{"params list", params, `[1]`, "params: expected an object, got an array"},
		{"params string", params, `"x"`, `params: expected an object, got "x"`},
		{"no message", params, `{}`, "missing field: 'message'"},
		{"message string", message, `"x"`, `message: expected an object, got "x"`},
		{"message false", message, `false`, `message: expected an object, got false`},
		{"no metadata", `,"metadata":` + metadata, ``, "missing field: 'metadata'"},
		{"metadata string", metadata, `""`, `metadata: expected an object, got ""`},
		{"no block", metadata, `{}`, "missing field: 'urn:vacant:v1'"},
		{"other block", `urn:vacant:v1`, `urn:vacant:v2`, "missing field: 'urn:vacant:v1'"},
		{"block string", block, `"x"`, meta + `urn:vacant:v1: expected an object, got "x"`},
		{"block 0", block, `0`, meta + "urn:vacant:v1: expected an object, got 0"},

		{"no from", fromA + `,`, ``, meta + "'from_vacant_id'"},
		{"no to", toB + `,`, ``, meta + "'to_vacant_id'"},
		{"no seq", seqOne + `,`, ``, meta + "'sequence_no'"},
		{"no timestamp", time0 + `,`, ``, meta + "'timestamp'"},
		{"no prev", prevZero + `,`, ``, meta + "'prev_envelope_hash'"},
		{"no signature", `,` + sigOne, ``, meta + "'caller_signature'"},
		{"from not hex", fromA, `"from_vacant_id":"` + strings.Repeat("z", 64) + `"`, meta + "from_vacant_id: " + digits + `"zzzzzzzzzzzzzzzzzzzz" at position 0`},
		{"from short", hexA, hexA[2:], meta + "from_vacant_id: expected 32 bytes of hex, got 31"},
		{"from empty", hexA, ``, meta + "from_vacant_id: expected 32 bytes of hex, got 0"},
		{"from a number", fromA, `"from_vacant_id":7`, meta + "from_vacant_id: expected a string, got 7"},
		{"from a list", fromA, `"from_vacant_id":["a"]`, meta + "from_vacant_id: expected a string, got an array"},
		{"to odd", hexB, hexB[1:], meta + "to_vacant_id: " + digits + `"" at position 63`},
		{"to long", hexB, hexB + "00", meta + "to_vacant_id: expected 32 bytes of hex, got 33"},
		{"to null", toB, `"to_vacant_id":null`, meta + "to_vacant_id: expected a string, got null"},
		{"prev short", prevZero, `"prev_envelope_hash":"00"`, meta + "prev_envelope_hash: expected 32 bytes of hex, got 1"},
		{"prev with 0x", prevZero, `"prev_envelope_hash":"0x` + zeros[2:] + `"`, meta + "prev_envelope_hash: " + digits + `"x0000000000000000000" at position 1`},
		{"signature not hex", sigOne, `"caller_signature":"-"`, meta + "caller_signature: " + digits + `"-" at position 0`},
		{"signature a number", sigOne, `"caller_signature":0`, meta + "caller_signature: expected a string, got 0"},
		{"timestamp text", time0, `"timestamp":"yesterday"`, meta + "timestamp: " + aTime + `"yesterday"`},
		{"timestamp a number", time0, `"timestamp":1778025600`, meta + "timestamp: expected a string, got 1778025600"},
		{"timestamp lowercase z", time0, `"timestamp":"2026-05-06T00:00:00z"`, meta + "timestamp: " + aTime + `"2026-05-06T00:00:00z"`},
		{"timestamp before year 1", time0, `"timestamp":"0001-01-01T00:00:00+14:00"`, meta + "timestamp: " + aTime + `"0001-01-01T00:00:00+14:00"`},
		{"timestamp after year 9999", time0, `"timestamp":"9999-12-31T23:59:59-14:00"`, meta + "timestamp: " + aTime + `"9999-12-31T23:59:59-14:00"`},
		{"seq 0", seqOne, `"sequence_no":0`, meta + "sequence_no: expected 1 to 9007199254740991, got 0"},
		{"seq -0", seqOne, `"sequence_no":-0`, meta + "sequence_no: expected 1 to 9007199254740991, got 0"},
		{"seq -1", seqOne, `"sequence_no":-1`, meta + "sequence_no: expected 1 to 9007199254740991, got -1"},
		{"seq 2^53", seqOne, `"sequence_no":9007199254740992`, meta + "sequence_no: expected 1 to 9007199254740991, got 9007199254740992"},
		{"seq 2^64", seqOne, `"sequence_no":18446744073709551616`, meta + "sequence_no: expected an integer of at most 64 bits, got 18446744073709551616"},
		{"seq string", seqOne, `"sequence_no":"7"`, meta + `sequence_no: expected an integer, got "7"`},
		{"seq padded string", seqOne, `"sequence_no":" 7 "`, meta + `sequence_no: expected an integer, got " 7 "`},
		{"seq 7.0", seqOne, `"sequence_no":7.0`, meta + "sequence_no: expected an integer, got 7.0"},
		{"seq 1e0", seqOne, `"sequence_no":1e0`, meta + "sequence_no: expected an integer, got 1e0"},
		{"seq true", seqOne, `"sequence_no":true`, meta + "sequence_no: expected an integer, got true"},
		{"seq null", seqOne, `"sequence_no":null`, meta + "sequence_no: expected an integer, got null"},
		{"seq NaN", seqOne, `"sequence_no":NaN`, meta + parse + "sequence_no: expected a value of JSON, got NaN"},
		{"seq 1e400", seqOne, `"sequence_no":1e400`, meta + "sequence_no: expected a number that a float64 holds, got 1e400"},
		{"key null", keyIdem1, `"idempotency_key":null`, meta + "idempotency_key: expected a string, got null"},
		{"key a number", keyIdem1, `"idempotency_key":5`, meta + "idempotency_key: expected a string, got 5"},
		{"key long", `"idem-1"`, `"` + strings.Repeat("k", 513) + `"`, meta + "idempotency_key: expected at most 512 bytes, got 513"},
		{"seq twice", seqOne, seqOne + `,"sequence_no":1`, meta + "sequence_no: expected the key once, got it twice"},

		{"parts null", partsOne, `"parts":null`, "parts: expected an array, got null"},
		{"parts object", partsOne, `"parts":{}`, "parts: expected an array, got an object"},
		{"parts empty string", partsOne, `"parts":""`, `parts: expected an array, got ""`},
		{"part null", partsOne, `"parts":[{},null]`, "parts[1]: expected an object, got null"},
		{"part a list", partsOne, `"parts":[[]]`, "parts[0]: expected an object, got an array"},
		{"part file", partsOne, `"parts":[{"type":"file"}]`, `parts[0].type: expected "text", got "file"`},
		{"part type null", partsOne, `"parts":[{"type":null}]`, "parts[0].type: expected a string, got null"},
		{"part text null", partsOne, `"parts":[{"text":null}]`, "parts[0].text: expected a string, got null"},
		{"part text a list", partsOne, `"parts":[{},{"text":["x"]}]`, "parts[1].text: expected a string, got an array"},
		{"65 parts", partsOne, `"parts":[` + strings.Repeat(`{},`, 64) + `{}]`, "parts: expected at most 64 parts, got more"},
		{"part text twice", partsOne, `"parts":[{"text":"a","te\u0078t":"b"}]`, "text: expected the key once, got it twice"},
		{"role null", roleUser, `"role":null`, "role: expected a string, got null"},
		{"role unknown", roleUser, `"role":"user"`, `role: expected ROLE_USER, ROLE_AGENT or ROLE_TOOL, got "user"`},
		{"role empty", roleUser, `"role":""`, `role: expected ROLE_USER, ROLE_AGENT or ROLE_TOOL, got ""`},
		{"contextId a number", ctxNull, `"contextId":5`, "contextId: expected a string or null, got 5"},
		{"contextId false", ctxNull, `"contextId":false`, "contextId: expected a string or null, got false"},
		{"contextId long", ctxNull, `"contextId":"` + strings.Repeat("é", 257) + `"`, "contextId: expected at most 512 bytes, got 514"},
		{"messageId an object", midNull, `"messageId":{}`, "messageId: expected a string or null, got an object"},
		{"messageId long", midNull, `"messageId":"` + strings.Repeat("m", 513) + `"`, "messageId: expected at most 512 bytes, got 513"},

		{"selfEval 0", ctxNull, selfEval(`0`), eval + "selfEval: expected an object, got 0"},
		{"selfEval false", ctxNull, selfEval(`false`), eval + "selfEval: expected an object, got false"},
		{"selfEval list", ctxNull, selfEval(`[]`), eval + "selfEval: expected an object, got an array"},
		{"selfEval string", ctxNull, selfEval(`""`), eval + `selfEval: expected an object, got ""`},
		{"dimension 2", ctxNull, selfEval(`{"factual":2}`), eval + "factual: " + aDim + "2"},
		{"dimension -0.1", ctxNull, selfEval(`{"logical":-0.1}`), eval + "logical: " + aDim + "-0.1"},
		{"dimension above 1", ctxNull, selfEval(`{"honesty":1.0000000000000002}`), eval + "honesty: " + aDim + "1.0000000000000002"},
		{"dimension null", ctxNull, selfEval(`{"relevance":null}`), eval + "relevance: " + aDim + "null"},
		{"dimension string", ctxNull, selfEval(`{"adoption":"0.5"}`), eval + "adoption: " + aDim + `"0.5"`},
		{"dimension true", ctxNull, selfEval(`{"confidence":true}`), eval + "confidence: " + aDim + "true"},
		{"dimension NaN", ctxNull, selfEval(`{"factual":NaN}`), eval + parse + "factual: expected a value of JSON, got NaN"},
		{"dimension of 400 digits", ctxNull, selfEval(`{"factual":` + strings.Repeat("9", 400) + `}`), eval + "factual: expected a number that a float64 holds, got " + strings.Repeat("9", 40) + "…"},

		{"id NaN", `"id":"k"`, `"id":[NaN]`, parse + "id: expected a value of JSON, got NaN"},
		{"id 1e400", `"id":"k"`, `"id":1e400`, "id: expected a number that a float64 holds, got 1e400"},
		{"id lone surrogate", `"id":"k"`, `"id":{"a":"\udfff"}`, `a: expected whole characters, got the lone surrogate \udfff`},
		{"id with a duplicate", `"id":"k"`, `"id":{"a":1,"a":1}`, "a: expected the key once, got it twice"},
		{"ignored NaN", roleUser, roleUser + `,"x":[{"y":-Infinity}]`, parse + "y: expected a value of JSON, got -Infinity"},
		{"ignored surrogate key", roleUser, roleUser + `,"x":{"\ud800":0}`, `x: expected whole characters, got the lone surrogate \ud800`},
		{"ignored duplicate", seqOne, seqOne + `,"x":{"k":0,"\u006b":0}`, meta + "k: expected the key once, got it twice"},
		{"ignored depth", `"id":"k"`, `"x":` + strings.Repeat("[", 32) + strings.Repeat("]", 32), parse + "x: expected nesting of at most 32, got more"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := envelope.DecodeRequest([]byte(with(t, tt.old, tt.new)))
			if !problem.Is(err, problem.Malformed) || problem.AsError(err).Text() != tt.text {
				t.Errorf("DecodeRequest() = %v, want %s", err, tt.text)
			}
			if diff := cmp.Diff(envelope.Request{}, req); diff != "" {
				t.Errorf("DecodeRequest() beside its error mismatch (-want +got):\n%s", diff)
			}
			if p := problem.AsError(err); p.Got == "" && !strings.Contains(p.Detail, "got ") {
				t.Errorf("Error = %+v says nothing of what came", p)
			}
		})
	}
}

// The cases cover the rows of PROTOCOL §5.4 that are accepted. Each body must decode to the wanted
// envelope.
func TestDecodeAcceptsWhatTheReferenceAccepts(t *testing.T) {
	change := func(f func(*envelope.Envelope)) envelope.Envelope {
		e := e1(t)
		f(&e)
		return e
	}
	same := e1(t)
	half := envelope.SelfEval{Adoption: 0.5, Confidence: 0.5, Factual: 0.5, Honesty: 0.5, Logical: 0.5, Relevance: 0.5}
	some := half
	some.Factual, some.Logical = 1, 0
	tests := []struct {
		name, old, new string
		want           envelope.Envelope
	}{
		{"nothing changed", roleUser, roleUser, same},
		{"white space", `,"params":`, "\t,\r\n \"params\" : ", same},
		{"keys by escapes", `"sequence_no"`, `"\u0073equence_no"`, same},
		{"texts by escapes", `"hello"`, `"\u0068ell\u006F"`, same},
		{"no role", roleUser + `,`, ``, same},
		{"no contextId", ctxNull + `,`, ``, same},
		{"no messageId", midNull + `,`, ``, same},
		{"no part type", `"type":"text",`, ``, same},
		{"upper case hex", hexA, strings.ToUpper(hexA), same},
		{"hex with spaces", hexB, " " + hexB[:2] + " " + hexB[2:] + `\n`, same},
		{"timestamp with Z", time0, `"timestamp":"2026-05-06T00:00:00Z"`, same},
		{"timestamp without offset", time0, `"timestamp":"2026-05-06T00:00:00"`, same},
		{"timestamp of another offset", time0, `"timestamp":"2026-05-06T01:30:00.0000009+01:30"`, same},
		{"unknown keys", roleUser, roleUser + `,"x":{"role":"ROLE_AGENT"},"Role":1,"":[[{}]]`, same},
		{"unknown keys in the block", seqOne, seqOne + `,"Sequence_No":"x","x":1e-400`, same},
		{"unknown keys in a part", `"type":"text"`, `"type":"text","metadata":{"text":"evil"}`, same},
		{"unknown keys beside the message", `"params":{`, `"params":{"x":null,`, same},
		{"selfEval null", ctxNull, ctxNull + `,"selfEval":null`, same},
		{"huge integer in an unknown key", `"id":"k"`, `"x":` + strings.Repeat("9", 4300), same},
		{"jsonrpc and method by escapes", `"2.0"`, `"2\u002e0"`, same},
		{"no key", keyIdem1 + `,`, ``, change(func(e *envelope.Envelope) { e.IdempotencyKey = "" })},
		{"key of 512 bytes", `"idem-1"`, `"` + strings.Repeat("k", 512) + `"`, change(func(e *envelope.Envelope) { e.IdempotencyKey = strings.Repeat("k", 512) })},
		{"no parts", partsOne + `,`, ``, change(func(e *envelope.Envelope) { e.Payload.Parts = nil })},
		{"empty parts", partsOne, `"parts":[]`, change(func(e *envelope.Envelope) { e.Payload.Parts = nil })},
		{"empty part", partsOne, `"parts":[{},{"text":"b"}]`, change(func(e *envelope.Envelope) { e.Payload.Parts = []string{"", "b"} })},
		{"64 parts", partsOne, `"parts":[` + strings.Repeat(`{},`, 63) + `{}]`, change(func(e *envelope.Envelope) { e.Payload.Parts = make([]string, 64) })},
		{"empty ids", ctxNull + `,` + midNull, `"contextId":"","messageId":""`, change(func(e *envelope.Envelope) { e.Payload.ContextID, e.Payload.MessageID = ptr(""), ptr("") })},
		{"role tool", roleUser, `"role":"ROLE_TOOL"`, change(func(e *envelope.Envelope) { e.Payload.Role = envelope.RoleTool })},
		{"largest seq", seqOne, `"sequence_no":9007199254740991`, change(func(e *envelope.Envelope) { e.Seq = 1<<53 - 1 })},
		{"signature empty", sigE1, ``, change(func(e *envelope.Envelope) { e.Signature = []byte{} })},
		{"signature short", sigE1, `00 FF`, change(func(e *envelope.Envelope) { e.Signature = []byte{0, 0xff} })},
		{"selfEval empty", ctxNull, ctxNull + `,"selfEval":{}`, change(func(e *envelope.Envelope) { e.Payload.SelfEval = &half })},
		{"selfEval partial, integers", ctxNull, ctxNull + `,"selfEval":{"factual":1,"logical":-0,"x":[]}`, change(func(e *envelope.Envelope) { e.Payload.SelfEval = &some })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := envelope.DecodeRequest([]byte(with(t, tt.old, tt.new)))
			if err != nil {
				t.Fatalf("DecodeRequest() = %v", err)
			}
			if diff := cmp.Diff(tt.want, req.Envelope); diff != "" {
				t.Errorf("DecodeRequest() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// An error must name the wrong member that comes first in the order of PROTOCOL §6.2, wherever the
// member is in the body. If the body is not JSON, the error must say so.
func TestTheFirstWrongMemberIsNamed(t *testing.T) {
	wrong := []struct{ old, new, text string }{
		{`"jsonrpc":"2.0"`, `"jsonrpc":1`, "jsonrpc field must be '2.0'; got 1"},
		{`"method":"message/send"`, `"m":0`, "method must be 'message/send'; got None"},
		{fromA, `"from_vacant_id":1`, "invalid metadata: from_vacant_id: expected a string, got 1"},
		{toB, `"x":1`, "invalid metadata: 'to_vacant_id'"},
		{seqOne, `"sequence_no":0`, "invalid metadata: sequence_no: expected 1 to 9007199254740991, got 0"},
		{time0, `"y":1`, "invalid metadata: 'timestamp'"},
		{prevZero, `"prev_envelope_hash":"0"`, `invalid metadata: prev_envelope_hash: expected hexadecimal digits, got "" at position 1`},
		{sigOne, `"z":0`, "invalid metadata: 'caller_signature'"},
		{keyIdem1, `"idempotency_key":0`, "invalid metadata: idempotency_key: expected a string, got 0"},
		{midNull, midNull + `,"selfEval":0`, "invalid selfEval: selfEval: expected an object, got 0"},
		{roleUser, `"role":0`, "role: expected a string, got 0"},
		{partsOne, `"parts":0`, "parts: expected an array, got 0"},
		{ctxNull, `"contextId":0`, "contextId: expected a string or null, got 0"},
	}
	for i := range wrong {
		body := request
		for _, w := range wrong[i:] {
			body = strings.Replace(body, w.old, w.new, 1)
		}
		if _, err := envelope.DecodeRequest([]byte(body)); !problem.Is(err, problem.Malformed) || err.Error() != wrong[i].text {
			t.Errorf("DecodeRequest() with %d wrong members = %v, want %s", len(wrong)-i, err, wrong[i].text)
		}
		for _, broken := range []string{body[:len(body)-1], body + "x", strings.Replace(body, `"id":"k"`, `"id":k`, 1)} {
			if _, err := envelope.DecodeRequest([]byte(broken)); !problem.Is(err, problem.NotJSON) {
				t.Errorf("DecodeRequest() of broken JSON with %d wrong members = %v, want NotJSON", len(wrong)-i, err)
			}
		}
	}
}

func TestAnyIDIsEchoedByteForByte(t *testing.T) {
	for _, id := range []string{`"k"`, `null`, `5`, `-0`, `1.50`, `1E+2`, `1000000000000000000000000000000`, `""`, `true`,
		`"\u0041\/ \ud83d\ude00é"`, `[ 1 ,2.0, {} ]`, "{\"b\" :\n1, \"a\": [null]}", strings.Repeat("[", 30) + strings.Repeat("]", 30)} {
		body := []byte(with(t, `"id":"k"`, `"id" : `+id+` `))
		req, err := envelope.DecodeRequest(body)
		if err != nil || string(req.ID) != id {
			t.Errorf("DecodeRequest() with id %s = %s, %v", id, req.ID, err)
			continue
		}
		if got := string(envelope.AppendResponse(nil, req.ID, &req.Envelope)); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":`+id+`,"result":{"message":{`) {
			t.Errorf("AppendResponse() with id %s = %s", id, got)
		}
	}
	req, err := envelope.DecodeRequest([]byte(with(t, `"id":"k",`, ``)))
	if err != nil || req.ID != nil {
		t.Errorf("DecodeRequest() without id = %q, %v, want nil", req.ID, err)
	}
}

func TestAResetDoesNotLookAtJSONRPC(t *testing.T) {
	for _, tt := range []struct{ old, new string }{
		{`"jsonrpc":"2.0",`, ``}, {`"jsonrpc":"2.0"`, `"jsonrpc":[1]`}, {`"message/send"`, `"chain/reset"`}, {`"method":"message/send",`, ``},
	} {
		req, err := envelope.DecodeResetRequest([]byte(with(t, tt.old, tt.new)))
		if err != nil || string(req.ID) != `"k"` {
			t.Errorf("DecodeResetRequest() with %s = %s, %v", tt.new, req.ID, err)
		}
		if diff := cmp.Diff(e1(t), req.Envelope); diff != "" {
			t.Errorf("DecodeResetRequest() mismatch (-want +got):\n%s", diff)
		}
	}
	for _, tt := range []struct{ old, new, text string }{
		{`"jsonrpc":"2.0"`, `"jsonrpc":NaN`, "There was an error parsing the body: jsonrpc: expected a value of JSON, got NaN"},
		{`"params"`, `"x"`, "missing field: 'params'"},
		{seqOne, `"sequence_no":"1"`, `invalid metadata: sequence_no: expected an integer, got "1"`},
	} {
		if _, err := envelope.DecodeResetRequest([]byte(with(t, tt.old, tt.new))); err == nil || err.Error() != tt.text {
			t.Errorf("DecodeResetRequest() with %s = %v, want %s", tt.new, err, tt.text)
		}
	}
}

func TestResponses(t *testing.T) {
	e := e1(t)
	body := string(envelope.AppendResponse(nil, nil, &e))
	message := string(envelope.AppendMessage(nil, &e))
	const notAResult = "transport response is not a valid A2A result: "
	tests := []struct {
		name, body string
		kind       problem.Kind
		text       string
	}{
		{"no result", `{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, problem.Malformed, notAResult + "'result'"},
		{"empty", `{}`, problem.Malformed, notAResult + "'result'"},
		{"result null", `{"result":null}`, problem.Malformed, notAResult + "result: expected an object, got null"},
		{"result a list", `{"result":[]}`, problem.Malformed, notAResult + "result: expected an object, got an array"},
		{"no message", `{"result":{}}`, problem.Malformed, notAResult + "'message'"},
		{"message null", `{"result":{"message":null}}`, problem.Malformed, notAResult + "message: expected an object, got null"},
		{"no metadata", `{"result":{"message":{}}}`, problem.Malformed, "missing field: 'metadata'"},
		{"no block", `{"result":{"message":{"metadata":{}}}}`, problem.Malformed, "missing field: 'urn:vacant:v1'"},
		{"no from", strings.Replace(body, `"from_vacant_id"`, `"f"`, 1), problem.Malformed, "invalid metadata: 'from_vacant_id'"},
		{"role a number", strings.Replace(body, `"ROLE_USER"`, `1`, 1), problem.Malformed, "role: expected a string, got 1"},
		{"duplicate", strings.Replace(body, `"contextId"`, `"messageId"`, 1), problem.Malformed, "messageId: expected the key once, got it twice"},
		{"not JSON", "<html>", problem.NotJSON, "body: not JSON: expected a value at byte 0, got '<'"},
		{"a list", "[]", problem.NotJSON, "body: expected one JSON object, got an array"},
		{"a message alone", message, problem.Malformed, notAResult + "'result'"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := envelope.DecodeResponse([]byte(tt.body))
			if !problem.Is(err, tt.kind) || err.Error() != tt.text {
				t.Errorf("DecodeResponse() = %v, want %s", err, tt.text)
			}
			if diff := cmp.Diff(envelope.Envelope{}, got); diff != "" {
				t.Errorf("DecodeResponse() beside its error mismatch (-want +got):\n%s", diff)
			}
		})
	}
	for _, ok := range []string{body, strings.Replace(body, `"jsonrpc":"2.0","id":null,`, `"jsonrpc":1,"state":"answered",`, 1)} {
		got, err := envelope.DecodeResponse([]byte(ok))
		if diff := cmp.Diff(e, got); err != nil || diff != "" {
			t.Errorf("DecodeResponse() = %v, mismatch (-want +got):\n%s", err, diff)
		}
	}
}

func TestAnAnswerMayBeLargerThanARequest(t *testing.T) {
	e := e1(t)
	e.Payload.Parts = []string{strings.Repeat("\x01", 300<<10)}
	got, err := envelope.DecodeResponse(envelope.AppendResponse(nil, nil, &e))
	if diff := cmp.Diff(e, got); err != nil || diff != "" {
		t.Errorf("DecodeResponse() of 300 KiB of controls = %v", err)
	}
	if _, err := envelope.DecodeRequest(envelope.AppendRequest(nil, nil, &e)); !problem.Is(err, problem.TooLarge) {
		t.Errorf("DecodeRequest() of 1.8 MB = %v, want TooLarge", err)
	}
}

func TestAMessageAlone(t *testing.T) {
	e := e1(t)
	got, err := envelope.DecodeMessage(envelope.AppendMessage(nil, &e))
	if diff := cmp.Diff(e, got); err != nil || diff != "" {
		t.Errorf("DecodeMessage() = %v, mismatch (-want +got):\n%s", err, diff)
	}
	for body, text := range map[string]string{
		`{}`:                 "missing field: 'metadata'",
		`{"metadata":[]}`:    "metadata: expected an object, got an array",
		`{"metadata":{}}{}`:  "body: not JSON: expected the end at byte 15, got '{'",
		`{"message":{}}`:     "missing field: 'metadata'",
		`null`:               "body: expected one JSON object, got null",
		`{"role":"ROLE_X"} `: "missing field: 'metadata'",
	} {
		if _, err := envelope.DecodeMessage([]byte(body)); err == nil || err.Error() != text {
			t.Errorf("DecodeMessage(%s) = %v, want %s", body, err, text)
		}
	}
}

// These bodies are made to cost a decoder memory or time. BenchmarkHostileBodies measures the cost.
func TestHostileBodiesAreRefused(t *testing.T) {
	many := make([]string, 20_000)
	for i := range many {
		many[i] = fmt.Sprintf(`"%x":0`, i)
	}
	huge := make([]string, 100_000)
	for i := range huge {
		huge[i] = fmt.Sprintf(`"%x":0`, i)
	}
	tests := []struct {
		name, body string
		kind       problem.Kind
	}{
		{"100000 keys", "{" + strings.Join(huge, ",") + "}", problem.TooLarge},
		{"20000 keys", "{" + strings.Join(many, ",") + "}", problem.Malformed},
		{"20000 keys in an ignored member", with(t, `"id":"k"`, `"x":{`+strings.Join(many, ",")+`}`), problem.Malformed},
		{"1025 keys in the block", with(t, seqOne, seqOne+","+strings.Join(many[:1019], ",")), problem.Malformed},
		{"depth 10000 of arrays", strings.Repeat("[", 10_000), problem.NotJSON},
		{"depth 10000 of objects", strings.Repeat(`{"a":`, 10_000), problem.Malformed},
		{"depth 10000 in the id", with(t, `"id":"k"`, `"id":`+strings.Repeat("[", 10_000)), problem.Malformed},
		{"256 KiB + 1", request + strings.Repeat(" ", 256<<10+1-len(request)), problem.TooLarge},
		{"wrong parts without end", with(t, partsOne, `"parts":[`+strings.Repeat("0,", 100_000)+"0]"), problem.Malformed},
		{"one open string", `{"a":"` + strings.Repeat(`\"`, 100_000), problem.NotJSON},
		{"a number of 200000 digits", `{"a":` + strings.Repeat("1", 200_000) + "}", problem.Malformed},
		{"a fraction of 200000 digits", `{"a":1.` + strings.Repeat("1", 200_000) + "}", problem.Malformed},
		{"duplicate spelt by escapes", with(t, fromA, fromA+`,"\u0066rom_vacant_id":"`+hexB+`"`), problem.Malformed},
		{"overlong UTF-8 in a key", with(t, `"id"`, "\"\xc1\xa9d\""), problem.Malformed},
		{"surrogate in UTF-8 in an ignored text", with(t, `"id":"k"`, "\"x\":\"\xed\xb0\x80\""), problem.Malformed},
		{"number 01", with(t, seqOne, `"sequence_no":01`), problem.NotJSON},
		{"number 1.", with(t, seqOne, `"sequence_no":1.`), problem.NotJSON},
		{"number -", with(t, seqOne, `"sequence_no":-`), problem.NotJSON},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := envelope.DecodeRequest([]byte(tt.body)); !problem.Is(err, tt.kind) || len(err.Error()) > 300 {
				t.Errorf("DecodeRequest() = %v, want %s", err, tt.kind)
			}
		})
	}
	if _, err := envelope.DecodeRequest([]byte(request + strings.Repeat(" ", 256<<10-len(request)))); err != nil {
		t.Errorf("DecodeRequest() of 256 KiB = %v, want an envelope", err)
	}
}

func TestTheEnvelopeOutlivesTheBody(t *testing.T) {
	body := []byte(with(t, ctxNull, `"contextId":"c"`))
	req, err := envelope.DecodeRequest(body)
	if err != nil {
		t.Fatal(err)
	}
	before := string(req.Envelope.AppendSignedBytes(nil))
	clear(body)
	if diff := cmp.Diff(before, string(req.Envelope.AppendSignedBytes(nil))); diff != "" {
		t.Errorf("the envelope changed with the body (-want +got):\n%s", diff)
	}
}
