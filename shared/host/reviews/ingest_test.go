package reviews_test

import (
	"encoding/hex"
	"encoding/json"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

// post posts a body to the registry's handler.
func (f *fixture) post(path, body string) (status int, answer map[string]any) {
	f.Helper()
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.handler().ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		f.Fatalf("POST %s = %d %s", path, w.Code, w.Body)
	}
	return w.Code, answer
}

// The reviews of the vectors name calls that this host does not have, so they are not counted, and the
// same review again is not a duplicate.
func TestARecordIsIngestedAsByTheReference(t *testing.T) {
	b, err := os.ReadFile("../../vacant/review/testdata/review_record.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Name  string
			Input struct {
				Seed   string `json:"target_seed"`
				Record json.RawMessage
				Raw    *string
			}
			Expect struct {
				Status int
				Body   map[string]any
			}
		}
	}
	if err := json.Unmarshal(b, &file); err != nil || len(file.Cases) != 41 {
		t.Fatal(err, len(file.Cases))
	}
	f := open(t)
	seed, err := hex.DecodeString(file.Cases[0].Input.Seed)
	f.Must(err)
	key, err := identity.KeyFromSeed(seed)
	f.Must(err)
	f.Create(vacants.CreateSpec{Name: "target", Capability: "answers", Substrate: "echo", Key: key})
	f.faults.begin(0, false)
	for _, c := range file.Cases {
		body, want := string(c.Input.Record), c.Expect.Body
		if c.Input.Raw != nil {
			body = *c.Input.Raw
		}
		if c.Name == "signature number" { // the reference crashes
			c.Expect.Status, want = 401, map[string]any{"ok": false, "error": "signature_invalid"}
		}
		for range 2 {
			status, got := f.post("/v/target/reviews/ingest", body)
			if c.Expect.Status == 200 {
				if reason, _ := got["reason"].(string); got["counted"] != false || reason == "" {
					t.Errorf("%s: %v, want a reason why it is not counted", c.Name, got)
				}
			}
			if text, _ := got["error"].(string); strings.HasPrefix(text, "bad_json: ") { // its rest belongs to Python
				got["error"] = want["error"]
			}
			delete(got, "counted")
			delete(got, "reason")
			if diff := cmp.Diff(want, got); status != c.Expect.Status || diff != "" {
				t.Errorf("%s: %d, want %d (-want +got):\n%s", c.Name, status, c.Expect.Status, diff)
			}
		}
	}
	if f.faults.commits > 0 {
		t.Errorf("%d commits, want none", f.faults.commits)
	}
}

func TestTheRoutesHaveTheStatusesOfTheirProblems(t *testing.T) {
	f := open(t)
	shop := f.host("acme", "shop")
	c := f.call(f.key(), shop)
	blob := func(r review.Record) string {
		b, err := json.Marshal(r)
		f.Must(err)
		return string(b)
	}
	good := blob(f.rate(c, 1))
	forged := f.rate(c, 1)
	forged.Signature[0]++
	unknown := f.rate(called{c.hash, 1, c.by, f.key().ID(), c.out}, 1)
	for _, tt := range []struct {
		body, code, field string
		status            int
	}{
		{strings.Replace(good, `"factual":1`, `"factual":1.5`, 1), "schema", "dimensions.factual", 422},
		{strings.Replace(good, `"factual":1`, `"factual":true`, 1), "schema", "dimensions.factual", 422},
		{strings.Replace(good, `"factual":1`, `"factual":NaN`, 1), "schema", "", 422},
		{strings.Replace(good, `"factual":1`, `"factual":1e400`, 1), "schema", "factual", 422},
		{strings.Replace(good, c.hash.String(), "zz"+c.hash.String()[2:], 1), "schema", "call_envelope_id_hex", 422},
		{strings.Replace(good, c.by.ID().String(), strings.Repeat("0", 64), 1), "schema", "reviewer", 422}, // a point of small order
		{"[]", "schema", "", 422},
		{blob(forged), "bad_signature", "", 401},
		{blob(unknown), "not_found", "", 404},
		{blob(f.rate(c, 1, func(r *review.Record) { r.CallHash[0]++ })), "no_call", "", 409},
		{blob(f.rate(called{c.hash, 1, f.as(shop), shop, c.out}, 1)), "ineligible", "", 403},
	} {
		status, got := f.post("/v1/submit_review", tt.body)
		if field, _ := got["field"].(string); status != tt.status || got["code"] != tt.code || field != tt.field {
			t.Errorf("POST of %.80s = %d %v, want %d %s %s", tt.body, status, got, tt.status, tt.code, tt.field)
		}
	}
	status, got := f.post("/v/"+shop.String()+"/reviews/ingest", good)
	if status != 200 || got["counted"] != true || got["duplicate"] != false {
		t.Errorf("ingest = %d %v, want it counted", status, got)
	}
	if status, got = f.post("/v/shop/reviews/ingest", good); got["duplicate"] != true || got["counted"] != true || got["reviewer"] != nil {
		t.Errorf("ingest again = %d %v, want a duplicate", status, got)
	}
	if status, got = f.post("/v1/submit_review", good); status != 200 || got["duplicate"] != true {
		t.Errorf("submit of the same = %d %v, want a duplicate", status, got)
	}
	if status, got = f.post("/v1/submit_review", blob(f.rate(c, 0))); status != 409 || got["code"] != "reviewed" {
		t.Errorf("submit of another review of the call = %d %v, want reviewed", status, got)
	}
	if status, got = f.post("/v/nobody/reviews/ingest", good); status != 404 || got["ok"] != false || got["error"] != "vacant \"nobody\" is not hosted here" {
		t.Errorf("ingest for nobody = %d %v, want 404 in the form of the reference", status, got)
	}
}

func TestBlindedReviewsAreIngestedAsByTheReference(t *testing.T) {
	f := open(t)
	shop := f.host("acme", "shop")
	for i := range 3 {
		blinded := f.blind(f.call(f.key(), shop), 1)
		b, err := json.Marshal(blinded)
		f.Must(err)
		flushed, buffered := 0.0, float64(i+1)
		if i == 2 {
			flushed, buffered = 3, 0
		}
		status, got := f.post("/v/shop/reviews/blinded_ingest", string(b))
		want := map[string]any{"ok": true, "buffered": buffered, "threshold": 3.0, "flushed_count": flushed, "commitment": blinded.Reveal.Commitment.String(), "counted": true}
		if diff := cmp.Diff(want, got); status != 200 || diff != "" {
			t.Errorf("ingest %d = %d (-want +got):\n%s", i, status, diff)
		}
		status, got = f.post("/v/shop/reviews/blinded_ingest", string(b))
		if status != 409 || got["error"] != "commitment_already_spent" || got["commitment"] != blinded.Reveal.Commitment.String() {
			t.Errorf("ingest %d again = %d %v, want it spent", i, status, got)
		}
		if i > 0 {
			continue
		}
		for change, want := range map[[2]string]string{
			{`"reveal":`, `"reveals":`}:          "400 expected {record:..., reveal:...}",
			{review.Scheme, "v0"}:                "400 wrong commitment_scheme; expected " + review.Scheme,
			{`"factual":1`, `"factual":2`}:       "422 dimension_out_of_range:factual",
			{`"nonce_hex":"`, `"nonce_hex":"zz`}: "422 reveal_envelope_invalid: ",
			{`"reviewer_commitment":"` + blinded.Reveal.Commitment.String(), `"reviewer_commitment":"ab`}: "422 reviewer_commitment_invalid",
		} {
			status, got := f.post("/v/shop/reviews/blinded_ingest", strings.Replace(string(b), change[0], change[1], 1))
			text, _ := got["error"].(string)
			if is := strings.Join([]string{map[int]string{400: "400", 422: "422"}[status], text}, " "); !strings.HasPrefix(is, want) {
				t.Errorf("ingest with %s = %d %v, want %s", change[1], status, got, want)
			}
		}
	}
}

func TestAReviewerErasesItsClaim(t *testing.T) {
	f := open(t)
	shop := f.host("acme", "shop")
	key := f.key()
	f.submit(f.rate(f.call(key, shop), 1, func(r *review.Record) { r.Claim = "private" }))
	path := "/v1/reputation_history/" + shop.String() + "/1/claim"
	for _, tt := range []struct {
		by   identity.Signer
		want int
	}{{nil, 401}, {f.key(), 404}, {key, 204}, {key, 204}} {
		r := httptest.NewRequest("DELETE", "http://127.0.0.1:1"+path, nil)
		if tt.by != nil {
			f.Clock.Advance(time.Second)
			proof, err := readproof.Sign(t.Context(), tt.by, readproof.Request{Authority: "127.0.0.1:1", Method: "DELETE", Target: path}, f.Clock.NowFunc(0)())
			f.Must(err)
			r.Header.Set(readproof.Header, proof)
		}
		w := httptest.NewRecorder()
		f.handler().ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("DELETE = %d %s, want %d", w.Code, w.Body, tt.want)
		}
	}
	page, err := f.Reviews.History(t.Context(), shop, 1, 10)
	if err != nil || page.Reviews[0].Claim != nil || strings.Contains(string(page.Reviews[0].Row), "private") {
		t.Errorf("History() = %+v, %v, want no claim", page, err)
	}
	f.WantWhole()
}
