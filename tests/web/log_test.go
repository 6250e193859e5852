package web

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cdppage "github.com/chromedp/cdproto/page"

	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// seal signs a checkpoint of all events.
func (h *hosted) seal(size uint64) {
	h.t.Helper()
	log, err := h.OpenLog(nil)
	must(h.t, err)
	for {
		sealed, err := log.Seal(h.t.Context())
		switch {
		case problem.Is(err, problem.Conflict): // the host seals at the same time
		case err != nil:
			h.t.Fatal(err)
		case sealed.Size == size:
			return
		default:
			h.t.Fatalf("%d events are sealed, want %d", sealed.Size, size)
		}
	}
}

// get returns the body of a host's answer.
func (h *hosted) get(path string) string {
	h.t.Helper()
	r, err := http.Get(h.url + path)
	must(h.t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		h.t.Fatalf("GET %s: %d %s, %v", path, r.StatusCode, b, err)
	}
	return string(b)
}

// answers makes the paths of a map answer other than the host does; a text that begins with a
// status is a refusal.
func (h *hosted) answers(paths map[string]string) {
	between := func(w http.ResponseWriter, r *http.Request) bool {
		text, ok := paths[r.URL.RequestURI()]
		if !ok {
			text, ok = paths[r.URL.Path]
		}
		if !ok {
			return false
		}
		var status int
		if _, err := fmt.Sscanf(text, "%3d ", &status); err == nil {
			w.WriteHeader(status)
			text = `{"detail": "` + text[4:] + `"}`
		}
		_, _ = io.WriteString(w, text)
		return true
	}
	h.between.Store(&between)
}

// checks waits for the verdicts of a page of the log, and returns them line by line.
func (p *page) checks() string {
	p.t.Helper()
	p.until(`document.querySelector("#log, #event")?.getAttribute("aria-busy") === "false"`)
	var lines []string
	p.eval(`[...document.querySelectorAll("li[data-state], [role=alert] p")].map((e) => e.textContent)`, &lines)
	return strings.Join(lines, "\n")
}

func expect(t *testing.T, what, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if absent, not := strings.CutPrefix(w, "not "); not && strings.Contains(got, absent) {
			t.Errorf("%s: %q is there:\n%s", what, absent, got)
		} else if !not && !strings.Contains(got, w) {
			t.Errorf("%s: %q is not there:\n%s", what, w, got)
		}
	}
}

func TestALogIsVerifiedFromVisitToVisit(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.seal(0)
	someone := newProfile(t, h.url)
	expect(t, "an empty log", someone.open(h.url+"/web/log").checks(), "Checkpoint: verified — 0 events", "first visit", "no witness")
	for _, name := range []string{"a", "b", "c"} {
		h.publish(name)
	}
	h.seal(3)
	tab := someone.open(h.url + "/web/log")
	expect(t, "three events", tab.checks(), "Checkpoint: verified — 3 events", "History: verified — continues the log of 0 events", "not failed", "not cannot be trusted")
	for seq := 1; seq <= 3; seq++ {
		tab.eval(fmt.Sprintf(`document.getElementById("seq").value = %d; document.querySelector("#prove button").click()`, seq), nil)
		tab.until(fmt.Sprintf(`document.getElementById("proved").textContent.startsWith("Event %d: verified — signed by ")`, seq))
	}
	tab.accessible("log")
	expect(t, "the page of an event", someone.open(h.url+"/web/log/2").checks(), "Event 2: verified", "History: verified", "the log of 3 events")

	h.publish("d")
	h.seal(4)
	note := h.get("/v1/checkpoint")
	c, _, err := translog.VerifyCheckpoint([]byte(note))
	must(t, err)
	witness := keyOf(t, 5)
	h.answers(map[string]string{"/v1/checkpoint": note + signatureLine("vacant/"+witness.ID().String(), 4, witness.ID(), timed(t, witness, c.Text()))})
	expect(t, "a cosigned checkpoint", someone.open(h.url+"/web/log").checks(), "continues the log of 3 events", "Cosignature: verified — by "+witness.ID().Short()+", at 1970-01-01T00:00:05Z")

	// An older copy of the checkpoint, as a cache may have it, is proved to be a part.
	h.between.Store(nil)
	h.answers(map[string]string{"/v1/checkpoint": h.get("/v1/checkpoint?size=3")})
	expect(t, "an older copy", someone.open(h.url+"/web/log").checks(), "History: verified — an older part of the log of 4 events", "not cannot be trusted")
	h.between.Store(nil)
	expect(t, "the newest again", someone.open(h.url+"/web/log").checks(), "continues the log of 4 events")
}

// forged is the note of a log of some key, with a root of its own.
func forged(t *testing.T, key byte, size uint64, root string) string {
	t.Helper()
	host := keyOf(t, key)
	return noteOf(t, translog.Checkpoint{Host: host.ID(), Size: size, Root: sha256.Sum256([]byte(root))}.Text(), host)
}

func TestALogThatContradictsItselfIsAnAlarm(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for _, name := range []string{"a", "b", "c"} {
		h.publish(name)
	}
	h.seal(3)
	three := h.get("/v1/checkpoint")
	h.publish("d")
	h.seal(4)
	four, proof := h.get("/v1/checkpoint"), h.get("/v1/proof/consistency?from=3&to=4")
	var damagedProof translog.ConsistencyShape
	must(t, json.Unmarshal([]byte(proof), &damagedProof))
	damagedProof.Proof[0] = strings.Repeat("0", 64)
	damaged, err := json.Marshal(damagedProof)
	must(t, err)
	raw := strings.TrimSpace(four[strings.LastIndex(four, " ")+1:])
	signature, err := base64.StdEncoding.DecodeString(raw)
	must(t, err)
	signature[20] ^= 1
	const consistency = "/v1/proof/consistency"
	for _, c := range []struct {
		name          string
		before, after map[string]string
		want          []string
	}{
		{"rolled back", map[string]string{"/v1/checkpoint": four}, map[string]string{"/v1/checkpoint": three, consistency: "400 to: expected at most 3, which is sealed, got 4"},
			[]string{"History: failed", "events are missing", "The log has 3 events now. At your last visit it had 4"}},
		{"split view", map[string]string{"/v1/checkpoint": forged(t, 1, 5, "x")}, map[string]string{"/v1/checkpoint": forged(t, 1, 5, "y")},
			[]string{"History: failed", "two different logs of 5 events"}},
		{"rewritten", map[string]string{"/v1/checkpoint": forged(t, 1, 3, "x")}, map[string]string{"/v1/checkpoint": forged(t, 1, 4, "y")},
			[]string{"History: failed", "events were changed"}},
		{"foreign key", map[string]string{"/v1/checkpoint": four}, map[string]string{"/v1/checkpoint": forged(t, 2, 5, "x")},
			[]string{"History: failed", "The log is signed by the key of " + keyOf(t, 2).ID().String()}},
		{"damaged proof", map[string]string{"/v1/checkpoint": three}, map[string]string{consistency: string(damaged)},
			[]string{"History: failed", "events were changed"}},
		{"no proof", map[string]string{"/v1/checkpoint": three}, map[string]string{consistency: "<html>"}, []string{"History: failed", "events were changed"}},
		{"emptied", map[string]string{"/v1/checkpoint": four}, map[string]string{"/v1/checkpoint": forged(t, 1, 0, "x")}, []string{"History: failed"}},
		{"damaged signature", nil, map[string]string{"/v1/checkpoint": strings.Replace(four, raw, base64.StdEncoding.EncodeToString(signature), 1)},
			[]string{"Checkpoint: failed", "invalid signature"}},
		{"no checkpoint", nil, map[string]string{"/v1/checkpoint": "<html>\u202e</html>"}, []string{"Checkpoint: failed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			someone := newProfile(t, h.url)
			h.answers(c.before)
			someone.open(h.url + "/web/log").checks()
			h.answers(c.after)
			tab := someone.open(h.url + "/web/log")
			expect(t, c.name, tab.checks(), append(c.want, "Save what the host signed")...)
			if c.name == "split view" {
				tab.accessible("log-alarm")
			}
			// The alarm stays, because the earlier checkpoint is kept.
			expect(t, c.name+" again", someone.open(h.url+"/web/log").checks(), c.want...)
			h.between.Store(nil)
		})
	}
}

func TestALogThatCannotBeComparedIsNotAnAlarm(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.publish("a")
	h.seal(1)
	one := h.get("/v1/checkpoint")
	h.publish("b")
	h.seal(2)
	someone := newProfile(t, h.url)
	h.answers(map[string]string{"/v1/checkpoint": one})
	someone.open(h.url + "/web/log").checks()
	for _, status := range []string{"429 slow down", "503 storage"} {
		h.answers(map[string]string{"/v1/proof/consistency": status})
		expect(t, status, someone.open(h.url+"/web/log").checks(), "History: not checked — the host answered "+status[:3], "not cannot be trusted")
	}
	h.answers(map[string]string{"/v1/checkpoint": "503 storage"})
	expect(t, "no checkpoint", someone.open(h.url+"/web/log").checks(), "Checkpoint: not checked", "not cannot be trusted")
	h.answers(nil)
	expect(t, "later", someone.open(h.url+"/web/log").checks(), "continues the log of 1 events")

	// An event that is not what the log has, and a proof that is damaged.
	var event map[string]any
	must(t, json.Unmarshal([]byte(h.get("/v1/event/2")), &event))
	event["payload_json"] = strings.Replace(event["payload_json"].(string), "PUBLIC", "NONE", 1)
	changed, err := json.Marshal(event)
	must(t, err)
	h.answers(map[string]string{"/v1/event/2": string(changed)})
	expect(t, "a changed event", someone.open(h.url+"/web/log/2").checks(), "Event 2: failed — event 2 is not proved to be in the log of 2")
	h.answers(map[string]string{"/v1/proof/inclusion": `{"proof": []}`})
	expect(t, "a damaged proof", someone.open(h.url+"/web/log/2").checks(), "Event 2: failed")
	h.answers(map[string]string{"/v1/proof/inclusion": `{}`})
	expect(t, "no proof", someone.open(h.url+"/web/log/2").checks(), "Event 2: failed")

	// A browser that stores nothing verifies what needs no memory.
	h.answers(nil)
	tab := someone.open("about:blank")
	call(tab, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
		Source: `indexedDB.open = () => { throw new DOMException("denied", "SecurityError"); }`,
	})
	tab.visit(h.url + "/web/log")
	expect(t, "no storage", tab.checks(), "Checkpoint: verified — 2 events", "History: not checked — this browser stores nothing for this site (denied)")
}

// The links of an alarm save both notes as they were signed, and after forgetting, the next visit is the first again.
func TestAnAlarmSavesBothNotes(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.publish("a")
	h.seal(1)
	notes := map[string]string{"checkpoint-before.txt": forged(t, 1, 5, "x"), "checkpoint-now.txt": forged(t, 1, 5, "y")}
	someone, folder := newProfile(t, h.url), t.TempDir()
	h.answers(map[string]string{"/v1/checkpoint": notes["checkpoint-before.txt"]})
	someone.open(h.url + "/web/log").checks()
	h.answers(map[string]string{"/v1/checkpoint": notes["checkpoint-now.txt"]})
	tab := someone.open(h.url + "/web/log")
	tab.checks()
	for name, note := range notes {
		tab.save(`a[download="`+name+`"]`, folder)
		if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(got) != note {
			t.Errorf("%s: %s, %v, want %s", name, got, err, note)
		}
	}
	tab.click("#forget")
	tab.until(`document.querySelector("#log").textContent.includes("first visit")`)
	expect(t, "after forgetting", tab.checks(), "Checkpoint: verified — 5 events", "not cannot be trusted")
}
