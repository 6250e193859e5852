package serve_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/handlers"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens"
	hostcall "github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/documents"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/operator"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	queue "github.com/vacancy-host/vacancy/shared/host/queue/local"
	"github.com/vacancy-host/vacancy/shared/host/registry/callstats"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/host/substrate/worker"
	"github.com/vacancy-host/vacancy/shared/host/upgrade"
	"github.com/vacancy-host/vacancy/shared/host/usage/exports"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/files"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

// The golden file has each document that a host stores, byte for byte, and what a host
// answers over a store in which one document is damaged: the first document of each kind.
// Damaged data leaves number, index and expiry as they were; documents without data, such as
// balances, are only listed.
func TestDocumentsAreStoredAsBefore(t *testing.T) {
	const golden = "testdata/documents.golden"
	var got bytes.Buffer
	whole := drive(t)
	whole.hasAllKinds(t)
	whole.record(t, &got, func(store.Key) bool { return true })
	got.WriteString("\n# A log with a full tile\n")
	whole.fillTile(t)
	whole.record(t, &got, func(k store.Key) bool { return strings.HasPrefix(k.Sort, "tile#") })
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(strings.Split(string(before), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("documents and answers (-want +got):\n%s", diff)
	}
	whole.keepsForms(t)
}

// hasAllKinds fails for a kind of which there is no document.
func (whole *documented) hasAllKinds(t *testing.T) {
	t.Helper()
	seen := map[string]bool{
		hostcall.UnsettledAnswerDocs.Name: true, // only a ledger that settles late keeps answers
		vacants.ReadyDocs.Name:            true, // only package standalone writes it
		spend.HostTotalDocs.Name:          true, // the vacant that thinks is a tenant's
		translog.TileDocs.Name:            true, // see fillTile
	}
	for _, d := range whole.store.all(t) {
		kind, ok := documents.Find(d.Key)
		if !ok {
			t.Errorf("%s is of no kind", d.Key)
		}
		seen[kind.Name] = true
	}
	for _, kind := range documents.All() {
		if !seen[kind.Name] {
			t.Errorf("drive stores no %s", kind.Name)
		}
	}
}

// record writes the documents that are chosen, and the answers over damaged ones.
func (whole *documented) record(t *testing.T, w *bytes.Buffer, chosen func(store.Key) bool) {
	t.Helper()
	docs := slices.DeleteFunc(whole.store.all(t), func(d store.Doc) bool { return !chosen(d.Key) })
	w.WriteString("# Stored documents\n")
	for i := range docs {
		writeDoc(w, &docs[i])
	}
	w.WriteString("\n# Answers over damaged documents, where they differ from those over whole ones\n")
	want := whole.answers(t, store.Key{}, nil)
	seen := map[string]bool{}
	for i := range docs {
		d := &docs[i]
		kind := kindOf(d.Key)
		if seen[kind] || len(d.Data) == 0 {
			continue
		}
		seen[kind] = true
		fmt.Fprintf(w, "\n%s\n", d.Key)
		var outcomes, names []string // of damages; names of those with the same outcome are joined
		for _, harm := range damages(docs, d) {
			outcome := outcomeOf(want, whole.answers(t, d.Key, harm.data))
			if n := slices.Index(outcomes, outcome); n >= 0 {
				names[n] += ", " + harm.name
				continue
			}
			outcomes, names = append(outcomes, outcome), append(names, harm.name)
		}
		for n := range names {
			fmt.Fprintf(w, "  %s\n%s", names[n], outcomes[n])
		}
	}
}

// writeDoc writes a document: its key and what it has beside its data, and the data, as
// hexadecimal digits unless it is text.
func writeDoc(w *bytes.Buffer, d *store.Doc) {
	fmt.Fprintf(w, "\n%q", d.Key.String())
	if d.Number != 0 {
		fmt.Fprintf(w, " number=%d", d.Number)
	}
	if d.Index != (store.Key{}) {
		fmt.Fprintf(w, " index=%q", d.Index.String())
	}
	if !d.Expires.IsZero() {
		fmt.Fprintf(w, " expires=%s", d.Expires.Format(time.RFC3339))
	}
	text := string(d.Data)
	if !utf8.Valid(d.Data) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }) {
		text = ""
		for line := range slices.Chunk(d.Data, 64) {
			text += hex.EncodeToString(line) + "\n"
		}
	}
	w.WriteByte('\n')
	for line := range strings.Lines(text) {
		w.WriteString("  " + strings.TrimSuffix(line, "\n") + "\n")
	}
}

var varying = regexp.MustCompile(`[0-9a-f]{32,}|[0-9]+([-:T.][0-9]+)*Z?|slot-[a-z]+`)

// kindOf names the kind of a document, by the pattern that the kind's keys share.
func kindOf(k store.Key) string {
	partition, rest, of := strings.Cut(k.Partition, "#")
	if of {
		partition += "#"
	}
	if partition == "use#" {
		part, _, _ := strings.Cut(rest, "#")
		partition += part + "#"
	}
	switch partition {
	case "name", "nameowner", "former", "kin#", "secret#", "acct", "tenant", "budget", "queue#":
		return partition
	}
	sort, _, of := strings.Cut(varying.ReplaceAllString(k.Sort, "N"), "#")
	if of {
		sort += "#"
	}
	return partition + "/" + sort
}

// damage is other data of a document.
type damage struct {
	name string
	data []byte
}

var (
	formatMember = regexp.MustCompile(`"format":\d+`)
	idDigits     = regexp.MustCompile(`[0-9a-f]{64}`)
)

// damages are the damages of a document: no data, cut data, data of a later format, and data
// of another owner.
func damages(docs []store.Doc, d *store.Doc) []damage {
	all := []damage{{"no data", []byte{}}}
	if d.Data[0] == '{' {
		later := formatMember.ReplaceAll(d.Data, []byte(`"format":99`))
		if bytes.Equal(later, d.Data) {
			later = append([]byte(`{"format":99,`), d.Data[1:]...)
		}
		all = append(all, damage{"cut to {", []byte("{")}, damage{"format 99", later})
	} else {
		all = append(all, damage{"one byte 0xff", []byte{0xff}}, damage{"format 99", append([]byte{99}, d.Data[1:]...)})
	}
	i := slices.IndexFunc(docs, func(o store.Doc) bool {
		return o.Key != d.Key && kindOf(o.Key) == kindOf(d.Key) && len(o.Data) > 0 && !bytes.Equal(o.Data, d.Data)
	})
	if i >= 0 {
		return append(all, damage{"data of " + docs[i].Key.String(), docs[i].Data})
	}
	if at := idDigits.FindIndex(d.Data); at != nil && d.Data[0] == '{' {
		other := bytes.Clone(d.Data)
		other[at[1]-1] ^= 1 // 0 and 1, 2 and 3, … a and `
		if other[at[1]-1] == '`' || other[at[1]-1] == 'g' {
			other[at[1]-1] = '0'
		}
		all = append(all, damage{"another id", other})
	}
	return all
}

// oneTask matches the name of a task in an error. Tasks are read at once, so the name
// of the first that fails differs between runs.
var oneTask = regexp.MustCompile(`task#\S+ `)

// answer is the answer of an operation.
type answer struct{ name, refusal, body, log string }

// outcomeOf says how answers differ: each difference, and below it the operations that have it.
func outcomeOf(want, got []answer) string {
	var texts, names []string
	for i, is := range got {
		text := difference(want[i], is)
		if text == "" {
			continue
		}
		if n := slices.Index(texts, text); n >= 0 {
			names[n] += ", " + is.name
			continue
		}
		texts, names = append(texts, text), append(names, is.name)
	}
	if len(texts) == 0 {
		return "    nothing differs\n"
	}
	var b strings.Builder
	for n := range texts {
		fmt.Fprintf(&b, "    %s\n      %s\n", texts[n], names[n])
	}
	return b.String()
}

// difference is how an answer differs; "" if it does not.
func difference(want, got answer) string {
	var parts []string
	switch {
	case got.refusal != want.refusal && got.refusal == "":
		parts = append(parts, "succeeds")
	case got.refusal != want.refusal:
		parts = append(parts, oneTask.ReplaceAllString(got.refusal, "task#… "))
	case got.body != want.body && got.name == "verify":
		before := strings.Split(want.body, "\n")
		for _, finding := range strings.Split(got.body, "\n") {
			if !slices.Contains(before, finding) {
				parts = append(parts, finding)
			}
		}
	case got.body != want.body:
		n := 0
		for n < min(len(got.body), len(want.body)) && got.body[n] == want.body[n] {
			n++
		}
		from := max(0, n-30)
		part := func(s string) string { return s[min(from, len(s)):min(n+60, len(s))] }
		parts = append(parts, fmt.Sprintf("…%s instead of …%s", part(got.body), part(want.body)))
	}
	if got.log != want.log {
		parts = append(parts, "log: "+strings.TrimSpace(got.log))
	}
	for i := range parts {
		parts[i] = clipped(parts[i])
	}
	return strings.ReplaceAll(strings.ToValidUTF8(strings.Join(parts, "; "), "?"), "\n", `\n`)
}

// causes is the handler of a log: the message and the cause of each warning and error.
type causes struct{ text *strings.Builder }

func (causes) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (c causes) WithAttrs([]slog.Attr) slog.Handler         { return c }
func (c causes) WithGroup(string) slog.Handler              { return c }

func (c causes) Handle(_ context.Context, r slog.Record) error {
	c.text.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "cause" {
			c.text.WriteString(": " + a.Value.String())
		}
		return true
	})
	c.text.WriteByte('\n')
	return nil
}

func clipped(s string) string {
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return s
}

// journal is a store in memory that keeps what is committed, so that it can be copied, and a
// feed of its rows.
type journal struct {
	*memory.Store
	mu      sync.Mutex
	commits [][]store.Write
	keys    map[store.Key]bool
	rows    []store.FeedRow
	blobs   blob.Blobs // of files
}

func newJournal() *journal { return &journal{Store: memory.New(), keys: map[store.Key]bool{}} }

func (j *journal) Commit(ctx context.Context, writes ...store.Write) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.Store.Commit(ctx, writes...); err != nil {
		return err
	}
	kept := slices.Clone(writes)
	for i, w := range kept {
		switch w := w.(type) {
		case store.Append:
			w.Data = bytes.Clone(w.Data)
			kept[i] = w
			j.rows = append(j.rows, store.FeedRow{Stream: w.Stream, Row: store.Row{Position: w.Position, WriteID: w.WriteID, Data: w.Data}})
		case store.Put:
			w.Data = bytes.Clone(w.Data)
			kept[i], j.keys[w.Key] = w, true
		case store.Add:
			j.keys[w.Key] = true
		}
	}
	j.commits = append(j.commits, kept)
	return nil
}

// Partitions implements store.Feed.
func (j *journal) Partitions(context.Context) ([]store.Partition, error) {
	return []store.Partition{{ID: "rows"}}, nil
}

// RowsAfter implements store.Feed.
func (j *journal) RowsAfter(_ context.Context, _, offset string, n int) (rows []store.FeedRow, next string, ended bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	from := 0
	if offset != "" {
		if from, err = strconv.Atoi(offset); err != nil || from > len(j.rows) {
			return nil, "", false, store.ErrTrimmed
		}
	}
	to := min(from+n, len(j.rows))
	return j.rows[from:to], strconv.Itoa(to), false, nil
}

// all are the documents, in the order of their keys.
func (j *journal) all(t *testing.T) (docs []store.Doc) {
	t.Helper()
	for k := range j.keys {
		d, err := j.Doc(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		if d.Version > 0 {
			docs = append(docs, d)
		}
	}
	slices.SortFunc(docs, func(a, b store.Doc) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return docs
}

// with is a copy in which a document has other data. All else of it is as it was.
func (j *journal) with(t *testing.T, k store.Key, data []byte) *journal {
	t.Helper()
	last := -1
	isOf := func(w store.Write) bool { p, ok := w.(store.Put); return ok && p.Key == k }
	for i, writes := range j.commits {
		if slices.ContainsFunc(writes, isOf) {
			last = i
		}
	}
	out := newJournal()
	out.blobs = j.blobs
	for i, writes := range j.commits {
		if i == last {
			writes = slices.Clone(writes)
			at := slices.IndexFunc(writes, isOf)
			p := writes[at].(store.Put)
			p.Data = data
			writes[at] = p
		}
		if err := out.Commit(t.Context(), writes...); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// sameRandom is randomness that is the same in each run, for many goroutines.
type sameRandom struct {
	mu    sync.Mutex
	of    *mathrand.ChaCha8
	steps map[string]int // how often a step began
}

func newRandom(seed byte) *sameRandom {
	return &sameRandom{of: mathrand.NewChaCha8([32]byte{seed}), steps: map[string]int{}}
}

func (s *sameRandom) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of.Read(b)
}

// restart seeds the randomness with the text of a step. A new step between others then changes the
// golden file only where the step itself matters.
func (s *sameRandom) restart(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps[step]++
	s.of.Seed(sha256.Sum256(fmt.Appendf(nil, "%s %d", step, s.steps[step])))
}

// movedClock stands still until it is moved.
type movedClock struct {
	mu sync.Mutex
	at time.Time
}

func (c *movedClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// next moves the clock to the next whole minute.
func (c *movedClock) next() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Truncate(time.Minute).Add(time.Minute)
}

func (c *movedClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// notices keeps the notices of notifications.
type notices struct{ all []string }

func (n *notices) SendAfter(_ context.Context, notice string, _ task.Sender, _ time.Duration) error {
	n.all = append(n.all, notice)
	return nil
}

// documented is a host whose documents are recorded, and what is known to those who use it.
type documented struct {
	store   *journal
	server  *serve.Server
	agents  *serve.A2A
	agp     *serve.AGP
	log     *translog.Log
	notices *notices
	public  site
	admin   site
	vault   custody.Vault
	said    *strings.Builder // its log
	clock   *movedClock
	rand    *sameRandom

	names map[string]string // of what stands in paths and bodies as {name}
	sent  []byte            // a signed call

	exchanges []exchange // all requests so far
}

// site is a handler and the Host of its requests.
type site struct {
	host string
	http.Handler
}

const documentsHost = "vacancy.example"

// openDocumented opens a host over a store, which has nothing in memory.
func openDocumented(t *testing.T, s *journal, at time.Time, seed byte) *documented {
	t.Helper()
	vault, err := local.FromHex(strings.Repeat("5a", 32), zeros{})
	if err != nil {
		t.Fatal(err)
	}
	h := &documented{store: s, vault: vault, clock: &movedClock{at: at}, notices: &notices{}, said: &strings.Builder{}, names: map[string]string{}, rand: newRandom(seed)}
	log := slog.New(causes{h.said})
	now := h.clock.now
	h.server, err = serve.Config{
		Store: s, Vault: vault, AllowLoopback: true, OwnMachine: true, Log: log, Now: now, Rand: h.rand, HasAccounts: true, AllowRemote: true, HoldsIdentity: true, Feed: s, Rows: s,
		Blobs: func() (blob.Blobs, error) { return s.blobs, nil },
		Substrates: substrate.Kinds{"failing": func(string) (substrate.Substrate, error) {
			return substrate.Func(func(context.Context, substrate.Request) (string, error) {
				return "", problem.New(problem.SubstrateUnavailable, "the venue is down")
			}), nil
		}},
		Models: func(*outbound.Client) substrate.Kinds { return mock.Kinds() },
		Dial:   newLogin().dial, NewTokenChecker: tokens.NewForBilling,
	}.Open()
	if err != nil {
		t.Fatal(err)
	}
	// No other process has cached links, and hundreds of hosts would wait a second each.
	h.server.Billing.Wait = func(context.Context, time.Duration) error { return nil }
	index, err := bleve.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { index.Close() })
	if h.log, err = h.server.OpenLog(nil); err != nil {
		t.Fatal(err)
	}
	found := h.server.OpenSearch(index)
	h.agents = h.server.OpenQueuedA2A(serve.Queues{Tasks: queue.New(store.Updater{Store: s, Rand: h.rand}, now), Notices: h.notices, MaxTurns: 64})
	h.agents.Find = found.Find
	h.agp = h.server.OpenAGP(h.agents, found.Find, true)
	h.public = site{documentsHost, h.recorded(serve.Handlers{
		Plain: h.agents.Plain, Protocols: handlers.NewProtocols(h.agents), AGP: h.agp, Metrics: true, Message: h.server.MessageHandler(), Registry: h.server.RegistryHandler(h.log), Search: found.Endpoint(),
		Gate: h.server.GateHandler(nil), Children: h.server.ChildrenHandler(), Account: h.server.AccountHandler(nil), Tenants: h.server.TenantsHandler(), Team: h.agents.TeamHandler(), Work: h.agents.WorkHandler(),
		Resource: h.server.ResourceHandler(), MetadataURL: h.server.MetadataURL(), PageJudge: h.server.PageJudge(),
	}.Public())}
	h.admin = site{admin.SocketHost, h.recorded(h.server.Admin())}
	return h
}

func (h *documented) fill(s string) string {
	for name, value := range h.names {
		s = strings.ReplaceAll(s, "{"+name+"}", value)
	}
	return s
}

// send sends a request a little later than the one before. A header is "Name: value".
func (h *documented) send(t *testing.T, to site, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	h.agents.Tasks.Wait() // what reads the clock in the background
	h.clock.pass(60 * time.Millisecond)
	r := httptest.NewRequest(method, "http://"+to.host+h.fill(path), strings.NewReader(h.fill(body))).WithContext(t.Context())
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(h.fill(header), ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	to.ServeHTTP(w, r)
	return w
}

// do sends a request that succeeds, and returns a member of the answer.
func (h *documented) do(t *testing.T, to site, method, path, body, member string, headers ...string) string {
	t.Helper()
	h.rand.restart(method + " " + path + " " + body)
	w := h.send(t, to, method, path, body, headers...)
	if w.Code >= http.StatusBadRequest || strings.Contains(w.Body.String(), `"error":{`) {
		t.Fatalf("%s %s = %d %s%s", method, path, w.Code, w.Body, h.said)
	}
	if member == "" {
		return ""
	}
	var v any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%s %s = %s: %v", method, path, w.Body, err)
	}
	for name := range strings.SplitSeq(member, ".") {
		of, _ := v.(map[string]any)
		v = of[name]
	}
	s, ok := v.(string)
	if !ok {
		t.Fatalf("%s %s = %s, which has no %s", method, path, w.Body, member)
	}
	return s
}

func seeded(t *testing.T, n byte) *identity.Key {
	t.Helper()
	key, err := identity.KeyFromSeed(bytes.Repeat([]byte{n}, identity.Size))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// call signs the first call of a caller, and returns its bytes.
func (h *documented) call(t *testing.T, from *identity.Key, to, text string, seq int64, prev identity.Hash) ([]byte, identity.Hash) {
	t.Helper()
	id, err := identity.ParseID(h.names[to])
	if err != nil {
		t.Fatal(err)
	}
	e := envelope.Envelope{From: from.ID(), To: id, Seq: seq, Prev: prev, Time: h.clock.now().UTC().Truncate(time.Microsecond), Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}}, IdempotencyKey: fmt.Sprint("k", seq)}
	hash, err := e.Sign(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	return envelope.AppendRequest(nil, nil, &e), hash
}

// asks is a vacant's signed request for a child.
func (h *documented) asks(t *testing.T, parent string, nonce int, at time.Time) string {
	t.Helper()
	id, err := identity.ParseID(h.names[parent])
	if err != nil {
		t.Fatal(err)
	}
	q := composite.SpawnRequest{ParentID: id, BirthPath: "D2", Name: fmt.Sprint("asked", nonce), Nonce: fmt.Sprintf("%032x", nonce), Time: at}
	if err := h.server.Vacants.WithSigner(t.Context(), id, func(s identity.Signer) error { return q.Sign(t.Context(), s) }); err != nil {
		t.Fatal(err)
	}
	return string(q.Blob())
}

// drive uses a new host in all ways, so that it has documents of as many kinds as possible.
func drive(t *testing.T) *documented {
	t.Helper()
	ctx := t.Context()
	s := newJournal()
	dir, err := files.Open(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s.blobs = dir
	h := openDocumented(t, s, time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC), 1)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v\n%s", err, h.said)
		}
	}
	name := func(name string) func(string) {
		return func(value string) { h.names[name] = value }
	}
	// section begins a part of the steps at a whole minute, so that a new step moves no time of the other parts.
	section := func(title string) {
		h.agents.Tasks.Wait()
		h.clock.next()
		h.rand.restart(title)
	}
	op := func(method, path, body string) { t.Helper(); h.do(t, h.admin, method, path, body, "") }
	made := func(called, body string) {
		t.Helper()
		name(called)(h.do(t, h.admin, "POST", "/v1/admin/vacants", body, "vacant_id"))
	}

	_, err = upgrade.InitVersion(ctx, upgrade.Data{Store: h.store, Program: "vacancy v1", Now: h.clock.now, Rand: bytes.NewReader(bytes.Repeat([]byte{1}, 16))})
	must(err)
	self, err := h.server.Vacants.HostID(ctx)
	must(err)
	secret, err := operator.Keys{Store: h.store, Now: h.clock.now, Rand: h.rand}.Rotate(ctx)
	must(err)
	name("operator")(secret)
	op("PUT", "/v1/admin/host", `{"url":"https://vacancy.example"}`)
	op("PUT", "/v1/admin/gate", `{"detector":"zeros"}`)
	op("PUT", "/v1/admin/gate?tenant=acme", `{"detector":"zeros"}`)
	op("PUT", "/v1/admin/secrets/openai", `{"value":"top","hosts":["api.openai.com"]}`)
	op("PUT", "/v1/admin/secrets/other?tenant=acme", `{"value":"secret","hosts":["api.example.com"]}`)
	op("PUT", "/v1/admin/payments/stripe", `{"value":"sk_test_x"}`)
	op("PUT", "/v1/admin/models", `{"models":[{"provider":"openai","model":"m","tier":"LOW","input":5,"output":7}]}`)
	op("PUT", "/v1/admin/models", `{"version":1,"models":[{"provider":"openai","model":"m","tier":"LOW","input":6,"output":7}]}`)
	op("PUT", "/v1/admin/budgets?tenant=acme", `{"daily":5000000}`)
	op("PUT", "/v1/admin/budgets?tenant=other", `{"daily":6000000}`)

	section("Accounts, keys, links, and a payment")
	for _, tenant := range []string{"acme", "buyer"} {
		name(tenant)(h.do(t, h.admin, "POST", "/v1/admin/accounts", `{"tenant":"`+tenant+`","shards":4}`, "account"))
		h.do(t, h.admin, "POST", "/v1/admin/accounts/"+tenant+"/credit", `{"amount":90000000,"note":"first"}`, "", "Idempotency-Key: first")
		h.do(t, h.admin, "PUT", "/v1/admin/accounts/"+tenant+"/line", `{"amount":5,"note":"n"}`, "")
		for _, key := range [][2]string{{"free", `,"cap":50000000`}, {"pro", ""}} {
			tier, more := key[0], key[1]
			name(tenant + "-" + tier)(h.do(t, h.admin, "POST", "/v1/admin/accounts/"+tenant+"/keys", `{"tier":"`+tier+`","scopes":["call","read","manage","agp"]`+more+`}`, "secret"))
		}
		must(h.server.Billing.SettlePayment(ctx, billing.Event{PaymentID: "pi_" + tenant, Account: h.names[tenant], Paid: 25_000_000}))
	}
	for n, tenant := range []string{"acme", "buyer"} {
		c := claim.PaymentClaim{Host: self, Account: h.names[tenant], DailyCap: 40_000_000}
		must(c.Sign(ctx, seeded(t, byte(20+n)), h.clock.now()))
		h.do(t, h.public, "POST", "/v1/account/links", `{"claim":"`+c.String()+`"}`, "", "Authorization: Bearer {"+tenant+"-pro}")
	}

	section("Vacants, their families and publications")
	made("demo", `{"name":"demo","capability":"leads","substrate":"echo","tenant":"acme"}`)
	made("sage", `{"name":"sage","capability":"knows","tenant":"acme","agent":{"provider":"mock","system":"`+"```mock\\ntext: so be it\\nusage: 3 2\\n```"+`","price":{"input":1000000,"output":2000000},"daily_budget":1000000}}`)
	op("PUT", "/v1/admin/vacants/sage/agent", `{"provider":"mock","model":"one","system":"`+"```mock\\ntext: so be it\\nusage: 3 2\\n```"+`","price":{"input":1000000,"output":2000000},"daily_budget":2000000}`)
	made("free", `{"name":"free","capability":"is free","substrate":"echo"}`)
	made("warung", `{"name":"warung","capability":"serves dinner","substrate":"echo","tenant":"acme"}`)
	made("closed", `{"name":"closed","capability":"serves nothing","substrate":"failing","tenant":"acme"}`)
	made("gone", `{"name":"gone","capability":"leaves","substrate":"echo"}`)
	made("lost", `{"name":"lost","capability":"is lost","substrate":"echo"}`)
	key, err := identity.KeyFromSeed(bytes.Repeat([]byte{0x5b}, identity.Size))
	must(err)
	name("imported")(key.ID().String())
	made("imported", `{"name":"imported","capability":"comes","import":{"format":"vacant-1","exported":"","name":"x","card":{},"id":"{imported}","seed_hex":"`+strings.Repeat("5b", 32)+`","logbook":[],"chains":{"{demo}":{"x":1},"{free}":{"x":2}},"manifest":null}}`)
	spawn := func(called, parent, body string) {
		t.Helper()
		name(called)(h.do(t, h.admin, "POST", "/v1/admin/vacants/"+parent+"/children", body, "vacant.vacant_id"))
	}
	spawn("kid", "demo", `{"path":"D2","name":"kid","capability":"helps"}`)
	spawn("pupil", "demo", `{"path":"D2","name":"pupil","capability":"learns"}`)
	spawn("clerk", "free", `{"path":"D2","name":"clerk","capability":"writes"}`)
	op("PUT", "/v1/admin/vacants/demo/plan", `{"version":1,"delegate":[{"child":"kid","task":"read {input}"}]}`)
	op("PUT", "/v1/admin/vacants/free/plan", `{"version":1,"delegate":[{"child":"clerk","task":"write {input}"}]}`)
	for _, vacant := range []string{"demo", "free"} {
		name("asked")(h.do(t, h.public, "POST", "/v1/admin/vacants/{"+vacant+"}/children", h.asks(t, vacant, 1, h.clock.now()), "vacant.vacant_id"))
	}
	for _, vacant := range []string{"demo", "free", "gone", "lost"} {
		op("POST", "/v1/admin/vacants/{"+vacant+"}/publish", `{"visibility":"PUBLIC","listing":{"tags":["a"],"skills":["b"],"summary":"s","family":"f","owner":"o"}}`)
	}
	for _, venue := range []string{"warung", "closed"} {
		op("POST", "/v1/admin/vacants/"+venue+"/publish", `{"visibility":"PUBLIC","listing":{"summary":"dinner","venue":{"slug":"`+venue+`","name":"n","category":"cafe","location":"Berlin","bookable":true,"capacity":4}}}`)
	}
	op("POST", "/v1/admin/vacants/{lost}/revoke", `{"reason":"lost"}`)
	op("PUT", "/v1/admin/root", `{"vacant":"demo"}`)
	for n := range byte(2) {
		elsewhere := seeded(t, 30+n)
		c, err := card.New(elsewhere.ID(), "lives elsewhere", []string{"mock"}, "https://elsewhere.example/a2a/message/send")
		must(err)
		must(c.Sign(ctx, elsewhere))
		client := &registryclient.Client{Transport: handled{h.public}, URL: "https://" + documentsHost, Reader: elsewhere, Now: h.clock.now}
		_, err = client.PublishAs(ctx, elsewhere, registryclient.Draft{Card: c, State: lifecycle.Active, Visibility: lifecycle.Public}, h.rand)
		must(err)
	}
	_, err = h.server.Registry.ProbeEndpoints(ctx, func(context.Context, string) error { return problem.New(problem.Unavailable, "nobody answers") })
	must(err)

	section("A graduation")
	sub := graduation.Submission{Request: composite.GraduationRequest{CapabilityText: "leads itself"}}
	sub.Request.ParentID, err = identity.ParseID(h.names["demo"])
	must(err)
	sub.Request.ChildID, err = identity.ParseID(h.names["pupil"])
	must(err)
	must(h.server.Vacants.WithSigner(ctx, sub.Request.ParentID, func(s identity.Signer) error { return sub.Request.SignParent(ctx, s) }))
	must(h.server.Vacants.WithSigner(ctx, sub.Request.ChildID, func(s identity.Signer) error { return sub.Request.SignChild(ctx, s) }))
	blob, err := sub.Blob()
	must(err)
	h.do(t, h.public, "POST", "/v1/graduations", string(blob), "")

	section("Calls: with a price and without, one by a plan, one of a model that costs, one left in the queue, and one with notifications")
	op("PUT", "/v1/admin/vacants/warung/price", `{"flat":2000,"free":1,"free_address":1,"free_all":9}`)
	op("PUT", "/v1/admin/vacants/sage/price", `{"in":1000,"out":2000,"most":20000}`)
	op("PUT", "/v1/admin/vacants/sage/price", `{"in":1000,"out":3000,"most":20000}`)
	payer, stranger := seeded(t, 21), seeded(t, 40)
	send := func(from *identity.Key, to, text string, seq int64, prev identity.Hash) ([]byte, identity.Hash) {
		t.Helper()
		body, hash := h.call(t, from, to, text, seq, prev)
		h.do(t, h.public, "POST", "/v/{"+to+"}/a2a/message/send", string(body), "")
		return body, hash
	}
	h.sent, _ = send(stranger, "free", "hi", 1, identity.Hash{})
	send(stranger, "demo", "a will", 1, identity.Hash{})
	send(payer, "sage", "what", 1, identity.Hash{})
	_, prev := send(payer, "warung", "free", 1, identity.Hash{})
	send(payer, "warung", "paid", 2, prev)
	send(stranger, "warung", "free", 1, identity.Hash{})
	name("stranger")(stranger.ID().String())
	name("payer")(payer.ID().String())
	op("POST", "/v1/admin/vacants/free/forget", `{"caller":"{payer}"}`)
	op("POST", "/v1/admin/vacants/demo/forget", `{}`)
	name("task")(h.do(t, h.public, "POST", "/v/free", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"taskPushNotificationConfig":{"url":"http://127.0.0.1:1/hook","token":"tok"}}}}`, "result.task.id", "A2A-Version: 1.0", "Authorization: Bearer {buyer-pro}"))
	name("guest-task")(h.do(t, h.public, "POST", "/v/demo", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m2","role":"ROLE_USER","parts":[{"text":"hi"}]}}}`, "result.task.id", "A2A-Version: 1.0"))
	name("queued-task")(h.do(t, h.public, "POST", "/v/free", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m3","role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"returnImmediately":true}}}`, "result.task.id", "A2A-Version: 1.0", "Authorization: Bearer {buyer-pro}"))
	h.agents.Tasks.Wait()
	for _, notice := range h.notices.all {
		if err := h.agents.Push.Handle(ctx, notice); err != nil && !errors.Is(err, task.ErrRetryLater) {
			t.Fatal(err)
		}
	}

	section("Bookings: of a venue that answers, and of one that does not")
	booked := func(payload, prefer string) string {
		t.Helper()
		return h.do(t, h.public, "POST", "/a2a/v1", `{"from":"nemo","intent":"booking.confirm","payload":`+payload+`}`, "booking_id", "Authorization: Bearer {buyer-pro}", "Prefer: "+prefer)
	}
	name("booking")(booked(`{"venue_slug":"warung","starts_at":"2026-05-07T12:00:00Z","party_size":2,"guest":{"name":"Ann"},"idempotency_key":"once"}`, "respond-async"))
	name("failed")(booked(`{"venue_slug":"closed","starts_at":"2026-05-07T12:00:00Z","party_size":2,"guest":{"name":"Ann"},"idempotency_key":"twice"}`, "respond-async"))
	must(h.agents.HandleMessage(ctx, "booking#"+h.names["booking"]))
	must(h.agents.HandleMessage(ctx, "booking#"+h.names["failed"]))
	h.do(t, h.public, "POST", "/a2a/v1", `{"from":"nemo","intent":"network.ping"}`, "", "Authorization: Bearer {buyer-free}")

	section("The host's background jobs")
	_, err = h.log.Seal(ctx)
	must(err)
	published, err := h.log.LoadLatestCheckpoint(ctx)
	must(err)
	demo, err := identity.ParseID(h.names["demo"])
	must(err)
	must(h.server.Vacants.WithSigner(ctx, demo, func(s identity.Signer) error {
		note, err := translog.Cosign(ctx, published.Checkpoint, s, h.clock.now())
		if err == nil {
			_, err = h.log.AddCosignatures(ctx, note)
		}
		return err
	}))
	_, err = h.server.Meter().Fold(ctx)
	must(err)
	h.clock.pass(5 * time.Minute)
	_, err = h.server.Billing.Sweep(ctx, h.server.Calls)
	must(err)
	_, err = h.agp.Bookings.Sweep(ctx)
	must(err)
	_, err = h.server.SweepKeys(ctx)
	must(err)
	must(h.server.Texts.CreateNext(ctx))
	blobs, err := files.Open(t.TempDir(), h.clock.now())
	must(err)
	_, err = (&exports.Exporter{Billing: h.server.Billing, Blobs: blobs}).Run(ctx)
	must(err)

	section("A call that waits, and is paid")
	name("paid-task")(h.do(t, h.public, "POST", "/v/warung", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m4","role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"returnImmediately":true}}}`, "result.task.id", "A2A-Version: 1.0", "Authorization: Bearer {buyer-pro}"))
	h.agents.Tasks.Wait()

	section("A call of OpenAI's clients")
	h.do(t, h.public, "POST", "/v/free/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`, "id", "Authorization: Bearer {buyer-pro}")

	section("A deleted vacant whose name another has")
	for _, step := range []string{"sink", "archive"} {
		op("POST", "/v1/admin/vacants/{gone}/"+step, "")
	}
	op("DELETE", "/v1/admin/vacants/{gone}", "")
	made("heir", `{"name":"gone","capability":"follows","substrate":"echo"}`)

	section("A paid call of a subject, by a token")
	name("issuer")(h.do(t, h.admin, "POST", "/v1/admin/issuers", `{"tenant":"acme","issuer":"`+loginURL+`","audiences":["api://vacancy"],"cap":1000000,"most":9000000,"anybody":true,"scopes":["call","read"],"listed":true}`, "id"))
	name("ann")(newLogin().token("ann", "api://vacancy"))
	h.do(t, h.public, "POST", "/v/warung", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m5","role":"ROLE_USER","parts":[{"text":"hi"}]}}}`, "result.task.id", "A2A-Version: 1.0", "Authorization: Bearer {ann}")
	section("A turn in the background that has run")
	name("worked-task")(h.do(t, h.public, "POST", "/v/free", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m6","role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"returnImmediately":true}}}`, "result.task.id", "A2A-Version: 1.0", "Authorization: Bearer {buyer-pro}"))
	for _, message := range h.queued(t) {
		if strings.HasSuffix(message, h.names["worked-task"]) {
			must(h.agents.HandleMessage(ctx, message))
		}
	}

	_, err = h.server.Meter().Fold(ctx)
	must(err)

	section("A name that was given up")
	op("PATCH", "/v1/admin/vacants/closed", `{"name":"shut"}`)
	section("A revocation that stops after its first commit")
	spare, _, err := h.server.Billing.MakeKey(ctx, h.names["buyer"], billing.KeyOptions{Tier: billing.Free, Test: true})
	must(err)
	c := h.server.Billing.Config
	c.Store = unlisted{c.Store}
	if _, err := billing.New(c).RevokeKey(ctx, nil, h.names["buyer"], spare.ID); !problem.Is(err, problem.Unavailable) {
		t.Fatalf("RevokeKey() without lists = %v", err)
	}

	// In the same minute, because a task of above is still to begin: dispatched tasks, of which the agent's owner has
	// the first two, a stranger the third, and the operator the fourth. The first has run.
	for _, tenant := range []string{"acme", "buyer"} {
		name(tenant + "-team")(h.do(t, h.admin, "POST", "/v1/admin/accounts/"+tenant+"/keys", `{"scopes":["read","agents"]}`, "secret"))
	}
	made("thinker", `{"name":"thinker","capability":"thinks","tenant":"acme","agent":{"provider":"mock","system":"`+"```mock\\nthought: hm\\ncall: LS {}\\n---\\ntext: so be it\\n```"+`"}}`)
	name("thought-task")(h.do(t, h.public, "POST", "/v1/tasks", `{"agent":"thinker","task":"hi"}`, "taskId", "Authorization: Bearer {acme-team}"))
	for _, message := range h.queued(t) {
		if strings.HasSuffix(message, h.names["thought-task"]) {
			must(h.agents.HandleMessage(ctx, message))
		}
	}
	name("own-task")(h.do(t, h.public, "POST", "/v1/tasks", `{"agent":"sage","task":"hi","model":"two","mode":"read-only","max_turns":2,"budget":50000}`, "taskId", "Authorization: Bearer {acme-team}"))
	name("stranger-task")(h.do(t, h.public, "POST", "/v1/tasks", `{"agent":"{free}","task":"hi","mode":"read-write"}`, "taskId", "Authorization: Bearer {buyer-team}"))
	name("operator-task")(h.do(t, h.admin, "POST", "/v1/admin/tasks", `{"agent":"free","task":"hi"}`, "taskId"))

	// Files of an account and of the operator, of which one is deleted.
	for _, path := range []string{"docs/Plan.md", "old.md"} {
		h.do(t, h.public, "PUT", "/v1/workspaces/main/files/"+path, "the plan", "", "Authorization: Bearer {acme-team}")
	}
	h.do(t, h.public, "DELETE", "/v1/workspaces/main/files/old.md", "", "", "Authorization: Bearer {acme-team}")
	op("PUT", "/v1/admin/workspaces/main/files/a.md", "a")
	// In the same minute, too: turns of workers, of a process that has died. One has an answer, one is leased, and one
	// waits.
	name("acme-worker")(h.do(t, h.admin, "POST", "/v1/admin/accounts/acme/keys", `{"scopes":["work"]}`, "secret"))
	made("miner", `{"name":"miner","capability":"digs","tenant":"acme","substrate":"worker"}`)
	dying := &dyingStore{Store: h.store}
	desk := worker.New(h.server.Workers.Config)
	desk.Store = dying
	for _, lease := range []string{"ended-lease", "lease", ""} {
		h.offer(t, desk, "acme", h.names["miner"])
		if lease != "" {
			name(lease)(h.do(t, h.public, "POST", "/v1/work/lease", `{"vacant":"miner"}`, "turn.lease", "Authorization: Bearer {acme-worker}"))
			h.do(t, h.public, "POST", "/v1/work/{"+lease+"}/events", `{"batch":1,"events":[{"type":"text","text":"Deep"}]}`, "", "Authorization: Bearer {acme-worker}")
		}
		dying.isDead.Store(lease == "ended-lease") // before it reads the answer
		if lease == "ended-lease" {
			h.do(t, h.public, "POST", "/v1/work/{"+lease+"}/result", `{"text":"er"}`, "", "Authorization: Bearer {acme-worker}")
			dying = &dyingStore{Store: h.store}
			desk.Store = dying
		}
	}
	dying.isDead.Store(true)

	// Reviews: an open one, blinded ones that are released and one that waits, and one of each kind for later.
	rated, err := identity.ParseID(h.names["free"])
	must(err)
	reviewOf := func(n byte, seq int64, before identity.Hash) (review.Record, identity.Hash) {
		t.Helper()
		_, hash := send(seeded(t, n), "free", "rate me", seq, before)
		return review.Record{Members: review.Members{
			Target: rated, Ratings: review.Ratings{"factual": 1, "logical": 0.5, "relevance": 0.25, "honesty": 1}, Substrate: "default", CallHash: hash, Position: seq, Claim: "good", IssuedAt: canon.FormatTime(h.clock.now()),
		}}, hash
	}
	openly := func(rec review.Record, n byte) string {
		t.Helper()
		must(rec.Sign(ctx, seeded(t, n)))
		blob, err := rec.MarshalJSON()
		must(err)
		return string(blob)
	}
	blindly := func(rec review.Record, n byte) string {
		t.Helper()
		blinded, err := rec.Blind(ctx, seeded(t, n), h.rand)
		must(err)
		blob, err := json.Marshal(blinded)
		must(err)
		return string(blob)
	}
	rec, last := reviewOf(50, 1, identity.Hash{})
	name("review")(openly(rec, 50))
	h.do(t, h.public, "POST", "/v1/submit_review", h.names["review"], "")
	rec, _ = reviewOf(50, 2, last)
	name("next-review")(openly(rec, 50))
	for n := byte(51); n < 55; n++ {
		rec, last = reviewOf(n, 1, identity.Hash{})
		h.do(t, h.public, "POST", "/v/free/reviews/blinded_ingest", blindly(rec, n), "")
	}
	rec, _ = reviewOf(54, 2, last)
	name("blinded-review")(blindly(rec, 54))
	return h
}

// dyingStore is the store of a process that dies.
type dyingStore struct {
	store.Store
	isDead atomic.Bool
}

func (d *dyingStore) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	if d.isDead.Load() {
		return store.Doc{}, store.ErrUnavailable
	}
	return d.Store.Doc(ctx, k)
}

// offer offers a turn to the workers of a vacant of a tenant, and waits until it can be leased. The channel gets the end
// of the turn.
func (h *documented) offer(t *testing.T, desk *worker.Broker, tenant, vacant string) <-chan error {
	t.Helper()
	id, err := identity.ParseID(vacant)
	if err != nil {
		t.Fatal(err)
	}
	remote, err := desk.Kinds()[substrate.KindWorker]("")
	if err != nil {
		t.Fatal(err)
	}
	before, _, err := h.store.Docs(t.Context(), worker.WaitingDocs.Range(tenant, "live"), store.MaxPage, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	ended := make(chan error, 1)
	go func() {
		_, err := substrate.ReadAnswer(remote.Infer(ctx, substrate.NewTextRequest(id, id, "dig")))
		ended <- err
	}()
	await.Until(t, "the turn waits", func() bool {
		docs, _, err := h.store.Docs(t.Context(), worker.WaitingDocs.Range(tenant, "live"), store.MaxPage, "")
		return err == nil && len(docs) > len(before)
	})
	return ended
}

// unlisted is a store that lists nothing.
type unlisted struct{ store.Store }

func (unlisted) Docs(context.Context, store.Range, int, string) ([]store.Doc, string, error) {
	return nil, "", store.ErrUnavailable
}

// queued returns the messages of the queue of tasks.
func (h *documented) queued(t *testing.T) (messages []string) {
	t.Helper()
	docs, _, err := h.store.Docs(t.Context(), store.Range{Partition: "queue#tasks"}, store.MaxPage, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range docs {
		message, _, _ := strings.Cut(string(d.Data), "\n")
		messages = append(messages, message)
	}
	return messages
}

// fillTile seals 256 events more. It comes after all else, because verify checks each of them.
func (h *documented) fillTile(t *testing.T) {
	t.Helper()
	free, err := identity.ParseID(h.names["free"])
	for n := 0; n < 256 && err == nil; n++ {
		_, _, err = h.server.Vacants.Publish(t.Context(), free, vacants.PublishOptions{Visibility: new([]lifecycle.Visibility{lifecycle.Hidden, lifecycle.Public}[n%2])})
	}
	if err == nil {
		_, err = h.log.Seal(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// handled is a registry client's transport to a handler.
type handled struct{ http.Handler }

func (d handled) Do(_ context.Context, r outbound.Request) (outbound.Reply, error) {
	in := httptest.NewRequest(r.Method, r.URL, bytes.NewReader(r.Body))
	in.Header = r.Header.Clone()
	w := httptest.NewRecorder()
	d.ServeHTTP(w, in)
	return outbound.Reply{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}, nil
}

// answers returns the answers of a host with empty caches, over a copy of the store in
// which one document has other data.
func (whole *documented) answers(t *testing.T, k store.Key, data []byte) (all []answer) {
	t.Helper()
	ctx := t.Context()
	h := openDocumented(t, whole.store.with(t, k, data), whole.clock.now(), 2)
	defer h.server.Vacants.Close()
	h.names = whole.names
	// What is random for an operation does not depend on whether those before it failed.
	next := func(a answer) {
		all = append(all, a)
		h.said.Reset()
		h.rand.restart(a.name)
	}
	note := func(name string, err error, body string) {
		a := answer{name: name, body: body, log: h.said.String()}
		if err != nil {
			a.refusal = err.Error()
		}
		next(a)
	}
	ask := func(to site, method, path, body string, headers ...string) {
		t.Helper()
		w := h.send(t, to, method, path, body, headers...)
		a := answer{name: method + " " + path, body: w.Body.String(), log: h.said.String()}
		var refusal struct {
			Field, Detail string
			Error         json.RawMessage
		}
		_ = json.Unmarshal(w.Body.Bytes(), &refusal)
		if w.Code >= http.StatusBadRequest || refusal.Error != nil {
			a.refusal = strings.TrimSpace(strconv.Itoa(w.Code)+" "+refusal.Field) + ": " + cmp.Or(refusal.Detail, string(refusal.Error))
			// A cause that goes on where the refusal ends is written once.
			if _, cause, ok := strings.Cut(strings.TrimSpace(a.log), ": "+refusal.Detail); ok && refusal.Detail != "" && !strings.Contains(cause, "\n") {
				a.refusal, a.log = a.refusal+cause, ""
			}
			// An update that always conflicts ends by its time limit, between two tries or within one.
			if strings.HasPrefix(a.refusal, "503: storage is unavailable") && strings.HasSuffix(a.refusal, "it timed out") {
				a.refusal = "409: other requests keep changing it; run the same command again"
			}
		}
		if of := clipBody(body); of != "" {
			a.name += " " + of
		}
		for _, header := range headers {
			if _, key, ok := strings.Cut(header, "Bearer "); ok {
				a.name += " by " + strings.Trim(key, "{}")
			}
		}
		next(a)
	}
	proof := func(n byte, target string) string {
		target = h.fill(target)
		value, err := readproof.Sign(ctx, seeded(t, n), readproof.Request{Authority: documentsHost, Method: "GET", Target: target}, h.clock.now())
		if err != nil {
			t.Fatal(err)
		}
		return readproof.Header + ": " + value
	}

	// Verify.
	var found []string
	_, err := fsck.Run(ctx, fsck.Config{Source: h.store, Vault: h.vault, Now: h.clock.now, ReportFinding: func(f fsck.Finding) error {
		found = append(found, f.String())
		return nil
	}})
	slices.Sort(found)
	note("verify", err, strings.Join(found, "\n"))

	note("operator key", operator.Keys{Store: h.store, Now: h.clock.now, Rand: h.rand}.Check(ctx, h.names["operator"]), "")
	for _, path := range []string{
		"/v1/admin/vacants?all=true", "/v1/admin/vacants/free", "/v1/admin/vacants/demo", "/v1/admin/vacants/sage",
		"/v1/admin/vacants/free/children", "/v1/admin/vacants/demo/children", "/v1/admin/vacants/{asked}/manifest", "/v1/admin/vacants/{pupil}/manifest", "/v1/admin/vacants/{pupil}/graduation", "/v1/admin/vacants/free/plan",
		"/v1/admin/vacants/sage/agent", "/v1/admin/vacants/sage/agent?version=1", "/v1/admin/gate", "/v1/admin/gate?tenant=acme", "/v1/admin/secrets", "/v1/admin/payments",
		"/v1/admin/models", "/v1/admin/budgets", "/v1/admin/budgets?tenant=acme", "/v1/admin/host", "/v1/admin/root", "/v1/admin/accounts", "/v1/admin/accounts/acme", "/v1/admin/accounts/acme/changes",
		"/v1/admin/accounts/acme/usage", "/v1/admin/accounts/buyer/usage", "/v1/admin/accounts/buyer/statement?month=2026-05", "/v1/admin/usage", "/v1/admin/accounts/acme/keys", "/v1/admin/bookings/{failed}",
		"/v1/admin/receipts/{payer}/{sage}/last",
	} {
		ask(h.admin, "GET", path, "")
	}
	ask(h.admin, "POST", "/v1/admin/vacants/imported/export", "")
	for _, key := range []string{"acme-pro", "buyer-pro", "buyer-free"} {
		ask(h.public, "GET", "/v1/account", "", "Authorization: Bearer {"+key+"}")
	}
	for _, path := range []string{"/v1/usage", "/v1/keys", "/v1/bookings", "/v1/bookings/{failed}"} {
		ask(h.public, "GET", path, "", "Authorization: Bearer {buyer-pro}")
	}
	for _, path := range []string{
		"/v1/search?q=free", "/v1/capability_card/{free}", "/v1/event_log/{free}", "/v1/lineage/{free}?direction=descendants", "/v1/revocation_list",
		"/v1/checkpoint", "/v1/proof/inclusion?seq=1", "/v1/proof/consistency?from=1", "/v1/epoch/1", "/v1/epoch_root/latest", "/v1/log/leaves",
		"/.well-known/agent-card.json", "/v/free/.well-known/agent-card.json", "/v/sage/.well-known/agent-card.json", "/metrics",
	} {
		ask(h.public, "GET", path, "")
	}
	last := "/v1/account/receipts/{payer}/{sage}/last"
	ask(h.public, "GET", last, "", proof(21, last))
	for _, tt := range []struct{ vacant, method, task string }{{"free", "GetTask", "task"}, {"demo", "GetTask", "guest-task"}, {"free", "ListTaskPushNotificationConfigs", "task"}, {"free", "GetTask", "queued-task"}} {
		id := `"id":"{` + tt.task + `}"`
		if strings.HasPrefix(tt.method, "List") {
			id = `"taskId":"{` + tt.task + `}"`
		}
		headers := []string{"A2A-Version: 1.0", "Authorization: Bearer {buyer-pro}"}
		if tt.task == "guest-task" {
			headers = headers[:1]
		}
		ask(h.public, "POST", "/v/"+tt.vacant, `{"jsonrpc":"2.0","id":1,"method":"`+tt.method+`","params":{`+id+`}}`, headers...)
	}
	ask(h.public, "POST", "/v/free", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`, "A2A-Version: 1.0", "Authorization: Bearer {buyer-pro}")
	for _, intent := range []string{`"network.ping"`, `"venue.list"`, `"booking.search","payload":{"query":"dinner"}`} {
		ask(h.public, "POST", "/a2a/v1", `{"from":"nemo","intent":`+intent+`}`, "Authorization: Bearer {buyer-pro}")
	}
	ask(h.public, "POST", "/a2a/v1", `{"from":"nemo","intent":"network.ping"}`, "Authorization: Bearer {buyer-free}")

	of := func(name string) identity.ID {
		id, err := identity.ParseID(h.names[name])
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	for _, name := range []string{"free", "demo", "kid", "clerk"} {
		counted, err := callstats.Read(ctx, h.store, of(name))
		note("call statistics of "+name, err, fmt.Sprint(counted))
	}
	until, err := h.server.Vacants.ForgottenUntil(ctx, of("free"), of("payer"), "")
	note("what free has forgotten", err, until.String())
	folded, err := h.server.Meter().Fold(ctx)
	note("fold usage", err, fmt.Sprintf("%+v", folded))

	// What writes, too: a resent call, new calls and bookings, and what runs in the background.
	signed := func(what string, to string, body []byte) {
		t.Helper()
		ask(h.public, "POST", "/v/{"+to+"}/a2a/message/send", string(body))
		all[len(all)-1].name = what
	}
	signed("the call of free sent again", "free", whole.sent)
	for n, to := range []string{"free", "demo", "sage", "warung", "imported", "gone", "lost"} {
		body, _ := h.call(t, seeded(t, byte(50+n)), to, "hello", 1, identity.Hash{})
		signed("a first call of "+to, to, body)
	}
	for _, to := range []string{"sage", "warung"} {
		body, _ := h.call(t, seeded(t, 20), to, "hello", 1, identity.Hash{})
		signed("a paid call of "+to, to, body)
	}
	ask(h.public, "POST", "/a2a/v1", `{"from":"nemo","intent":"booking.confirm","payload":{"venue_slug":"warung","idempotency_key":"once","starts_at":"2026-05-07T12:00:00Z","party_size":2,"guest":{"name":"Ann"}}}`, "Authorization: Bearer {buyer-pro}", "Prefer: respond-async")
	ask(h.public, "POST", "/a2a/v1", `{"from":"nemo","intent":"booking.confirm","payload":{"venue_slug":"closed","starts_at":"2026-05-07T12:00:00Z"}}`, "Authorization: Bearer {buyer-pro}", "Prefer: respond-async")
	for _, tenant := range []string{"acme", "buyer"} {
		ask(h.admin, "POST", "/v1/admin/accounts/"+tenant+"/credit", `{"amount":90000000,"note":"first"}`, "Idempotency-Key: first")
	}
	note("payment", h.server.Billing.SettlePayment(ctx, billing.Event{PaymentID: "pi_acme", RefundedTotal: 5_000_000}), "")
	ask(h.admin, "POST", "/v1/admin/vacants/demo/children", `{"path":"D2","name":"late","capability":"helps"}`)
	ask(h.public, "POST", "/v1/admin/vacants/{free}/children", whole.asks(t, "free", 2, h.clock.now()))
	ask(h.admin, "POST", "/v1/admin/vacants/demo/publish", `{"visibility":"PUBLIC","listing":{"summary":"t"}}`)
	for _, path := range []string{"/v1/tasks", "/v1/tasks/{own-task}", "/v1/tasks/{thought-task}/log", "/v1/tasks/locks"} {
		ask(h.public, "GET", path, "", "Authorization: Bearer {acme-team}")
	}
	ask(h.public, "POST", "/v1/work/{lease}/heartbeat", "", "Authorization: Bearer {acme-worker}")
	ask(h.public, "POST", "/v1/work/lease", `{}`, "Authorization: Bearer {acme-worker}")
	for _, lease := range []string{"{ended-lease}", "{lease}"} {
		ask(h.public, "POST", "/v1/work/"+lease+"/result", `{"text":"er"}`, "Authorization: Bearer {acme-worker}")
	}
	ask(h.admin, "GET", "/v1/admin/tasks", "")
	for _, path := range []string{"", "/main/files", "/main/files/docs/Plan.md"} {
		ask(h.public, "GET", "/v1/workspaces"+path, "", "Authorization: Bearer {acme-team}")
	}
	ask(h.admin, "GET", "/v1/admin/workspaces/main/files", "")
	ask(h.public, "DELETE", "/v1/workspaces/main/files/docs/Plan.md", "", "Authorization: Bearer {acme-team}")
	ask(h.public, "POST", "/v1/tasks", `{"agent":"sage","task":"again"}`, "Authorization: Bearer {acme-team}")
	var failed error
	for _, message := range h.queued(t) {
		failed = errors.Join(failed, h.agents.HandleMessage(ctx, message))
	}
	note("work on the messages of the queue", failed, "")
	h.agents.Tasks.Wait()
	failed = nil
	for _, notice := range whole.notices.all {
		failed = errors.Join(failed, h.agents.Push.Handle(ctx, notice))
	}
	note("deliver notifications", failed, "")
	pushes, _, err := h.agents.Tasks.ListActivePushConfigs(ctx, "")
	note("open notifications", err, fmt.Sprint(len(pushes)))
	sealed, err := h.log.Seal(ctx)
	note("seal", err, fmt.Sprintf("%d %d", sealed.Size, sealed.EpochCount))
	reached, err := h.server.Registry.ProbeEndpoints(ctx, func(context.Context, string) error { return nil })
	note("reach", err, fmt.Sprintf("%+v", reached))
	h.clock.pass(15 * time.Minute)
	swept, err := h.server.Billing.Sweep(ctx, h.server.Calls)
	note("sweep calls", err, fmt.Sprintf("%+v", swept))
	ended, err := h.server.Billing.EndTrees(ctx)
	note("end trees", err, strconv.Itoa(ended))
	swept, err = h.agp.Bookings.Sweep(ctx)
	note("sweep bookings", err, fmt.Sprintf("%+v", swept))
	days, err := h.server.SweepKeys(ctx)
	note("maintain", err, strconv.Itoa(days))
	blobs, err := files.Open(t.TempDir(), h.clock.now())
	if err != nil {
		t.Fatal(err)
	}
	exported, err := (&exports.Exporter{Billing: h.server.Billing, Blobs: blobs}).Run(ctx)
	note("export", err, strconv.Itoa(exported))
	ask(h.admin, "GET", "/v1/admin/issuers", "")
	ask(h.admin, "GET", "/v1/admin/accounts/acme/usage?by=subject", "")
	ask(h.public, "GET", "/.well-known/oauth-protected-resource", "")
	ask(h.public, "GET", "/v1/account", "", "Authorization: Bearer {ann}")
	ask(h.admin, "GET", "/v1/admin/names?tenant=acme", "")
	ask(h.admin, "POST", "/v1/admin/vacants", `{"name":"asked1","capability":"a","substrate":"echo"}`)
	for _, path := range []string{"/v1/reputation/{free}", "/v1/reputation_history/{free}"} {
		ask(h.public, "GET", path, "")
	}
	ask(h.public, "POST", "/v1/submit_review", "{review}")
	ask(h.public, "POST", "/v/free/reviews/ingest", "{next-review}")
	ask(h.public, "POST", "/v/free/reviews/blinded_ingest", "{blinded-review}")
	return all
}

// clipBody names a request by its method or intent.
func clipBody(body string) string {
	for _, member := range []string{`"method":"`, `"intent":"`} {
		if _, rest, ok := strings.Cut(body, member); ok {
			name, _, _ := strings.Cut(rest, `"`)
			if _, id, ok := strings.Cut(rest, `:"{`); ok {
				id, _, _ = strings.Cut(id, "}")
				name += " " + id
			}
			return name
		}
	}
	return ""
}
