package message_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// testServer is a whole host behind the handler, over a store in memory.
type testServer struct {
	t       *testing.T
	handler http.Handler
	host    *call.Host
	store   store.Store
	log     *bytes.Buffer

	mu     sync.Mutex
	now    time.Time
	states map[identity.ID]lifecycle.State
	floors map[identity.ID]time.Time
	closed map[identity.ID]bool // by their manifests
	keys   map[identity.ID]*identity.Key
}

func newTestServer(t *testing.T, now time.Time, seeds ...[]byte) *testServer {
	t.Helper()
	h := &testServer{t: t, store: memory.New(), log: &bytes.Buffer{}, now: now,
		states: map[identity.ID]lifecycle.State{}, floors: map[identity.ID]time.Time{}, closed: map[identity.ID]bool{}, keys: map[identity.ID]*identity.Key{}}
	for _, seed := range seeds {
		k, err := identity.KeyFromSeed(seed)
		must(t, err)
		h.keys[k.ID()], h.states[k.ID()] = k, lifecycle.Active
	}
	vault, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	must(t, err)
	self, err := identity.NewKey(rand.Reader)
	must(t, err)
	h.host = call.New(call.Config{Log: &call.Log{Logger: slog.New(slog.NewTextHandler(h.log, nil))},
		Store: h.store, Directory: h, Texts: textkeys.New(h.store, vault, h.clock, rand.Reader, 24*time.Hour),
		Self: func(context.Context) (identity.ID, error) { return self.ID(), nil }, Now: h.clock, Rand: rand.Reader,
	})
	h.handler = message.Handler(message.Config{Host: h.host, Directory: h, Now: h.clock, Log: slog.New(slog.NewTextHandler(h.log, nil))})
	return h
}

func (h *testServer) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *testServer) set(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = now
}

func (h *testServer) Vacant(_ context.Context, id identity.ID, _ bool) (call.Vacant, bool, error) {
	k := h.keys[id]
	if k == nil {
		return call.Vacant{}, false, nil
	}
	return call.Vacant{ID: id, State: h.states[id], Floor: h.floors[id], Behaviour: substrate.Behaviour(echo.Substrate), Signer: k}, true, nil
}

func (h *testServer) FindCached(ctx context.Context, id identity.ID) (vacants.Record, bool, error) {
	k := h.keys[id]
	if k == nil {
		return vacants.Record{}, false, nil
	}
	c := card.Card{VacantID: id, CapabilityText: "echo", AllowedSubstrates: []string{"echo"}, HaloVersion: 1,
		Endpoint: "https://host.example/v/" + id.String() + message.SendPath}
	if err := c.Sign(ctx, k); err != nil {
		return vacants.Record{}, false, err
	}
	return vacants.Record{ID: id, Name: "name-" + id.Short(), State: h.states[id], Closed: h.closed[id], Card: c.Blob()}, true, nil
}

func (h *testServer) FindCachedByName(ctx context.Context, name string) (vacants.Record, bool, error) {
	for id := range h.keys {
		if name == "name-"+id.Short() {
			return h.FindCached(ctx, id)
		}
	}
	return vacants.Record{}, false, nil
}

func (h *testServer) ListOpen(_ context.Context, n int) (ids []identity.ID, _ error) {
	for id, s := range h.states {
		if !s.IsRetired() && !h.closed[id] && len(ids) < n {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// sole is the only vacant of the server.
func (h *testServer) sole() identity.ID {
	for id := range h.keys {
		return id
	}
	panic("no vacant")
}

func (h *testServer) post(path, contentType string, body []byte) *http.Response {
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	return w.Result()
}

func (h *testServer) get(path string, header ...string) (*http.Response, []byte) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	return w.Result(), w.Body.Bytes()
}

// tips are the chain states of a pair as the reference counts them: after a
// reset both are 0 with zero hashes.
func (h *testServer) tips(caller, vacant identity.ID) (request, response tip) {
	h.t.Helper()
	pair := call.Pair{Caller: caller, Vacant: vacant}
	row, err := h.store.Tip(context.Background(), pair.Requests())
	if err != nil {
		h.t.Fatal(err)
	}
	var req call.RequestRow
	if row.Position > 0 {
		if req, err = call.DecodeRequest(row); err != nil {
			h.t.Fatal(err)
		}
	}
	request = tip{req.Tip().Seq, req.Tip().Hash.String()}
	response = tip{0, identity.Hash{}.String()}
	if row, err = h.store.Tip(context.Background(), pair.Responses()); err != nil {
		h.t.Fatal(err)
	}
	if row.Position > 0 {
		rsp, err := call.DecodeResponse(row)
		if err != nil {
			h.t.Fatal(err)
		}
		if rsp.Epoch == req.Epoch {
			response = tip{rsp.Seq, rsp.Hash.String()}
		}
	}
	return request, response
}

type tip struct {
	Seq  int64  `json:"last_sequence_no"`
	Hash string `json:"chain_tip"`
}

func load(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	must(t, err)
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	must(t, d.Decode(into))
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	must(t, err)
	return b
}

func bodyOf(t *testing.T, r *http.Response) []byte {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	must(t, err)
	return b
}

func hasPrefix(s string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// newPipe returns a body that never ends.
func newPipe(t *testing.T) (io.Reader, *io.PipeWriter) {
	t.Helper()
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write([]byte(`{"jsonrpc":`)) // fails once the server has had enough
	}()
	return r, w
}
