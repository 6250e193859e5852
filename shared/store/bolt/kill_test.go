//go:build unix

package bolt_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
)

// childEnv, if set, makes the test binary a writer to that file, which is then
// killed.
const childEnv = "VACANCY_TEST_BOLT_CHILD"

const childWriters = 16

// childRecent is small enough that the index is updated many times in a child's
// life.
const childRecent = 200

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		writeUntilKilled(path)
		return
	}
	os.Exit(m.Run())
}

func childStream(i int) store.Stream { return store.Stream(fmt.Sprintf("writer %d", i)) }

func childCount(i int) store.Key { return store.Key{Partition: "count", Sort: fmt.Sprint(i)} }

// writeUntilKilled appends with 16 writers, each of which also counts its rows
// in a document, and prints what was acknowledged.
func writeUntilKilled(path string) {
	ctx := context.Background()
	s, err := bolt.Open(path, bolt.Options{}.WithRecentRows(childRecent))
	if err != nil {
		fmt.Println("cannot open:", err)
		return
	}
	var wg sync.WaitGroup
	for i := range childWriters {
		wg.Go(func() {
			tip, err := s.Tip(ctx, childStream(i))
			for p := tip.Position + 1; err == nil; p++ {
				a := newRow(childStream(i), p)
				a.WriteID = store.WriteID{byte(i) + 1, byte(p), byte(p >> 8)}
				err = s.Commit(ctx, a, store.Add{Key: childCount(i), Delta: 1, Max: 1 << 40})
				if err == nil {
					_, err = fmt.Println(i, p)
				}
			}
			fmt.Println("failed:", err)
		})
	}
	wg.Wait()
}

func TestAcknowledgedWritesSurviveKill9(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vacancy.db")
	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		acked := killAChild(t, path, time.Duration(60+40*round)*time.Millisecond)
		s := open(t, path, bolt.Options{}.WithRecentRows(childRecent))
		total := 0
		for i := range childWriters {
			total += checkChild(t, s, i, acked[i])
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("round %d: %d rows", round, total)
	}
}

// killAChild runs a child for a while, kills it, and returns the last
// acknowledged position of each writer.
func killAChild(t *testing.T, path string, after time.Duration) (acked [childWriters]uint64) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for killing := (*time.Timer)(nil); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			if err != io.EOF {
				t.Fatal(err)
			}
			break // an incomplete line does not acknowledge
		}
		if killing == nil {
			killing = time.AfterFunc(after, func() { _ = child.Process.Kill() })
		}
		var i int
		var p uint64
		if _, err := fmt.Sscan(line, &i, &p); err != nil {
			t.Fatalf("the child said %q", strings.TrimSpace(line))
		}
		acked[i] = p
	}
	// The signal ends it.
	_ = child.Wait()
	return acked
}

// checkChild proves that a writer's rows are all there, once, in order, and
// counted exactly; it returns their number.
func checkChild(t *testing.T, s store.Store, i int, acked uint64) int {
	t.Helper()
	var n uint64
	for {
		rows, err := s.Rows(t.Context(), childStream(i), n+1, store.MaxPage, store.Ascending)
		if err != nil {
			t.Fatalf("Rows() = %v, want nil", err)
		}
		for _, r := range rows {
			if n++; r.Position != n || r.WriteID != (store.WriteID{byte(i) + 1, byte(n), byte(n >> 8)}) || len(r.Data) != len(rowData) {
				t.Fatalf("writer %d: row %d = %d %s with %d bytes", i, n, r.Position, r.WriteID, len(r.Data))
			}
		}
		if len(rows) == 0 {
			break
		}
	}
	count, err := s.Doc(t.Context(), childCount(i))
	if err != nil || n < acked || count.Number != int64(n) {
		t.Errorf("writer %d: %d rows, %d counted, %v; %d were acknowledged", i, n, count.Number, err, acked)
	}
	return int(n)
}
