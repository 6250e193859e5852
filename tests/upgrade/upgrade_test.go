package upgrade

import (
	"archive/tar"
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/tests/upgrade/oldhost"
)

// formats are the formats of data files whose hosts are kept.
var formats = []int{2, 3}

// The host goes on over the files of the earlier release.
func TestAHostIsContinued(t *testing.T) {
	for _, format := range formats {
		t.Run(fmt.Sprintf("format%d", format), func(t *testing.T) {
			t.Parallel()
			home, h := openHome(t, format)
			continueHost(t, home, h)
		})
	}
}

// The host goes on from its backup on another machine, which has the identities of its callers.
func TestABackupIsRestoredAndContinued(t *testing.T) {
	for _, format := range formats {
		t.Run(fmt.Sprintf("format%d", format), func(t *testing.T) {
			t.Parallel()
			home, h := openHome(t, format)
			backup, key := writeBackup(t, home, h)
			if err := os.RemoveAll(filepath.Join(home.dir, oldhost.HostDir)); err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf("the data of the backup have format %d, but this version of vacancy reads format", format)
			if code, _, errs := home.run(t, "restore", backup, "--identity", key, "--no-upgrade"); code != problem.ExitConflict || !strings.Contains(errs, want) {
				t.Errorf("restore --no-upgrade: exit %d, %s", code, errs)
			}
			home.vacancy(t, "restore", backup, "--identity", key)
			continueHost(t, home, h)
		})
	}
}

// writeBackup writes the backup that the program of the kept host makes, and the key that opens it.
func writeBackup(t *testing.T, home *home, h oldhost.Host) (backup, key string) {
	t.Helper()
	secret, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	var sealed bytes.Buffer
	plain, err := age.Encrypt(&sealed, secret.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(plain)
	add := func(name string, data []byte) {
		t.Helper()
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	add("backup.json", fmt.Appendf(nil, `{"format":1,"made":%q,"url":"http://127.0.0.1:8080","version":%q}`, h.Stopped.Format("2006-01-02T15:04:05Z"), h.Commit))
	for _, name := range []string{standalone.SealFile, standalone.DataFile} {
		data, err := os.ReadFile(filepath.Join(home.dir, oldhost.HostDir, name))
		if err != nil {
			t.Fatal(err)
		}
		add(name, data)
	}
	add("end", nil)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := plain.Close(); err != nil {
		t.Fatal(err)
	}
	backup, key = filepath.Join(t.TempDir(), "host.age"), filepath.Join(t.TempDir(), "key.txt")
	for path, data := range map[string][]byte{backup: sealed.Bytes(), key: []byte(secret.String() + "\n")} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return backup, key
}

// continueHost starts today's program over a kept host and checks that everybody goes on: its
// operator, its tenants and its callers.
func continueHost(t *testing.T, home *home, h oldhost.Host) {
	home.start(t)
	agent := startAgent(t)
	home.vacancy(t, "update", "owl", "substrate="+agent)
	home.vacancy(t, "update", "sage", "substrate=openai:"+agent+"/v1#small")
	spent := endOpenCalls(t, home, h)
	checkWhole(t, home)
	checkBalances(t, home, h, spent)
	checkVacants(t, home, h)
	checkMessages(t, home, h)
	checkBookings(t, home, h)
	checkBalances(t, home, h, spent) // nothing before was charged again
	checkChains(t, home, h)
	checkNewcomer(t, home, h)
	checkReviews(t, home)
	checkWhole(t, home)
	home.stop()
	checkWhole(t, home)
}

// endOpenCalls waits until the calls that ran when the host was killed are decided. It returns what
// account acme paid for them.
func endOpenCalls(t *testing.T, home *home, h oldhost.Host) (spent int64) {
	t.Helper()
	await.Until(t, "the turn that ran is ended", func() bool {
		return slices.Contains([]string{"TASK_STATE_FAILED", "TASK_STATE_COMPLETED"}, home.task(t, h, h.Running).Status.State)
	})
	home.restartUntil(t, "the booking that was sent is ended", func() bool {
		return !slices.Contains([]string{"pending", "dispatched"}, home.openBooking(t, h).Status)
	})
	await.Until(t, "no call holds money", func() bool { return home.account(t, "acme").Held == 0 })
	return h.Balances["acme"] - home.account(t, "acme").Balance
}

// checkReviews checks that a vacant of the kept host, which had no reviews, is reviewed.
func checkReviews(t *testing.T, home *home) {
	t.Helper()
	home.vacancy(t, "call", "demo", "rate me", "--as", "bob")
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"reputation", "demo", "--recount"}, "score 0.000, evidence 0.00, 0 reviews"},
		{[]string{"review", "demo", "--factual", "1", "--logical", "1", "--relevance", "1", "--as", "bob"}, "as review 1 of demo"},
		{[]string{"reputation", "demo", "--recount"}, "1 review\n"},
	} {
		if out := home.vacancy(t, step.args...); !strings.Contains(out, step.want) {
			t.Errorf("vacancy %s: %q, expected %q", strings.Join(step.args, " "), out, step.want)
		}
	}
}

func checkWhole(t *testing.T, home *home) {
	t.Helper()
	if out := home.vacancy(t, "verify"); !strings.Contains(out, ": all checks passed\n") {
		t.Errorf("verify found something:\n%s", out)
	}
}

// checkBalances compares all balances with the kept ones. Account acme has spent more since then.
func checkBalances(t *testing.T, home *home, h oldhost.Host, spent int64) {
	t.Helper()
	for tenant, balance := range h.Balances {
		if tenant == "acme" {
			balance -= spent
		}
		if a := home.account(t, tenant); a.Balance != balance || a.Held != 0 {
			t.Errorf("account %s has %d micro-dollars and holds %d, expected %d and 0", tenant, a.Balance, a.Held, balance)
		}
	}
}

// checkVacants checks that each name leads to the vacant that it led to, and that the operator and
// the tenants see their vacants.
func checkVacants(t *testing.T, home *home, h oldhost.Host) {
	t.Helper()
	type list struct {
		Vacants []struct {
			ID     string `json:"vacant_id"`
			Name   string `json:"name"`
			State  string `json:"state"`
			Tenant string `json:"tenant"`
		} `json:"vacants"`
	}
	var all, acme list
	home.show(t, &all, "list")
	found := map[string]oldhost.Vacant{}
	for _, v := range all.Vacants {
		if v.Name == "demo" {
			v.State = h.Vacants["demo"].State // today's "vacancy dev" publishes it
		}
		found[v.Name] = oldhost.Vacant{ID: v.ID, Tenant: v.Tenant, State: v.State}
	}
	if !maps.Equal(found, h.Vacants) {
		t.Errorf("the host has the vacants %v, expected %v", found, h.Vacants)
	}
	home.showAs(t, h.Keys["vacants"], &acme, "list", "--host", home.url)
	var names []string
	for _, v := range acme.Vacants {
		names = append(names, v.Name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"again", "tool"}) {
		t.Errorf("tenant acme sees %v, expected again and tool", names)
	}
	for _, name := range []string{"Shop", "again", "tool", "demo"} {
		want := fmt.Sprintf("echo from %.12s: hi", h.Vacants[name].ID)
		if status, answer := home.request(t, "POST", "", "/v/"+name+"/text", "hi"); status != 200 || answer != want {
			t.Errorf("%s answers %d %q, expected %q", name, status, answer, want)
		}
	}
	for name, id := range h.Removed {
		if code, _, errs := home.run(t, "call", id, "hi", "--as", "alice"); code != problem.ExitRefused || !strings.Contains(errs, name+" was deleted") {
			t.Errorf("a call of the deleted vacant %s: exit %d, %s", name, code, errs)
		}
	}
	if code, _, _ := home.run(t, "create", "SHOP", "--capability", "takes a name of another tenant", "--tenant", "acme"); code != problem.ExitConflict {
		t.Errorf("a name of another tenant was taken: exit %d", code)
	}
	var children struct {
		Children []struct {
			Vacant struct {
				Name string `json:"name"`
			} `json:"vacant"`
		} `json:"children"`
	}
	if home.show(t, &children, "children", "firm"); len(children.Children) != 1 || children.Children[0].Vacant.Name != "clerk" {
		t.Errorf("firm has the children %v, expected clerk", children.Children)
	}
}

// task returns the task of a message.
func (h *home) task(t *testing.T, old oldhost.Host, m oldhost.Message) (got task) {
	t.Helper()
	status, body := h.request(t, "GET", old.Keys[m.Key], "/v/"+m.Vacant+"/tasks/"+m.Task, "")
	if status != 200 {
		t.Fatalf("the task of a message to %s: %d %s", m.Vacant, status, body)
	}
	parse(t, body, &got)
	return got
}

// checkMessages checks that clients of A2A find their tasks, and that a message that is sent again
// returns its task.
func checkMessages(t *testing.T, home *home, h oldhost.Host) {
	t.Helper()
	for _, m := range h.Messages {
		got := home.task(t, h, m)
		if got.answer() != m.Answer || len(got.History) == 0 || !bytes.Contains(m.Body, []byte(got.History[0].Parts[0].Text)) {
			t.Errorf("the task of a message to %s is %+v, expected the answer %q", m.Vacant, got, m.Answer)
		}
		if m.Key == "" {
			continue // a client without a key has no messages that are known again
		}
		var again struct {
			Task task `json:"task"`
		}
		status, body := home.request(t, "POST", h.Keys[m.Key], "/v/"+m.Vacant+"/message:send", string(m.Body))
		if status != 200 {
			t.Errorf("a message to %s that is sent again: %d %s", m.Vacant, status, body)
			continue
		}
		if parse(t, body, &again); again.Task.ID != m.Task || again.Task.answer() != m.Answer {
			t.Errorf("a message to %s that is sent again has the task %+v, expected %s", m.Vacant, again.Task, m.Task)
		}
	}
	if status, body := home.request(t, "GET", h.Keys["call"], "/v/owl/tasks/"+h.Push.Task+"/pushNotificationConfigs", ""); !strings.Contains(body, fmt.Sprintf(`"url":%q`, h.Push.URL)) || !strings.Contains(body, h.Push.Token) {
		t.Errorf("the push configurations of a task are %d %s, expected %+v", status, body, h.Push)
	}
}

// booking is a booking as "bookings list" prints it.
type booking struct {
	ID     string `json:"booking_id"`
	Status string `json:"status"`
	Result string `json:"result"`
}

// openBooking returns the booking whose venue had not answered.
func (h *home) openBooking(t *testing.T, old oldhost.Host) booking {
	t.Helper()
	var list struct {
		Bookings []booking `json:"bookings"`
	}
	h.showAs(t, old.Keys["agp"], &list, "bookings", "list", "--host", h.url)
	open := slices.IndexFunc(list.Bookings, func(b booking) bool { return b.ID != old.Booking })
	if len(list.Bookings) != 2 || open < 0 {
		t.Fatalf("the account has the bookings %+v, expected %s and another", list.Bookings, old.Booking)
	}
	return list.Bookings[open]
}

// checkBookings checks that a booking that is made again is the one of before.
func checkBookings(t *testing.T, home *home, h oldhost.Host) {
	t.Helper()
	var again booking
	home.showAs(t, h.Keys["agp"], &again, "agp", "confirm", "shop", "--input", `{"task": "answer this"}`, "--once", "job-1", "--host", home.url)
	if again.ID != h.Booking || again.Status != "completed" {
		t.Errorf("the booking that is made again is %+v, expected %s, completed", again, h.Booking)
	}
}

// checkChains checks that callers read what was said, and that their next calls continue their
// chains.
func checkChains(t *testing.T, home *home, h oldhost.Host) {
	t.Helper()
	for _, c := range h.Chains {
		texts := home.chain(t, c.Identity, c.Vacant)
		if len(texts) < len(c.Texts) || !slices.Equal(texts[:len(c.Texts)], c.Texts) {
			t.Errorf("%s and %s said %q, expected %q first", c.Identity, c.Vacant, texts, c.Texts)
		}
		if v := h.Vacants[c.Vacant]; v.ID == "" || v.State == "HIBERNATING" {
			continue // deleted or paused
		}
		answer := home.vacancy(t, "call", c.Vacant, c.Texts[0][0], "--as", c.Identity)
		if want := c.Texts[0][1] + "\n"; answer != want {
			t.Errorf("%s answers %q, expected %q", c.Vacant, answer, want)
		}
		if got := home.chain(t, c.Identity, c.Vacant); len(got) != len(texts)+1 {
			t.Errorf("%s has %d calls of %s, expected %d", c.Identity, len(got), c.Vacant, len(texts)+1)
		}
	}
	// The call without an answer is settled first, and the next continues the chain.
	c := h.Unanswered
	if code, _, errs := home.run(t, "call", c.Vacant, c.Texts[0][0], "--as", c.Identity); code != problem.ExitFailed || !strings.Contains(errs, "call 1 to owl failed") {
		t.Errorf("the call without an answer: exit %d, %s", code, errs)
	}
	if answer := home.vacancy(t, "call", c.Vacant, "and now?", "--as", c.Identity); answer != "hm\n" {
		t.Errorf("%s answers %q", c.Vacant, answer)
	}
	if got := home.chain(t, c.Identity, c.Vacant); !slices.Equal(got, [][2]string{c.Texts[0], {"and now?", "hm"}}) {
		t.Errorf("%s and %s said %q", c.Identity, c.Vacant, got)
	}
	home.vacancy(t, "receipt", "shop", "--as", "alice")
}

// checkNewcomer checks that a new identity calls the host, and that the account pays for it.
func checkNewcomer(t *testing.T, home *home, h oldhost.Host) {
	t.Helper()
	before := home.account(t, "acme").Balance
	home.vacancy(t, "init", "carol")
	home.vacancy(t, "account", "link", "acme", "--as", "carol")
	home.vacancy(t, "call", "owl", "who are you?", "--as", "carol")
	if paid := before - home.account(t, "acme").Balance; paid != 10_000 {
		t.Errorf("the call of a new identity cost %d micro-dollars, expected 10000", paid)
	}
}

// A new host takes a vacant of the earlier release from its export. The calls that the vacant
// received stay with the old host, so an identity that called it there is told to start its chain
// again, and does.
func TestAnOldIdentityCallsANewHost(t *testing.T) {
	for _, format := range formats {
		t.Run(fmt.Sprintf("format%d", format), func(t *testing.T) {
			t.Parallel()
			home, h := openHome(t, format)
			if err := os.RemoveAll(filepath.Join(home.dir, oldhost.HostDir)); err != nil {
				t.Fatal(err)
			}
			home.start(t)
			home.vacancy(t, "create", "mover", "--capability", "has moved", "--import", filepath.Join(home.dir, oldhost.ExportFile))
			home.vacancy(t, "resume", "mover")
			if code, _, errs := home.run(t, "call", "mover", "after the move", "--as", "alice"); code != problem.ExitConflict || !strings.Contains(errs, "vacancy call mover --reset") {
				t.Errorf("a call on the chain of the old host: exit %d, %s", code, errs)
			}
			home.vacancy(t, "call", "mover", "--reset", "--as", "alice")
			want := fmt.Sprintf("echo from %.12s: after the move\n", h.Vacants["mover"].ID)
			if answer := home.vacancy(t, "call", "mover", "after the move", "--as", "alice"); answer != want {
				t.Errorf("mover answers %q, expected %q", answer, want)
			}
			home.vacancy(t, "call", "demo", "hello", "--as", "bob")
			checkWhole(t, home)
		})
	}
}
