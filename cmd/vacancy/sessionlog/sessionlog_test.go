package sessionlog

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// entry is a line of a log.
type entry struct {
	Timestamp string         `json:"timestamp"`
	Type      string         `json:"type"`
	Data      map[string]any `json:"data"`
}

// entries reads the only log below a root.
func entries(t *testing.T, root string) (name string, all []entry) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, Dir, "*.log"))
	if err != nil || len(found) != 1 {
		t.Fatalf("logs = %q, %v", found, err)
	}
	f, err := os.Open(found[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return filepath.Base(found[0]), all
}

func now() time.Time { return time.Unix(1_800_000_000, 0) }

func TestALogHasOneObjectPerLineAndGoesOn(t *testing.T) {
	root := t.TempDir()
	for range 2 {
		l, err := Open(root, "s-1", now)
		if err != nil {
			t.Fatal(err)
		}
		l.Write(WriteTextFile, "path", "a\nb", "size", 3)
		l.Write(ReadTextFile, "path", strings.Repeat("é", maxValueBytes))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	name, all := entries(t, root)
	if name != "s-1.log" || len(all) != 4 {
		t.Fatalf("%s has %d entries", name, len(all))
	}
	if e := all[2]; e.Timestamp != "2027-01-15T08:00:00Z" || e.Type != WriteTextFile || e.Data["path"] != "a\nb" || e.Data["size"] != 3.0 {
		t.Errorf("entry = %+v", e)
	}
	if text := all[3].Data["path"].(string); len(text) != maxValueBytes {
		t.Errorf("a long text has %d bytes", len(text))
	}
	info, err := os.Stat(filepath.Join(root, Dir, name))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}
}

func TestALogIsBelowItsFolderWhateverTheSessionIsCalled(t *testing.T) {
	for _, session := range []string{"", "..", "a/b", "../../x", ".hidden", "a.b", "\x00", strings.Repeat("x", 200), `c:\x`} {
		root := t.TempDir()
		l, err := Open(root, session, now)
		if err != nil {
			t.Fatalf("%q: %v", session, err)
		}
		l.WriteUpdate([]byte(`{"sessionUpdate":"tool_call","toolCallId":"c","status":"pending","content":[1]}`))
		l.Close()
		name, all := entries(t, root)
		if len(name) != 64+len(".log") || len(all) != 1 || all[0].Type != SessionUpdate || all[0].Data["update"] != "tool_call" || all[0].Data["status"] != "pending" {
			t.Errorf("%q: %s has %v", session, name, all)
		}
	}
}

func TestALogDoesNotLeaveItsRoot(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(root, ".vaultspec")); err != nil {
		t.Fatal(err)
	}
	if l, err := Open(root, "s", now); err == nil {
		l.Close()
		t.Error("a log was opened outside of its root")
	}
}

func TestNoLogHasNoEntries(t *testing.T) {
	var none *Log
	none.Write(SessionUpdate)
	if err := none.Close(); err != nil {
		t.Error(err)
	}
}
