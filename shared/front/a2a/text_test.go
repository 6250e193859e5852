package a2a_test

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

const versionSet = "Content-Type: application/x-www-form-urlencoded" // what curl -d sends

// say posts a text as curl -d does.
func (w *world) say(path, text string, headers ...string) answer {
	w.t.Helper()
	return w.do("POST", path, text, append([]string{versionSet}, headers...)...)
}

// talker says the pieces that it is asked for, which are separated by |. Some words make it fail.
func talker(string) (substrate.Substrate, error) {
	return said(func(r substrate.Request, yield func(substrate.Event, error) bool) {
		asked := r.Turns[len(r.Turns)-1].Text
		if kind, ok := map[string]problem.Kind{"fail": problem.SubstrateUnavailable, "late": problem.DeadlineExceeded}[asked]; ok {
			if yield(substrate.Text("a part"), nil) {
				yield(nil, problem.New(kind, ""))
			}
			return
		}
		for piece := range strings.SplitSeq(asked, "|") {
			if !yield(substrate.Text(piece), nil) {
				return
			}
		}
		end := substrate.FinishStop
		if strings.HasPrefix(asked, "too long") {
			end = substrate.FinishLength
		}
		yield(end, nil)
	}), nil
}

type said func(substrate.Request, func(substrate.Event, error) bool)

func (s said) Infer(_ context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) { s(r, yield) }
}

func talking(t *testing.T) *world {
	t.Helper()
	w := openWorld(t, true, func(c *serve.Config) { c.Substrates["talker"] = talker }).runs()
	w.create("talker", "talker")
	return w
}

// Each body is answered as the text that it is, or refused by one line.
func TestATextIsTheBodyAsItIs(t *testing.T) {
	w := talking(t)
	nul := strings.Repeat("\x00", canon.DefaultLimits().Bytes/6+1)
	for _, tt := range []struct {
		name, body, media string
		status            int
		want              string // the answer, or a part of the refusal
	}{
		{"curl -d", "hi", "application/x-www-form-urlencoded", 200, "hi"},
		{"a form is not decoded", "a=1&b=%41+%zz", "application/x-www-form-urlencoded", 200, "a=1&b=%41+%zz"},
		{"plain text", "grüße\n\t<b>&</b>", "text/plain; charset=UTF-8", 200, "grüße\n\t<b>&</b>"},
		{"JSON is text too", `{"message":"hi"}`, "application/json", 200, `{"message":"hi"}`},
		{"no media type", "hi", "", 200, "hi"},
		{"NUL", "a\x00b", "text/plain", 200, "a\x00b"},
		{"white space", " \r\n", "text/plain", 200, " \r\n"},
		{"the largest", strings.Repeat("x", canon.DefaultLimits().Bytes-66), "text/plain", 200, strings.Repeat("x", canon.DefaultLimits().Bytes-66)},
		{"a byte more", strings.Repeat("x", canon.DefaultLimits().Bytes-65), "text/plain", 413, "body: expected at most 262080 bytes in JSON"},
		{"nothing", "", "text/plain", 400, "body: expected a text, got none"},
		{"not UTF-8", "ab\xffc", "text/plain", 400, "body: expected a text in UTF-8, got other bytes at byte 2"},
		{"Latin-1 by name", "hi", "text/plain; charset=iso-8859-1", 415, "expected text/plain in UTF-8, or what curl -d sends"},
		{"a form with parts", "hi", "multipart/form-data; boundary=x", 415, "expected text/plain in UTF-8"},
		{"a file", "hi", "application/octet-stream", 415, "expected text/plain in UTF-8"},
		{"a media type of nothing", "hi", ";;", 415, "expected text/plain in UTF-8"},
		{"too large", strings.Repeat("x", canon.DefaultLimits().Bytes+1), "text/plain", 413, "body: expected at most 262144 bytes"},
		{"too large in JSON", nul, "text/plain", 413, "bytes in JSON, which escapes quotes and control characters"},
	} {
		got := w.do("POST", "/v/talker/text", tt.body, "Content-Type: "+tt.media)
		if got.status != tt.status || got.header.Get("Content-Type") != "text/plain; charset=utf-8" || got.header.Get("X-Content-Type-Options") != "nosniff" || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v %.200q, want %d", tt.name, got.status, got.header, got.body, tt.status)
			continue
		}
		if tt.status == 200 && got.body != tt.want || tt.status != 200 && (!strings.Contains(got.body, tt.want) || strings.Count(got.body, "\n") != 1 || !strings.HasSuffix(got.body, "\n")) {
			t.Errorf("%s: %.200q, want %q", tt.name, got.body, tt.want)
		}
	}
	if got := w.do("POST", "/v/talker/text", "hi", "Content-Type: text/plain", "Content-Encoding: gzip"); got.status != 415 {
		t.Errorf("a body that is compressed: %d %s", got.status, got.body)
	}
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		if got := w.do(method, "/v/talker/text", ""); got.status != 405 || got.header.Get("Allow") != "POST" || got.body != method+" is not allowed here; use POST\n" {
			t.Errorf("%s: %d %q", method, got.status, got.body)
		}
	}
	for _, query := range []string{"max_prize=5", "context=a;b", "max_price=5;x"} {
		if got := w.say("/v/talker/text?"+query, "hi"); got.status != 400 || !strings.HasPrefix(got.body, "query: expected context and max_price") {
			t.Errorf("the query %s: %d %q", query, got.status, got.body)
		}
	}
}

// A guest continues a conversation by the name that its answer had, and no other way. An account
// chooses names, which are its own.
func TestATextContinuesAContext(t *testing.T) {
	w := known(t)
	path := "/v/" + w.mind("mind").Name + "/text"
	first := w.say(path, "one")
	name := first.header.Get("Vacancy-Context")
	if !strings.HasPrefix(name, "ctx-") {
		t.Fatalf("the first answer: %d %v %s", first.status, first.header, first.body)
	}
	next := w.say(path+"?context="+name, "two")
	if next.body != "one+two" || next.header.Get("Vacancy-Context") != name {
		t.Errorf("the next: %q in %q", next.body, next.header.Get("Vacancy-Context"))
	}
	// A2A continues it, too: both are one pipeline.
	if got := w.rpc("/v/mind", "SendMessage", message("three", fmt.Sprintf(`,"contextId":%q`, name))); at(t, got.body, "result", "task", "status", "message", "parts", 0, "text") != "one+two+three" {
		t.Errorf("by A2A: %s", got.body)
	}
	if got := w.do("GET", "/v/mind/tasks?contextId="+name, ""); at(t, got.body, "totalSize") != "3" {
		t.Errorf("its tasks: %s", got.body)
	}
	if got := w.say(path+"?context=", "new"); got.body != "new" || got.header.Get("Vacancy-Context") == name {
		t.Errorf("an empty context: %d %q", got.status, got.body)
	}
	for _, other := range []string{"mine", name + "x", w.say("/v/echo/text", "hi").header.Get("Vacancy-Context")} {
		if got := w.say(path+"?context="+other, "hi"); got.status != 400 || !strings.HasPrefix(got.body, "context: expected the Vacancy-Context of an answer of this vacant") {
			t.Errorf("the context %q: %d %q", other, got.status, got.body)
		}
	}
	for _, bad := range []string{"a%0d%0ab", "a%20b", "%c3%a9", strings.Repeat("a", 513), "a&context=b"} {
		if got := w.say(path+"?context="+bad, "hi", w.acme); got.status != 400 || !strings.HasPrefix(got.body, "context: expected one name of at most 512 visible ASCII characters") {
			t.Errorf("the context %.20q: %d %q", bad, got.status, got.body)
		}
	}
	w.say(path+"?context=ours", "a secret", w.acme)
	if got := w.say(path+"?context=ours", "more", w.acme); got.body != "a secret+more" || got.header.Get("Vacancy-Context") != "ours" {
		t.Errorf("an account's context: %d %q", got.status, got.body)
	}
	if got := w.say(path+"?context=ours", "hello", w.other); got.body != "hello" {
		t.Errorf("another account's: %d %q", got.status, got.body)
	}
	if got := w.say(path+"?context="+name, "hello", w.other); got.body != "hello" {
		t.Errorf("an account in a guest's context: %d %q", got.status, got.body)
	}
	w.setPlain(w.echo, vacants.KeylessShared)
	if got := w.say("/v/echo/text?context=all", "hi"); got.status != 200 || got.header.Get("Vacancy-Context") != "all" {
		t.Errorf("plain shared: %d %q", got.status, got.body)
	}
}

// eventRenderer are the events of a stream: name and data, which is joined as clients join it.
func eventRenderer(t *testing.T, body string) (all [][2]string) {
	t.Helper()
	var name string
	var data []string
	for s := bufio.NewScanner(strings.NewReader(strings.ReplaceAll(strings.ReplaceAll(body, "\r\n", "\n"), "\r", "\n"))); s.Scan(); {
		switch line := s.Text(); {
		case line == "" && data != nil:
			all = append(all, [2]string{name, strings.Join(data, "\n")})
			name, data = "", nil
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			data = append(data, line[len("data: "):])
		case line != "" && !strings.HasPrefix(line, ":"):
			t.Errorf("a line %q", line)
		}
	}
	return all
}

// A stream is pieces and the event done. What an agent says never becomes an event of its own.
func TestATextIsStreamed(t *testing.T) {
	w := talking(t)
	const accept = "Accept: text/event-stream"
	for asked, want := range map[string]string{
		"one ":                           "one ",
		"one |two |three":                "one two three",
		"a\n\n b|\n":                     "a\n\n b\n",
		"x\r\rdata: y|\revent: done\r\r": "x\n\ndata: y\nevent: done\n\n",
		"a\r|\nb":                        "a\nb",
		"event: done\n\n":                "event: done\n\n",
	} {
		got := w.say("/v/talker/text", asked, accept)
		all := eventRenderer(t, got.body)
		text := ""
		for _, e := range all[:max(0, len(all)-1)] {
			text += e[1]
			if e[0] != "" {
				t.Errorf("%q: an event %q", asked, e)
			}
		}
		if text != want || len(all) == 0 || all[len(all)-1] != [2]string{"done", ""} {
			t.Errorf("%q is %q, want %q and done", asked, all, want)
		}
		if h := got.header; h.Get("Content-Type") != "text/event-stream" || h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(h.Get("Vacancy-Context"), "ctx-") {
			t.Errorf("%q has the headers %v", asked, h)
		}
	}
	failed := eventRenderer(t, w.say("/v/talker/text", "fail", accept).body)
	if last := failed[len(failed)-1]; last != [2]string{"error", "the vacant failed to answer: its agent is not available"} {
		t.Errorf("an agent that fails: %q", failed)
	}
	if got := w.say("/v/talker/text", "", accept); got.status != 400 || got.body != "body: expected a text, got none\n" {
		t.Errorf("the refusal of a stream: %d %q", got.status, got.body)
	}
}

// Who reads an answer that ends early learns why.
func TestATextThatIsCutSaysSo(t *testing.T) {
	w := talking(t)
	if got := w.say("/v/talker/text", "too long"); got.status != 200 || got.body != "too long" || got.header.Get("Vacancy-Cut") != "length" {
		t.Errorf("a cut answer: %d %q, Vacancy-Cut %q; want length", got.status, got.body, got.header.Get("Vacancy-Cut"))
	}
	all := eventRenderer(t, w.say("/v/talker/text", "too long", "Accept: text/event-stream").body)
	if want := [][2]string{{"", "too long"}, {"done", "length"}}; !slices.Equal(all, want) {
		t.Errorf("a cut answer as a stream: %q, want %q", all, want)
	}
	if got := w.say("/v/talker/text", "whole"); got.header.Get("Vacancy-Cut") != "" {
		t.Errorf("a whole answer has Vacancy-Cut %q", got.header.Get("Vacancy-Cut"))
	}
}

// Pieces are sent before the answer is whole.
func TestPiecesOfATextComeAsTheAgentSaysThem(t *testing.T) {
	heard := make(chan struct{})
	w := openWorld(t, true, func(c *serve.Config) {
		c.Substrates["slow"] = func(string) (substrate.Substrate, error) {
			return said(func(_ substrate.Request, yield func(substrate.Event, error) bool) {
				if !yield(substrate.Text("one"), nil) {
					return
				}
				<-heard
				_ = yield(substrate.Text("two"), nil) && yield(substrate.FinishStop, nil)
			}), nil
		}
	}).runs()
	w.create("slow", "slow")
	r, err := http.NewRequestWithContext(t.Context(), "POST", w.http.URL+"/v/slow/text", strings.NewReader("hi"))
	must(t, err)
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	must(t, err)
	defer resp.Body.Close()
	s := bufio.NewScanner(resp.Body)
	if !s.Scan() || s.Text() != "data: one" {
		t.Errorf("the first line is %q", s.Text())
	}
	close(heard)
	var last []string
	for s.Scan() {
		last = append(last, s.Text())
	}
	if !slices.Contains(last, "event: done") {
		t.Errorf("then %q", last)
	}
}

// A refusal is one line with the status of its kind.
func TestRefusalsOfATextAreLines(t *testing.T) {
	w := talking(t)
	refused := func(name string, got answer, status int, want string) {
		t.Helper()
		if got.status != status || got.header.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.Contains(got.body, want) || strings.Count(got.body, "\n") != 1 {
			t.Errorf("%s: %d %q, want %d with %q", name, got.status, got.body, status, want)
		}
	}
	refused("an agent that fails", w.say("/v/talker/text", "fail"), 500, "its agent is not available")
	refused("an agent that is late", w.say("/v/talker/text", "late"), 504, "the vacant did not answer in time")
	refused("no such vacant", w.say("/v/nobody/text", "hi"), 404, "no such vacant or path")
	refused("a key of nobody", w.say("/v/echo/text", "hi", "Authorization: Bearer x"), 401, "Authorization: ")
	off, on := vacants.KeylessOff, vacants.KeylessOpen
	for _, set := range []*vacants.KeylessAccess{&off, &on} {
		_, err := w.server.Vacants.Update(t.Context(), w.echo.ID, vacants.Changes{KeylessAccess: set})
		must(t, err)
		if set == &off {
			refused("plain off", w.say("/v/echo/text", "hi"), 403, "answers only signed calls; send one with vacancy call")
		}
	}
	w.pairLimited(1)
	w.say("/v/echo/text", "hi")
	got := w.say("/v/echo/text", "hi")
	refused("too many conversations", got, 429, "too many new pairs and resets from this address")
	if n, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || n < 1 {
		t.Errorf("Retry-After: %v", got.header)
	}
	w = talking(t)
	for _, tt := range []struct {
		status int
		want   string
		do     func() error
	}{
		{423, "", func() error { _, err := w.server.Vacants.Pause(t.Context(), w.echo.ID); return err }},
		{410, "", func() error { _, _, err := w.server.Vacants.Revoke(t.Context(), w.echo.ID, "lost"); return err }},
	} {
		must(t, tt.do())
		w.skip.Add(int64(2 * time.Second)) // the record is cached for a second
		refused(strconv.Itoa(tt.status), w.say("/v/echo/text", "hi"), tt.status, tt.want)
	}
	w.store.down.Store(true)
	down := w.say("/v/talker/text", "hi")
	w.store.down.Store(false)
	refused("a store that is away", down, 503, "")
	if down.header.Get("Retry-After") == "" {
		t.Errorf("a store that is away: %v", down.header)
	}
}

// The header bounds the price at each address of a vacant.
func TestAHeaderBoundsThePriceEverywhere(t *testing.T) {
	w := known(t)
	w.setPrice(price.Price{Flat: 2000})
	w.credit("acme", 20_000)
	ways := map[string]func(query string, headers ...string) answer{
		"text": func(q string, h ...string) answer { return w.say("/v/echo/text"+q, "hi", append(h, w.acme)...) },
		"rpc": func(q string, h ...string) answer {
			return w.rpc("/v/echo"+q, "SendMessage", withID("", "hi", "}"), append(h, w.acme)...)
		},
		"rest": func(q string, h ...string) answer {
			return w.do("POST", "/v/echo/message:send"+q, withID("", "hi", "}"), append(h, w.acme)...)
		},
		"stream": func(q string, h ...string) answer {
			return w.do("POST", "/v/echo/message:stream"+q, withID("", "hi", "}"), append(h, w.acme)...)
		},
	}
	ways["completion"] = func(q string, h ...string) answer {
		return w.do("POST", "/v/echo"+completions+q, asking("hi", ""), append(h, w.acme)...)
	}
	for name, send := range ways {
		if got := send("", "Vacancy-Max-Price: 1999"); !strings.Contains(got.body, "1999") && !strings.Contains(got.body, "0.001999") || strings.Contains(got.body, "echo from") {
			t.Errorf("%s, above the header: %d %s", name, got.status, got.body)
		}
		for _, bad := range []string{"x", "-1", "+1", "", "1, 2"} {
			if got := send("", "Vacancy-Max-Price: "+bad); !strings.Contains(got.body, "Vacancy-Max-Price: expected one whole number of micro-dollars, 0 or more") {
				t.Errorf("%s, a header %q: %d %s", name, bad, got.status, got.body)
			}
		}
		if got := send("?max_price=2000", "Vacancy-Max-Price: 2000"); !strings.Contains(got.body, "max_price: expected one whole number") {
			t.Errorf("%s, both: %d %s", name, got.status, got.body)
		}
		if name != "text" {
			if got := send("?max_price=5;x"); !strings.Contains(got.body, "max_price: expected a query that can be decoded completely") {
				t.Errorf("%s, a query that does not decode: %d %s", name, got.status, got.body)
			}
		}
	}
	w.wantBalance("acme", 20_000)
	for name, send := range ways {
		if got := send("", "Vacancy-Max-Price: 2000"); got.status != 200 || !strings.Contains(got.body, "echo from") {
			t.Errorf("%s, within the header: %d %s", name, got.status, got.body)
		}
	}
	w.wantBalance("acme", 10_000)
}

// Clients append a path to a base URL that ends with a slash.
func TestSlashesAfterAVacantAreOne(t *testing.T) {
	w := talking(t)
	for _, path := range []string{"/v/talker//text", "/v/talker///text", "/v/talker/text/"} {
		if got := w.say(path, "hi"); got.body != "hi" {
			t.Errorf("%s: %d %q", path, got.status, got.body)
		}
	}
	for _, path := range []string{"/v/talker//message:send", "/v/talker//"} {
		body := message("hi", "")
		if path == "/v/talker//" {
			body = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":` + body + `}`
		}
		if got := w.do("POST", path, body); got.status != 200 || !strings.Contains(got.body, "TASK_STATE_COMPLETED") {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	for _, path := range []string{"/v/talker//card", "/v/talker//health", "/v/talker//.well-known/agent-card.json", "/v/talker//"} {
		if got := w.do("GET", path, ""); got.status != 200 {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if got := w.do("GET", "/v/talker//", ""); at(t, got.body, "url") != w.http.URL+"/v/"+at(t, got.body, "capabilities", "extensions", 0, "params", "vacant_id") {
		t.Errorf("the card's url: %s", at(t, got.body, "url"))
	}
	if got := w.say("/v//talker/text", "hi"); got.status != 404 {
		t.Errorf("no vacant: %d %q", got.status, got.body)
	}
}

// The form of a refusal follows from the path, so it tells nobody which vacants there are.
func TestATextToAnUnknownVacantIsAnsweredLikeOneToAClosedChild(t *testing.T) {
	w := talking(t)
	unknown := w.say("/v/"+strings.Repeat("ab", 32)+"/text", "hi")
	named := w.say("/v/nobody/text", "hi")
	if unknown.status != 404 || unknown.body != named.body || named.status != 404 {
		t.Errorf("%d %q and %d %q", unknown.status, unknown.body, named.status, named.body)
	}
	const page = "Origin: https://evil.example"
	if unknown, known := w.say("/v/nobody/text", "hi", page), w.say("/v/talker/text", "hi", page); known.status != 403 || unknown.status != 403 || unknown.body != known.body {
		t.Errorf("for a page of another site: %d %q and %d %q", unknown.status, unknown.body, known.status, known.body)
	}
	// A vacant may be named text.
	w.create("text", "talker")
	if got := w.rpc("/v/text", "SendMessage", message("hi", "")); at(t, got.body, "result", "task", "status", "state") != "TASK_STATE_COMPLETED" {
		t.Errorf("a vacant named text: %s", got.body)
	}
	if got := w.do("PUT", "/v/text", ""); got.status != 405 || !strings.HasPrefix(got.body, "{") {
		t.Errorf("a refusal of a vacant named text: %d %s", got.status, got.body)
	}
}

// deadlines records the last read deadline of a connection.
type deadlines struct {
	*httptest.ResponseRecorder
	last time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.last = at
	return nil
}

// An answer may take longer than the limit for reading a body.
func TestTheReadDeadlineEndsBeforeTheAnswer(t *testing.T) {
	w := talking(t)
	for _, tt := range []struct{ path, body, accept string }{
		{"/v/talker/text", "hi", ""}, {"/v/talker/text", "hi", "text/event-stream"},
		{"/v/talker", send(message("hi", "")), ""}, {"/v/talker" + completions, asking("hi", ""), ""},
	} {
		d := &deadlines{ResponseRecorder: httptest.NewRecorder(), last: time.Now()}
		r := httptest.NewRequest("POST", tt.path, strings.NewReader(tt.body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", tt.accept)
		w.http.Config.Handler.ServeHTTP(d, r)
		if d.Code != 200 || !d.last.IsZero() {
			t.Errorf("%s: %d %s with the deadline %v", tt.path, d.Code, d.Body, d.last)
		}
	}
}
