package web

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli"
	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/agent/history"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/upgrade"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// drops gives files to one page of /web/chains, one after the other, and returns the verdict
// on each: a part and its state a line.
func drops(t *testing.T, texts ...[]byte) (verdicts []string) {
	t.Helper()
	h := newHost(t)
	tab, path := newPage(t, h.url+"/web/chains"), filepath.Join(t.TempDir(), "file.json")
	for _, text := range texts {
		must(t, os.WriteFile(path, text, 0o600))
		tab.eval(`document.getElementById("verdict").setAttribute("aria-busy", "true")`, nil)
		tab.drop("#file", path)
		tab.until(`document.getElementById("verdict").getAttribute("aria-busy") === "false"`)
		var lines []string
		tab.eval(`[...document.querySelectorAll("#verdict li")].map((e) => e.textContent)`, &lines)
		verdicts = append(verdicts, strings.Join(lines, "\n"))
		// The next file has the same name, so the input must not keep it.
		tab.eval(`document.getElementById("file").value = ""`, nil)
	}
	return verdicts
}

// exported is an export with every part: a card, a manifest, entries of a logbook, and calls
// to two vacants.
func exported(t *testing.T, entries int) []byte {
	t.Helper()
	key, parent, at := keyOf(t, 1), keyOf(t, 2), time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)
	b := datadir.Bundle{Key: key, Agent: []byte(`{"model": "m"}`)}
	must(t, b.SignCard(t.Context(), "translate ZH↔EN"))
	m := composite.Manifest{ParentID: parent.ID(), ChildID: key.ID(), BirthPath: "D2", ClosedByDefault: true, AddedTools: []string{"\uffee", "😀", "a"},
		Reachability: composite.ParentOnly, OutboundPolicy: composite.NoExternal, SchemaVersion: composite.SchemaV2}
	must(t, errors.Join(m.SignParent(t.Context(), parent), m.SignChild(t.Context(), key)))
	b.Manifest = &m
	e := logbook.Next(nil, logbook.KindGenesis, at, logbook.GenesisPayload("alice", key.ID()))
	for i := range entries {
		if _, err := e.Sign(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		b.Logbook = append(b.Logbook, e)
		e = logbook.Next(&e, logbook.KindKeyExported, at.Add(time.Duration(i)*time.Millisecond), logbook.KeyExportedPayload("https://host/ü\u202e"))
	}
	for n := range byte(2) {
		target := keyOf(t, 10+n).ID()
		call := envelope.Envelope{From: key.ID(), To: target, Seq: 1, Time: at, Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hello"}}, IdempotencyKey: "k"}
		if _, err := call.Sign(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		b.Chains = append(b.Chains, dispatch.State{Self: key.ID(), Target: target, Sent: []envelope.Envelope{call}, LastSignedTime: at})
	}
	return b.AppendExport(nil, "alice", at)
}

func TestExportsAreJudgedAsByGo(t *testing.T) {
	t.Parallel()
	whole := string(exported(t, 3))
	self, other, target := keyOf(t, 1).ID().String(), keyOf(t, 2).ID().String(), keyOf(t, 10).ID().String()
	files := []string{whole}
	for _, damage := range [][2]string{
		{hex.EncodeToString(keyOf(t, 1).Seed()), strings.Repeat("11", 32)},
		{hex.EncodeToString(keyOf(t, 1).Seed()), strings.Repeat("01", 31)},
		{`"id": "` + self, `"id": "` + other},
		{`"id": "` + self, `"id": "`},
		{"translate", "Translate"},
		{`"halo_version":1`, `"halo_version":2`},
		{`"birth_path":"D2"`, `"birth_path":"D3"`},
		{`"child_id":"` + self, `"child_id":"` + target},
		{`"birth_path":"D2"`, `"birth_path":"D9"`},
		{`"schema_version":"v2"`, `"schema_version":"v1"`},
		{`"signature_parent":"`, `"signature_parent":"00`},
		{`"name": "alice", "vacant_id"`, `"name": "mallo", "vacant_id"`},
		{`"prev_hash": "0`, `"prev_hash": "1`},
		{`"kind": "GENESIS", `, ``},
		{"hello", "hallo"},
		{`"target": "` + target, `"target": "` + self},
		{`"self": "` + self, `"self": "` + other},
		{`"bound"`, `"bond"`},
		{`"caller_signature":"`, `"caller_signature":"zz`},
		{`"format": "vacancy-export/1"`, `"format": "vacancy-export/2"`},
		{`"logbook": [`, `"logbook": {`},
		{`"chains": {`, `"chains": {"` + other + `": null,`},
		{`"exported": "`, `"exported": "", "exported": "`},
	} {
		if !strings.Contains(whole, damage[0]) {
			t.Errorf("the export has no %q", damage[0])
		}
		files = append(files, strings.Replace(whole, damage[0], damage[1], 1))
	}
	// Truncated at each tenth, and files of other kinds.
	for i := range 10 {
		files = append(files, whole[:len(whole)*i/10])
	}
	files = append(files, "{}", "[]", "null", whole+"x", "\ufeff"+whole, "\xff"+whole)
	verdicts := drops(t, each(files, func(s string) []byte { return []byte(s) })...)
	broken := 0
	for i, got := range verdicts {
		e, err := datadir.ParseExport([]byte(files[i]))
		if err != nil {
			if !strings.HasPrefix(got, "file: failed — neither a file of") {
				t.Errorf("Go refuses the file %d, %v; the page says\n%s", i, err, got)
			}
			continue
		}
		var want []string
		for _, f := range e.Check() {
			state := "verified"
			if !f.OK {
				state = "failed"
				broken++
			}
			want = append(want, f.Part+": "+state)
		}
		var parts []string
		for line := range strings.Lines(got) {
			part, _, _ := strings.Cut(strings.TrimSpace(line), " — ")
			parts = append(parts, part)
		}
		if diff := cmp.Diff(want, parts); diff != "" {
			t.Errorf("file %d (-Go +page):\n%s\n%s\n%+v", i, diff, got, e.Check())
		}
	}
	if broken < 16 {
		t.Errorf("%d parts are broken: this proves little", broken)
	}
}

// historyLines returns the lines that "vacancy chain --json" prints of a history with every kind of
// row.
func historyLines(t *testing.T) []string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "host")
	a := story(t, dir)
	var out, errs bytes.Buffer
	args := []string{"chain", a.Pair().Caller.String(), a.Pair().Vacant.String(), "--json", "--data", dir}
	if code := cli.Run(context.Background(), cli.Seams{Now: a.Now}, args, strings.NewReader(""), &out, &errs, []string{"VACANCY_HOME=" + t.TempDir()}); code != 0 {
		t.Fatalf("vacancy chain: %s", errs.Bytes())
	}
	return strings.SplitAfter(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestHistoriesAreVerified(t *testing.T) {
	t.Parallel()
	lines := historyLines(t)
	whole := strings.Join(lines, "") + "\n"
	if len(lines) < 12 {
		t.Fatalf("%d lines", len(lines))
	}
	edit := func(n int, from, to string) string {
		if !strings.Contains(lines[n-1], from) {
			t.Fatalf("line %d has no %q: %s", n, from, lines[n-1])
		}
		edited := slices.Clone(lines)
		edited[n-1] = strings.Replace(edited[n-1], from, to, 1)
		return strings.Join(edited, "") + "\n"
	}
	var read []struct {
		Hash     string
		Decision struct{ Answer struct{ Hash string } }
	}
	must(t, json.Unmarshal([]byte("["+strings.Join(lines, ",")+"]"), &read))
	// signed is an entry of one message of line 6: its call, or its answer.
	type part struct {
		Hash, Prev, Time, Text string
		Seq                    int
		Message                json.RawMessage
	}
	var sixth struct {
		part
		Decision struct{ Answer part }
	}
	must(t, json.Unmarshal([]byte(lines[5]), &sixth))
	call := func(p part, fate string) string {
		return fmt.Sprintf(`{"position":1,"kind":"call","epoch":0,"seq":%d,"time":%q,"hash":%q,"text":%q,"prev":%q,"message":%s,%s}`+"\n", p.Seq, p.Time, p.Hash, p.Text, p.Prev, p.Message, fate)
	}
	ans := sixth.Decision.Answer
	answerAsCall := call(ans, `"fate":"pending"`)
	callAsAnswer := call(sixth.part, fmt.Sprintf(`"fate":"answered","decision":{"position":1,"answer":{"seq":%d,"time":%q,"hash":%q,"text":%q,"prev":%q,"message":%s}}`, sixth.Seq, sixth.Time, sixth.Hash, sixth.Text, sixth.Prev, sixth.Message))
	hashOf := func(n int) string { return read[n-1].Hash }
	answerOf := func(n int) string { return read[n-1].Decision.Answer.Hash }
	without := func(n int) string { return strings.Join(slices.Delete(slices.Clone(lines), n-1, n), "") + "\n" }
	swapped := slices.Clone(lines)
	swapped[1], swapped[2] = swapped[2], swapped[1]
	cases := []struct{ name, file, want string }{
		{"whole", whole, "entries: verified — entries: " + fmt.Sprint(len(lines))},
		{"late answers", lateAnswers(t), "entries: verified — entries: 6"},
	}
	for n := range len(lines) - 1 { // as --last prints
		cases = append(cases, struct{ name, file, want string }{fmt.Sprint("the last ", n+1), strings.Join(lines[len(lines)-1-n:], "") + "\n", "entries: verified"})
	}
	cases = append(cases, []struct{ name, file, want string }{
		{"a line is gone", without(3), "numbers: failed — entry 4: expected position 3"},
		{"lines change places", strings.Join(swapped, "") + "\n", "numbers: failed — entry 3: expected position 2"},
		{"a line comes twice", lines[0] + whole, "numbers: failed — entry 1: expected position 2"},
		{"another number", edit(2, `"seq":2`, `"seq":7`), "numbers: failed — entry 2: expected call 0.2, got 0.7"},
		{"another epoch", edit(10, `"epoch":1`, `"epoch":5`), "epochs: failed — entry 10: expected epoch 1, got 5"},
		{"an early reset", edit(9, `"time":"2026-05-09`, `"time":"2026-05-08`), "epochs: failed — entry 9: a reset is signed later"},
		{"a decision of two", edit(2, `"decision":{"position":2`, `"decision":{"position":1`), "bindings: failed — entry 2: decision 1 is the decision of another call"},
		{"another answer", edit(3, `"answer":{"seq":3`, `"answer":{"seq":9`), "bindings: failed — entry 3: expected answer 0.3, got 0.9"},
		{"a fate without its answer", edit(4, `"fate":"void"`, `"fate":"answered"`), "entry: failed — entry 4: answer: expected one"},
		{"a fate that is none", edit(4, `"fate":"void"`, `"fate":"gone"`), "entry: failed — entry 4: fate: expected answered"},
		{"a damaged text", edit(1, `"sealed":true`, `"damaged":true`), "texts: failed — entry 1: its text is damaged"},
		{"a hash that is none", edit(1, `"hash":"`, `"hash":"x`), "entry: failed — entry 1: "},
		{"a time in another form", edit(1, `+00:00`, `Z`), "entry: failed — entry 1: time: expected its canonical form"},
		{"truncated", whole[:len(whole)-20], "entry: failed — line " + fmt.Sprint(len(lines)) + ": the file ends before the end of the line"},
		{"no JSON", lines[0] + "{\n" + strings.Join(lines[1:], "") + "\n", "entry: failed — line 2: not JSON"},
		{"no UTF-8", lines[0] + "\xff\n", "entry: failed — line 2: "},
		{"another link", edit(2, `}},"prev":"`+hashOf(1), `}},"prev":"`+hashOf(3)), "links: failed — entry 2: it names " + hashOf(3) + " as the call before, expected " + hashOf(1)},
		{"another link of an answer", edit(3, `"prev":"`+answerOf(2), `"prev":"`+answerOf(1)), "links: failed — entry 3: its answer names " + answerOf(1) + " as the answer before"},
		{"another hash of a sealed message", edit(3, `"hash":"`+hashOf(3), `"hash":"`+hashOf(4)), "links: failed — entry 4: it names " + hashOf(3)},
		{"another text", edit(6, `"text":"hello tomorrow","fate"`, `"text":"hello today","fate"`), "links: failed — entry 6: the message is not the one that the entry tells of"},
		{"another message", strings.ReplaceAll(whole, `"hello tomorrow"`, `"hello today"`), "links: failed — entry 6: the message is not the one"},
		{"a text that its sender did not sign", edit(6, `{"type":"text","text":"hello tomorrow"}`, `{"type":"text","text":"hello today"}`), "signatures: failed — entry 6: the signature of the message does not verify"},
		{"an answer that the vacant did not sign", edit(6, `: hello tomorrow"}]`, `: hello today"}]`), "signatures: failed — entry 6: the signature of the answer does not verify"},
		{"an answer to another call", edit(6, `"re:`+hashOf(6), `"re:`+hashOf(5)), "bindings: failed — entry 6: the answer is not bound to the call"},
		{"an answer of another pair", edit(8, `"from_vacant_id":"`, `"from_vacant_id":"`+strings.Repeat("0", 64)+`","x":"`), "bindings: failed — entry 8: the answer is of another pair"},
		{"a call as a reset", strings.Replace(strings.Replace(edit(11, `"kind":"call"`, `"kind":"reset"`), `"epoch":1,"seq":2`, `"epoch":2,"seq":0`, 1), `,"fate":"closed"`, "", 1), "bindings: failed — entry 11: the message is not signed as a reset"},
		{"an answer as a call", answerAsCall, "bindings: failed — entry 1: the message is not signed as a call"},
		{"a call as an answer", callAsAnswer, "bindings: failed — entry 1: the answer is not signed as an answer"},
		{"without a message", edit(6, `"message":{"role":"ROLE_USER"`, `"massage":{"role":"ROLE_USER"`), "entry: failed — entry 6: message: expected an object"},
	}...)
	for i, got := range drops(t, each(cases, func(c struct{ name, file, want string }) []byte { return []byte(c.file) })...) {
		sameVerdict(t, cases[i].name, cases[i].file, got)
		if !strings.Contains(got, cases[i].want) {
			t.Errorf("%s: want %q, got\n%s", cases[i].name, cases[i].want, got)
		}
		if i == 0 && (!strings.Contains(got, "signatures: verified — messages: 16, each signed by its sender") || !strings.Contains(got, "signatures: not checked — messages that can no longer be read: 9")) {
			t.Errorf("%s: got\n%s", cases[i].name, got)
		}
		if sound := i <= len(lines); sound == strings.Contains(got, "failed") {
			t.Errorf("%s: got\n%s", cases[i].name, got)
		}
	}
}

// lateAnswers is a sound history whose decisions come late: a slow call is answered after a later one, a void of an
// epoch comes after answers of the next, and a reset is signed before the host's clock.
func lateAnswers(t *testing.T) string {
	t.Helper()
	caller, vacant, at := keyOf(t, 1), keyOf(t, 2), time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)
	signed := func(from, to *identity.Key, seq int64, prev identity.Hash, ahead time.Duration, role envelope.Role, text, key string) (identity.Hash, string) {
		e := envelope.Envelope{From: from.ID(), To: to.ID(), Seq: seq, Prev: prev, Time: at.Add(ahead), IdempotencyKey: key, Payload: envelope.Message{Role: role, Parts: []string{text}}}
		hash, err := e.Sign(t.Context(), from)
		must(t, err)
		return hash, fmt.Sprintf(`"seq":%d,"time":%q,"hash":%q,"text":%q,"prev":%q,"message":%s`, seq, canon.FormatTime(e.Time), hash, text, prev, envelope.AppendMessage(nil, &e))
	}
	call := func(seq int64, prev identity.Hash, ahead time.Duration, text string) (identity.Hash, string) {
		return signed(caller, vacant, seq, prev, ahead, envelope.RoleUser, text, "k")
	}
	answer := func(request identity.Hash, seq int64, prev identity.Hash, ahead time.Duration) (identity.Hash, string) {
		return signed(vacant, caller, seq, prev, ahead, envelope.RoleAgent, "yes", envelope.ReplyKey(request))
	}
	var none identity.Hash
	one, slow := call(1, none, time.Second, "slow")
	two, quick := call(2, one, 2*time.Second, "quick")
	_, paid := call(3, two, 3*time.Second, "paid")
	toTwo, first := answer(two, 1, none, time.Minute)
	_, second := answer(one, 2, toTwo, 2*time.Minute)
	_, reset := signed(caller, vacant, 9, none, 4*time.Second, envelope.RoleUser, "RESET_CHAIN", "k")
	four, next := call(1, none, 5*time.Second, "next")
	five, last := call(2, four, 6*time.Second, "last")
	toFour, third := answer(four, 1, none, 3*time.Minute)
	_, fourth := answer(five, 2, toFour, 3*time.Minute)
	line := func(position int, kind string, epoch int, members, rest string) string {
		return fmt.Sprintf(`{"position":%d,"kind":%q,"epoch":%d,%s%s}`+"\n", position, kind, epoch, members, rest)
	}
	answered := func(position int, members string) string {
		return fmt.Sprintf(`,"fate":"answered","decision":{"position":%d,"answer":{%s}}`, position, members)
	}
	return line(1, "call", 0, slow, answered(2, second)) + line(2, "call", 0, quick, answered(1, first)) + line(3, "call", 0, paid, `,"fate":"void","decision":{"position":4}`) +
		line(4, "reset", 1, strings.Replace(reset, `"seq":9`, `"seq":0`, 1), "") + line(5, "call", 1, next, answered(3, third)) + line(6, "call", 1, last, answered(5, fourth))
}

// sameVerdict requires "vacancy verify FILE" to say of a history what the page says: all of it, but for the text of a
// refusal of one line.
func sameVerdict(t *testing.T, name, file, page string) {
	t.Helper()
	h, err := history.Check(strings.NewReader(file))
	must(t, err)
	var lines []string
	for _, f := range h.Parts {
		lines = append(lines, fmt.Sprintf("%s: %s — %s", f.Part, map[bool]string{true: "verified", false: "failed"}[f.OK], f.Detail))
	}
	if h.Unread > 0 {
		lines = append(lines, fmt.Sprintf("signatures: not checked — messages that can no longer be read: %d; neither their hashes nor their signatures can be checked", h.Unread))
	}
	refusal := regexp.MustCompile(`(?m)^(entry: failed — (?:entry|line) \d+: ).*`)
	if diff := cmp.Diff(refusal.ReplaceAllString(strings.Join(lines, "\n"), "$1"), refusal.ReplaceAllString(page, "$1")); diff != "" {
		t.Errorf("%s: vacancy verify FILE and the page differ (-verify +page):\n%s", name, diff)
	}
}

// Files of 200 MB are verified to their ends, and larger ones than a host writes are refused.
func TestFilesOf200MBAreVerified(t *testing.T) {
	const size = 200 << 20
	filler := strings.Repeat("ä", 50_000)
	var long bytes.Buffer
	key := keyOf(t, 1)
	e := envelope.Envelope{From: key.ID(), To: keyOf(t, 2).ID(), Time: time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC), Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{filler}}}
	for n := 1; long.Len() < size; n++ {
		e.Seq++
		hash, err := e.Sign(t.Context(), key)
		must(t, err)
		fmt.Fprintf(&long, `{"position":%d,"kind":"call","epoch":0,"seq":%d,"time":"2026-05-06T00:00:00+00:00","hash":%q,"prev":%q,"text":%q,"message":%s,"fate":"pending"}`+"\n", n, n, hash, e.Prev, filler, envelope.AppendMessage(nil, &e))
		e.Prev = hash
	}
	// Only its last line is broken.
	last := bytes.LastIndex(bytes.TrimSpace(long.Bytes()), []byte("\n"))
	broken := append(long.Bytes()[:last+1:last+1], bytes.Replace(long.Bytes()[last+1:], []byte("pending"), []byte("lost"), 1)...)
	export := exported(t, 3)
	padded := bytes.Replace(export, []byte(`"exported"`), append(append([]byte(`"more": "`), bytes.Repeat([]byte("x"), size)...), `", "exported"`...), 1)
	got := drops(t, broken, padded, make([]byte, 256<<20+1))
	if strings.Count(got[0], "failed") != 1 || !strings.Contains(got[0], fmt.Sprintf("signatures: verified — messages: %d,", e.Seq)) {
		t.Errorf("a long history:\n%.500s", got[0])
	}
	for i, want := range []string{fmt.Sprintf("entry %d: fate: expected answered", e.Seq), "chains: verified — targets: 2", "file: failed — expected at most 268435456 bytes, got 268435457"} {
		if !strings.Contains(got[i], want) {
			t.Errorf("file %d: want %q, got\n%.500s", i, want, got[i])
		}
	}
}

// The calls of a browser are verified, and each damage of what it stored is named.
func TestOwnCallsAreVerified(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	id := h.publish("a")
	tab := newPage(t, h.url+"/web/chains")
	own := func() string {
		t.Helper()
		tab.visit(h.url + "/web/chains")
		tab.until(`document.getElementById("own")?.getAttribute("aria-busy") === "false"`)
		return tab.text("#own")
	}
	expect(t, "before a call", own(), "This browser has not called a vacant of this host yet.")
	tab.eval(fmt.Sprintf(`(async () => {
		const base = document.querySelector("script[type=module]").src.replace(/[^/]*$/, "");
		const [{ Book }, { Caller }, { newSigner }] = await Promise.all(["book", "caller", "vacant"].map((name) => import(base + name + ".js")));
		const [book, signer] = [await Book.open(), await newSigner()];
		await book.addKey({ ...signer, exportable: false, made: Date.now() });
		const caller = new Caller(book, signer, { id: %[1]q, send: location.origin + "/v/%[1]s/a2a/message/send" });
		await caller.call("one");
		await caller.call("two");
		await caller.reset();
		await caller.call("three");
		await caller.call("four");
	})()`, id), nil)
	expect(t, "five calls", own(), "to "+id.Short(), "calls: verified — calls: 5, signed, bound and linked", "not failed")
	tab.accessible("chains")

	// change runs a script on the stored calls c, and puts them back.
	change := func(script string) {
		t.Helper()
		tab.eval(`new Promise((resolve, reject) => {
			indexedDB.open("vacancy").onsuccess = ({ target }) => {
				const tx = target.result.transaction("calls", "readwrite");
				const store = tx.objectStore("calls");
				store.getAll().onsuccess = (e) => {
					let c = e.target.result;
					globalThis.kept ??= structuredClone(c);
					`+script+`
					store.clear();
					for (const call of c) store.put(call);
				};
				tx.oncomplete = () => { target.result.close(); resolve(true); };
				tx.onabort = () => reject(tx.error);
			};
		})`, nil)
	}
	var kept string
	for _, damage := range []struct{ script, want string }{
		{`c[0].request.payload.parts[0] = "One"`, "signatures: failed — call 0.1: the signature of the request does not verify"},
		{`c[0].request.signature = c[1].request.signature`, "signatures: failed — call 0.1"},
		{`c[0].reply.payload.parts[0] += "!"`, "signatures: failed — call 0.1: the signature of the answer does not verify"},
		{`c[0].reply.signature = c[1].reply.signature`, "signatures: failed — call 0.1: the signature of the answer"},
		{`c[1].reply = c[0].reply`, "bindings: failed — call 0.2: the answer is not bound to the request"},
		{`c[1].reply = null`, "bindings: failed — call 0.2: its answer is missing"},
		{`c[1].requestHash = c[0].requestHash`, "links: failed — call 0.2: the hash of the request"},
		{`c[1].replyHash = c[0].replyHash`, "links: failed — call 0.2: the answer is not the one"},
		{`c.splice(0, 1)`, "numbers: failed — call 0.2: expected call 0.1, so calls are missing"},
		{`c.splice(3, 1)`, "numbers: failed — call 1.2: expected call 1.1"},
		{`c[2].request.ts = c[0].request.ts`, "signatures: failed — reset 1"},
		{`c[4].target = c[4].self; c[4].request.to = c[4].self`, "signatures: failed — call 1.2"},
		{`c[4].self = c[4].target`, "bindings: failed — call 1.2: it is a call of another pair"},
	} {
		if kept == "" {
			change("")
			tab.eval(`JSON.stringify(kept)`, &kept)
		}
		change(damage.script)
		expect(t, damage.script, own(), damage.want)
		change(`c = ` + kept)
	}
	expect(t, "repaired", own(), "calls: verified — calls: 5", "not failed")
}

// story writes a history with every kind of row to the data directory of a host.
func story(t testing.TB, dir string) *hosttest.Caller {
	t.Helper()
	err := os.MkdirAll(dir, 0o700)
	vault, vaultErr := local.Open(filepath.Join(dir, standalone.SealFile), rand.Reader)
	file, fileErr := bolt.Open(filepath.Join(dir, standalone.DataFile), bolt.Options{})
	if err := errors.Join(err, vaultErr, fileErr); err != nil {
		t.Fatal(err)
	}
	a := hosttest.NewWithVault(t, file, vault).Story()
	_, err = upgrade.InitVersion(t.Context(), upgrade.Data{Store: file, Now: a.Now, Rand: rand.Reader})
	a.Must(err)
	a.Must(file.Close())
	return a
}
