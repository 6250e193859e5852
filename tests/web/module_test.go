package web

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
)

const (
	assets  = "../../shared/front/web/assets"
	vectors = "../../shared/vacant"
	// policy is the content security policy of the pages.
	policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)

// module is a page that has the module, and nothing else, under the policy of the pages.
type module struct {
	*page
	inputs []byte
}

func newModule(t *testing.T) *module {
	t.Helper()
	m := &module{}
	mux := http.NewServeMux()
	mux.Handle("GET /assets/", http.StripPrefix("/assets/", http.FileServer(http.Dir(assets))))
	mux.Handle("GET /testdata/", http.FileServerFS(files))
	mux.HandleFunc("GET /inputs", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(m.inputs) })
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		_, _ = w.Write([]byte("<!doctype html><title>module</title>"))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	m.page = newPage(t, server.URL+"/")
	return m
}

// answer holds the module's result for an input, or the code of its refusal.
type answer struct {
	Error, Message                  string
	CJ, CJA, Hash, HashA, Again     string
	Text, ID, Short, DID, Seed      string
	Valid                           bool
	Bytes, Signature, Request, Blob string
	Root, Host, Value               string
	Size                            uint64
	Cosignatures                    []struct {
		Name, Witness string
		Time          int64
	}
}

// ask gives the module inputs on a subject of testdata/subjects.js.
func ask[I any](t *testing.T, m *module, subject string, inputs []I) []answer {
	t.Helper()
	var err error
	if m.inputs, err = json.Marshal(inputs); err != nil {
		t.Fatal(err)
	}
	var out []answer
	m.eval(fmt.Sprintf(`import("/testdata/subjects.js").then((s) => s.answers(%q, "/inputs"))`, subject), &out)
	if len(out) != len(inputs) {
		t.Fatalf("%d answers about %s, want %d", len(out), subject, len(inputs))
	}
	return out
}

// cases reads the cases of a file of vectors, and fails unless there are so many.
func cases[C any](t *testing.T, path string, count int) []C {
	t.Helper()
	raw, err := os.ReadFile(vectors + "/" + path)
	must(t, err)
	var file struct{ Cases []C }
	must(t, json.Unmarshal(raw, &file))
	if len(file.Cases) != count {
		t.Fatalf("%s has %d cases, want %d", path, len(file.Cases), count)
	}
	return file.Cases
}

// each maps cases to inputs.
func each[C, I any](cases []C, input func(C) I) []I {
	out := make([]I, len(cases))
	for i, c := range cases {
		out[i] = input(c)
	}
	return out
}

func TestVectorsOfCanonicalJSON(t *testing.T) {
	t.Parallel()
	type vector struct {
		Name  string
		Input struct{ JSON string }
	}
	m, all := newModule(t), cases[vector](t, "canon/testdata/canonical_json.json", 394)
	compareJSON(t, m, each(all, func(v vector) []byte { return []byte(v.Input.JSON) }))
	// The limits, which documents of arrays, of objects and of both reach and exceed by one.
	limits := canon.DefaultLimits()
	var extreme [][]byte
	for more := range 2 {
		depth, keys := limits.Depth+more, limits.Keys+more
		var members []string
		for i := range keys {
			members = append(members, fmt.Sprintf(`"%d":0`, i))
		}
		for _, doc := range []string{
			strings.Repeat("[", depth) + strings.Repeat("]", depth),
			strings.Repeat(`{"":`, depth-1) + "{}" + strings.Repeat("}", depth-1),
			"[" + strings.Repeat(`{"":`, depth-1) + "[]" + strings.Repeat("}", depth-1) + "]",
			"{" + strings.Join(members, ",") + "}",
			`"` + strings.Repeat("a", limits.Bytes+more-2) + `"`,
		} {
			extreme = append(extreme, []byte(doc))
		}
	}
	if n := compareJSON(t, m, extreme); n != 4 {
		t.Errorf("%d documents at the limits and above are accepted, want 4", n)
	}
	// The vectors of a value have its forms, which Go's own test compares with Go's.
	accepted := 0
	for _, v := range all {
		if _, err := canon.Parse([]byte(v.Input.JSON), canon.DefaultLimits()); err == nil {
			accepted++
		}
	}
	if accepted != 331 {
		t.Errorf("%d documents have a value, want 331", accepted)
	}
}

// compareJSON compares the module's answers to documents with Go's.
func compareJSON(t *testing.T, m *module, docs [][]byte) (accepted int) {
	t.Helper()
	for i, got := range ask(t, m, "canonical", each(docs, hex.EncodeToString)) {
		v, err := canon.Parse(docs[i], canon.DefaultLimits())
		if err != nil {
			if got.Error == "" {
				t.Errorf("%.200q: the module accepts it as %.200s; Go refuses it: %v", docs[i], got.CJ, err)
			}
			continue
		}
		accepted++
		cj, cja := v.AppendCJ(nil), v.AppendASCII(nil)
		want := answer{CJ: string(cj), CJA: string(cja), Hash: identity.Sum(cj).String(), HashA: identity.Sum(cja).String(), Again: string(cj)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%.200q (-Go +module):\n%s", docs[i], diff)
		}
	}
	return accepted
}

func TestVectorsOfTimes(t *testing.T) {
	t.Parallel()
	type vector struct {
		Name   string
		Input  struct{ Text string }
		Expect struct{ Canonical, Error string }
	}
	all := cases[vector](t, "canon/testdata/timestamps.json", 124)
	for i, got := range ask(t, newModule(t), "time", each(all, func(v vector) string { return v.Input.Text })) {
		if want := all[i].Expect; got.Text != want.Canonical || (got.Error != "") != (want.Error != "") {
			t.Errorf("%s, %q: %q, %s; want %+v", all[i].Name, all[i].Input.Text, got.Text, got.Message, want)
		}
	}
}

func TestVectorsOfIDs(t *testing.T) {
	t.Parallel()
	type vector struct {
		Name  string
		Input struct {
			Seed, Hex string
			ID        *string
		}
		Expect struct {
			ID, Short string
			DIDKey    string `json:"did_key"`
			Error     string
		}
	}
	m, all := newModule(t), cases[vector](t, "identity/testdata/identity.json", 40)
	texts := each(all, func(v vector) string {
		switch {
		case v.Input.Seed != "":
			return v.Expect.ID
		case v.Input.ID != nil:
			return *v.Input.ID
		}
		return v.Input.Hex
	})
	var seeds, ids []string
	for i, got := range ask(t, m, "id", texts) {
		v := all[i]
		if v.Input.Seed != "" {
			seeds, ids = append(seeds, v.Input.Seed), append(ids, v.Expect.ID)
			if got.DID != v.Expect.DIDKey || got.Short != v.Expect.Short {
				t.Errorf("%s: %+v, want %+v", v.Name, got, v.Expect)
			}
		}
		if got.ID != v.Expect.ID || (got.Error != "") != (v.Expect.Error != "") {
			t.Errorf("%s: %+v, want %+v", v.Name, got, v.Expect)
		}
	}
	for i, got := range ask(t, m, "seed", seeds) {
		if got.ID != ids[i] || got.Seed != seeds[i] {
			t.Errorf("seed %s: %+v, want id %s", seeds[i], got, ids[i])
		}
	}
	if len(seeds) != 30 {
		t.Errorf("%d seeds, want 30", len(seeds))
	}
}

type signatureInput struct {
	ID        string `json:"id"`
	Message   string `json:"message"`
	Signature string `json:"signature"`
}

func TestVectorsOfSignatures(t *testing.T) {
	t.Parallel()
	type vector struct {
		Name  string
		Input struct {
			PublicKey          string `json:"public_key"`
			Message, Signature string
		}
		Expect struct{ Valid bool }
	}
	all := cases[vector](t, "identity/testdata/ed25519.json", 88)
	inputs := each(all, func(v vector) signatureInput {
		return signatureInput{v.Input.PublicKey, v.Input.Message, v.Input.Signature}
	})
	m, valid := newModule(t), 0
	for i, got := range ask(t, m, "signature", inputs) {
		if got.Valid != all[i].Expect.Valid || got.Error != "" {
			t.Errorf("%s: %+v, want %t", all[i].Name, got, all[i].Expect.Valid)
		}
		if got.Valid {
			valid++
		}
	}
	if valid == 0 {
		t.Error("no signature verifies")
	}
	// Signatures that crypto/ed25519 accepts and libsodium rejects: an R of small order, and keys
	// of small order, in canonical form or not, under which R = base point and S = 1 fit some
	// messages.
	crafted := []signatureInput{{"03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8", hex.EncodeToString([]byte("hello")),
		"01" + strings.Repeat("00", 31) + "886ae494f275b058711e7af9a674b98a115a93ee84abcc8d0bf3e79ab2cdec02"}}
	for _, y := range []string{
		strings.Repeat("00", 32), "01" + strings.Repeat("00", 31), "ec" + strings.Repeat("ff", 30) + "7f", "ed" + strings.Repeat("ff", 30) + "7f", "ee" + strings.Repeat("ff", 30) + "7f",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	} {
		for _, sign := range []byte{0, 0x80} {
			key := unhex(t, y)
			key[31] |= sign
			for message := range byte(100) {
				crafted = append(crafted, signatureInput{hex.EncodeToString(key), hex.EncodeToString([]byte{message}), "58" + strings.Repeat("66", 31) + "01" + strings.Repeat("00", 31)})
			}
		}
	}
	for i, got := range ask(t, m, "signature", crafted) {
		if got.Valid || got.Error != "" {
			t.Errorf("%+v: %+v, want an invalid signature", crafted[i], got)
		}
	}
	// Keys and signatures at random, some of them right: the module judges as Go does.
	r := rand.New(rand.NewPCG(1, 2))
	random := make([]signatureInput, 500)
	for i := range random {
		seed, msg := make([]byte, 32), make([]byte, r.IntN(100))
		fill(r, seed, msg)
		key, err := identity.KeyFromSeed(seed)
		must(t, err)
		sig, err := key.Sign(t.Context(), msg)
		must(t, err)
		id := key.ID()
		switch i % 4 {
		case 0:
			id[r.IntN(32)] ^= 1 << r.IntN(8)
		case 1:
			sig[r.IntN(64)] ^= 1 << r.IntN(8)
		case 2:
			fill(r, id[:])
		}
		random[i] = signatureInput{id.String(), hex.EncodeToString(msg), hex.EncodeToString(sig)}
	}
	for i, got := range ask(t, m, "signature", random) {
		id, _ := identity.ParseID(random[i].ID)
		if want := identity.Verify(id, unhex(t, random[i].Message), unhex(t, random[i].Signature)); got.Valid != want || got.Error != "" {
			t.Errorf("%+v: %+v, want %t", random[i], got, want)
		}
	}
}

func fill(r *rand.Rand, dst ...[]byte) {
	for _, b := range dst {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	must(t, err)
	return b
}

func TestVectorsOfHashes(t *testing.T) {
	t.Parallel()
	type vector struct {
		Name   string
		Input  struct{ Message string }
		Expect struct{ Digest string }
	}
	all := cases[vector](t, "identity/testdata/blake2b.json", 38)
	for i, got := range ask(t, newModule(t), "hash", each(all, func(v vector) string { return v.Input.Message })) {
		if got.Hash != all[i].Expect.Digest {
			t.Errorf("%s: %s, want %s", all[i].Name, got.Hash, all[i].Expect.Digest)
		}
	}
}

func TestVectorsOfEnvelopes(t *testing.T) {
	t.Parallel()
	type vector struct {
		Name   string
		Input  json.RawMessage
		Expect struct {
			Payload         string `json:"signing_payload"`
			Hash, Signature string
		}
	}
	all := cases[vector](t, "envelope/testdata/envelope.json", 60)
	for i, got := range ask(t, newModule(t), "envelope", each(all, func(v vector) json.RawMessage { return v.Input })) {
		want := all[i].Expect
		if payload := string(unhex(t, got.Bytes)); payload != want.Payload || got.Hash != want.Hash || got.Signature != want.Signature || !got.Valid {
			t.Errorf("%s: %s, %+v; want %+v", all[i].Name, payload, got, want)
			continue
		}
		// Go's request of the same envelope is the module's, byte for byte.
		q, err := envelope.DecodeRequest([]byte(got.Request))
		if err != nil {
			t.Errorf("%s: Go refuses the module's request: %v", all[i].Name, err)
			continue
		}
		if ours := envelope.AppendRequest(nil, nil, &q.Envelope); string(ours) != got.Request {
			t.Errorf("%s: request %s, want Go's %s", all[i].Name, got.Request, ours)
		}
	}
}

// The module accepts, refuses, hashes and verifies bodies of requests and answers as Go does:
// every body of the vectors, as it is and with one byte changed at random.
func TestVectorsOfBodies(t *testing.T) {
	t.Parallel()
	type body struct {
		Name  string
		Input struct {
			Raw     *string
			RawHex  string `json:"raw_hex"`
			Request json.RawMessage
		}
		Expect struct {
			Valid bool
			Hash  string
			Steps []struct {
				Request json.RawMessage
				Status  int
				Body    json.RawMessage
			}
		}
	}
	var requests, responses [][]byte
	for _, v := range cases[body](t, "envelope/testdata/envelope_verify.json", 60) {
		requests = append(requests, v.Input.Request)
	}
	for _, v := range cases[body](t, "envelope/testdata/requests.json", 152) {
		if v.Input.Raw != nil {
			requests = append(requests, []byte(*v.Input.Raw))
		} else {
			requests = append(requests, unhex(t, v.Input.RawHex))
		}
	}
	for _, v := range cases[body](t, "chain/testdata/chain.json", 3) {
		for _, step := range v.Expect.Steps {
			requests = append(requests, step.Request)
			if step.Status == http.StatusOK {
				responses = append(responses, step.Body)
			}
		}
	}
	m, r := newModule(t), rand.New(rand.NewPCG(3, 4))
	for _, kind := range []struct {
		name   string
		bodies [][]byte
		decode func([]byte) (envelope.Envelope, error)
		count  int
	}{
		{"request", requests, func(b []byte) (envelope.Envelope, error) { q, err := envelope.DecodeRequest(b); return q.Envelope, err }, 313},
		{"response", responses, envelope.DecodeResponse, 82},
	} {
		if len(kind.bodies) != kind.count {
			t.Errorf("%d bodies of a %s, want %d", len(kind.bodies), kind.name, kind.count)
		}
		bodies := kind.bodies
		for _, b := range kind.bodies {
			bodies = append(bodies, damaged(r, b))
		}
		accepted, verified := 0, 0
		for i, got := range ask(t, m, kind.name, each(bodies, hex.EncodeToString)) {
			e, err := kind.decode(bodies[i])
			if err != nil {
				if got.Error == "" {
					t.Errorf("the module accepts %s; Go refuses it: %v", bodies[i], err)
				}
				continue
			}
			accepted++
			hash, ok := e.Verify()
			if ok {
				verified++
			}
			if got.Hash != hash.String() || got.Valid != ok || got.Message != string(envelope.AppendMessage(nil, &e)) {
				t.Errorf("%s: %+v, want hash %s, valid %t", bodies[i], got, hash, ok)
			}
		}
		if accepted < 60 || verified < 20 {
			t.Errorf("of the bodies of a %s, %d are accepted and %d verify: this proves little", kind.name, accepted, verified)
		}
	}
}

// damaged changes one byte of b.
func damaged(r *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) > 0 {
		b[r.IntN(len(b))] = []byte(`"\{}[]:,0123456789abcdefEn-. ` + "\x00\xff")[r.IntN(31)]
	}
	return b
}

func TestVectorsOfCards(t *testing.T) {
	t.Parallel()
	type vector struct {
		Name   string
		Input  json.RawMessage
		Expect struct{ Payload, Hash, Signature, Blob string }
	}
	m, all := newModule(t), cases[vector](t, "card/testdata/card.json", 40)
	var blobs [][]byte
	for i, got := range ask(t, m, "card", each(all, func(v vector) json.RawMessage { return v.Input })) {
		want := all[i].Expect
		blobs = append(blobs, []byte(want.Blob))
		// An empty endpoint is written as null; both have the same signed bytes.
		sameBlob := got.Blob == want.Blob || strings.Replace(want.Blob, `"endpoint":""`, `"endpoint":null`, 1) == got.Blob
		if got.Bytes != want.Payload || got.Hash != want.Hash || got.Signature != want.Signature || !sameBlob || !got.Valid {
			t.Errorf("%s: %+v, want %+v", all[i].Name, got, want)
		}
	}
	type parsed struct {
		Name  string
		Input struct {
			Blob    *string
			BlobHex string `json:"blob_hex"`
		}
	}
	for _, v := range cases[parsed](t, "card/testdata/card_parse.json", 48) {
		if v.Input.Blob != nil {
			blobs = append(blobs, []byte(*v.Input.Blob))
		} else {
			blobs = append(blobs, unhex(t, v.Input.BlobHex))
		}
	}
	r := rand.New(rand.NewPCG(5, 6))
	for _, b := range blobs[:len(blobs):len(blobs)] {
		blobs = append(blobs, damaged(r, b))
	}
	verified := 0
	for i, got := range ask(t, m, "blob", each(blobs, hex.EncodeToString)) {
		c, err := card.Parse(blobs[i])
		if err != nil {
			if got.Error == "" {
				t.Errorf("the module accepts %q; Go refuses it: %v", blobs[i], err)
			}
			continue
		}
		if c.Verify() {
			verified++
		}
		want := answer{Valid: c.Verify(), Hash: c.Hash().String(), Blob: string(c.Blob())}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-Go +module):\n%s", blobs[i], diff)
		}
	}
	if verified < 20 {
		t.Errorf("%d cards verify: this proves little", verified)
	}
}

func TestVectorsOfEventsAndEpochs(t *testing.T) {
	t.Parallel()
	type vector struct {
		Name   string
		Input  json.RawMessage
		Expect struct {
			Canonical, Signature, Root string
			Hash                       string `json:"event_hash"`
			EpochSignature             string `json:"epoch_signature"`
		}
	}
	input := func(v vector) json.RawMessage { return v.Input }
	var events, epochs []vector
	for _, v := range cases[vector](t, "event/testdata/registry_events.json", 30) {
		if strings.HasPrefix(v.Name, "register") {
			events = append(events, v)
		} else {
			epochs = append(epochs, v)
		}
	}
	m := newModule(t)
	for i, got := range ask(t, m, "event", each(events, input)) {
		want := events[i].Expect
		if got.Bytes != want.Canonical || got.Signature != want.Signature || got.Hash != want.Hash || !got.Valid {
			t.Errorf("%s: %+v, want %+v", events[i].Name, got, want)
		}
	}
	for i, got := range ask(t, m, "epoch", each(epochs, input)) {
		want := epochs[i]
		var operated struct {
			Seed string `json:"operator_seed"`
		}
		must(t, json.Unmarshal(want.Input, &operated))
		operator, err := identity.KeyFromSeed(unhex(t, operated.Seed))
		must(t, err)
		if got.Root != want.Expect.Root || !identity.Verify(operator.ID(), unhex(t, got.Bytes), unhex(t, want.Expect.EpochSignature)) {
			t.Errorf("%s: %+v, want %+v", want.Name, got, want.Expect)
		}
	}
	if len(events) != 20 || len(epochs) != 10 {
		t.Errorf("%d events and %d epochs, want 20 and 10", len(events), len(epochs))
	}
}

// The module and Go must agree on so many random inputs.
const series = 10_000

func TestRandomJSONIsReadAsByGo(t *testing.T) {
	t.Parallel()
	r := random(t)
	docs := make([][]byte, series)
	for i := range docs {
		docs[i] = randomJSON(r, nil, 0)
		if i%3 == 0 {
			docs[i] = damaged(r, docs[i])
		}
	}
	if accepted := compareJSON(t, newModule(t), docs); accepted < series/2 || accepted == series {
		t.Errorf("%d of %d documents are accepted: this proves little", accepted, series)
	}
}

func TestRandomBytesHashAsByGo(t *testing.T) {
	t.Parallel()
	r := random(t)
	inputs := make([][]byte, series)
	for i := range inputs {
		inputs[i] = make([]byte, r.IntN(600))
		fill(r, inputs[i])
	}
	for i, got := range ask(t, newModule(t), "hash", each(inputs, hex.EncodeToString)) {
		if want := identity.Sum(inputs[i]).String(); got.Hash != want {
			t.Fatalf("%x: %s, want %s", inputs[i], got.Hash, want)
		}
	}
}

// random is seeded by the clock in a deep run, and otherwise gives the same verdict for the
// same tree.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(1)
	if !testing.Short() {
		seed = uint64(time.Now().UnixNano())
	}
	t.Log("seed", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// randomJSON appends a document in which every construct of JSON occurs.
func randomJSON(r *rand.Rand, dst []byte, depth int) []byte {
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	space := func() { dst = append(dst, pick("", "", "", " ", "\n", "\t\r")...) }
	space()
	kind := r.IntN(10)
	if depth > 5 {
		kind = r.IntN(8)
	}
	switch kind {
	case 0:
		dst = append(dst, pick("null", "true", "false")...)
	case 1:
		dst = fmt.Appendf(dst, "%s%d", pick("", "-"), r.Uint64()>>r.IntN(64))
	case 2:
		dst = fmt.Appendf(dst, "%s%d%s%d", pick("", "-"), r.Uint64()>>r.IntN(64), pick(".", "e", "E", "e-", "e+", ".0e", ".25E-"), r.IntN(340))
	case 3: // any float64, in digits that Go chose
		dst = fmt.Appendf(dst, "%s%d.%d%s", pick("", "-"), r.IntN(10), r.Uint64(), pick("", fmt.Sprintf("e%d", r.IntN(640)-330)))
	case 4:
		dst = append(dst, pick("0", "-0", "0.0", "-0.0", "1e16", "1e-5", "0.0001", "9007199254740993", "5e-324", "2e-324", "1e308", "1.7976931348623159e308", "NaN", "01", "123456789012345678901234567890")...)
	case 8:
		dst = append(dst, '[')
		for i := range r.IntN(5) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = randomJSON(r, dst, depth+1)
		}
		dst = append(dst, ']')
	case 9:
		dst = append(dst, '{')
		for i := range r.IntN(6) {
			if i > 0 {
				dst = append(dst, ',')
			}
			space()
			dst = randomString(r, dst)
			space()
			dst = randomJSON(r, append(dst, ':'), depth+1)
		}
		dst = append(dst, '}')
	default:
		dst = randomString(r, dst)
	}
	space()
	return dst
}

// randomString appends a string of raw and escaped characters of every plane.
func randomString(r *rand.Rand, dst []byte) []byte {
	dst = append(dst, '"')
	for range r.IntN(8) {
		c := rune(r.Uint32() >> (11 + r.IntN(20)))
		switch {
		case r.IntN(40) == 0:
			dst = fmt.Appendf(dst, `\u%04x`, 0xd800+r.IntN(0x800))
		case r.IntN(6) == 0:
			dst = append(dst, '\\', `"\/bfnrt`[r.IntN(8)])
		case r.IntN(4) == 0:
			if c > 0xffff {
				c -= 0x10000
				dst = fmt.Appendf(dst, `\u%04X\u%04x`, 0xd800+(c>>10)&0x3ff, 0xdc00+c&0x3ff)
			} else {
				dst = fmt.Appendf(dst, `\u%04x`, c)
			}
		case c < 0x20 || c == '"' || c == '\\':
			dst = append(dst, 'a', '/')
		default:
			dst = append(dst, string(c)...)
		}
	}
	return append(dst, '"')
}

func TestReadsAreSignedAsByGo(t *testing.T) {
	t.Parallel()
	type request struct {
		Authority string `json:"authority"`
		Method    string `json:"method"`
		Target    string `json:"target"`
		Body      string `json:"body,omitempty"`
	}
	type input struct {
		Seed    string  `json:"seed"`
		Request request `json:"request"`
		Seconds int64   `json:"seconds"`
	}
	key, err := identity.KeyFromSeed(bytes.Repeat([]byte{7}, 32))
	must(t, err)
	at := time.Unix(1_800_000_000, 0)
	var inputs []input
	for _, q := range []request{{"Host.Example:8443", "GET", "/v1/lineage/x?y=%20", ""}, {"h", "POST", "/v1/a", hex.EncodeToString([]byte(`{"a":1}`))}, {"h", "GET", "/a\nb", ""}} {
		inputs = append(inputs, input{hex.EncodeToString(key.Seed()), q, at.Unix()})
	}
	for i, got := range ask(t, newModule(t), "read", inputs) {
		q := inputs[i].Request
		want, err := readproof.Sign(t.Context(), key, readproof.Request{Authority: q.Authority, Method: q.Method, Target: q.Target, Body: unhex(t, q.Body)}, at)
		if got.Value != want || (got.Error != "") != (err != nil) {
			t.Errorf("%+v: %+v, want %s, %v", q, got, want, err)
		}
	}
}
