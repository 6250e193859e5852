package standalone_test

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/upgrade"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
)

// oldHost is a data directory as a program of format 3 left it, with a vacant named shop.
type oldHost struct {
	*testing.T
	dir, data string
	config    standalone.Config
	told      []standalone.UpgradeProgress
	mu        sync.Mutex
}

func newOldHost(t *testing.T) *oldHost {
	t.Helper()
	o := &oldHost{T: t, dir: filepath.Join(t.TempDir(), "host")}
	o.data = filepath.Join(o.dir, standalone.DataFile)
	o.config = standalone.Config{Dir: o.dir, Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader, Version: "test", OnUpgrade: func(u standalone.UpgradeProgress) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.told = append(o.told, u)
	}}
	host := o.open()
	if _, err := host.Vacants.HostSigner(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := host.Vacants.Create(t.Context(), vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "shop", Capability: "echoes", Substrate: "echo"}); err != nil {
		t.Fatal(err)
	}
	o.close(host)
	o.age()
	return o
}

func (o *oldHost) open() *standalone.Host {
	o.Helper()
	host, err := standalone.Open(o.config)
	if err != nil {
		o.Fatal(err)
	}
	return host
}

func (o *oldHost) close(host *standalone.Host) {
	o.Helper()
	if err := host.Close(); err != nil {
		o.Fatal(err)
	}
}

// age gives the data format 3, whose programs stored no version.
func (o *oldHost) age() {
	o.Helper()
	file, err := bolt.Open(o.data, bolt.Options{})
	if err != nil {
		o.Fatal(err)
	}
	d, err := file.Doc(o.Context(), upgrade.VersionDocs.Key())
	if err == nil && d.Version > 0 {
		err = file.Commit(o.Context(), store.Delete{Key: d.Key, IfVersion: d.Version})
	}
	if err != nil {
		o.Fatal(err)
	}
	if err := file.Close(); err != nil {
		o.Fatal(err)
	}
	o.meta(3)
	o.told = nil
}

// meta sets the format of the file, and removes what an upgrade stored.
func (o *oldHost) meta(format uint64) {
	o.Helper()
	db, err := bbolt.Open(o.data, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		o.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte("meta"))
		for _, key := range []string{"about", "upgrade"} {
			if err := meta.Delete([]byte(key)); err != nil {
				return err
			}
		}
		return meta.Put([]byte("format"), binary.BigEndian.AppendUint64(nil, format))
	})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		o.Fatal(err)
	}
}

func (o *oldHost) bytes() []byte {
	o.Helper()
	b, err := os.ReadFile(o.data)
	if err != nil {
		o.Fatal(err)
	}
	return b
}

// copies returns the names of the files that an upgrade has left beside the data file.
func (o *oldHost) copies() (names []string) {
	o.Helper()
	all, err := filepath.Glob(o.data + ".*")
	if err != nil {
		o.Fatal(err)
	}
	for _, path := range all {
		names = append(names, strings.TrimPrefix(path, o.data))
	}
	return names
}

// refused opens the host, expects an error with some words, and checks that the data are unchanged.
func (o *oldHost) refused(kind problem.Kind, words ...string) {
	o.Helper()
	before := o.bytes()
	host, err := standalone.Open(o.config)
	if err == nil {
		o.close(host)
	}
	for _, w := range words {
		if !problem.Is(err, kind) || !strings.Contains(problem.AsError(err).Text(), w) {
			o.Errorf("Open() = %v, want %v that says %q", err, kind, w)
		}
	}
	if !bytes.Equal(before, o.bytes()) {
		o.Error("the data file changed")
	}
}

func TestDataAreCopiedUpgradedAndTold(t *testing.T) {
	o := newOldHost(t)
	old := o.bytes()
	if info, err := standalone.InspectData(o.dir); err != nil || info.Format != 3 || info.IsCurrent() || !strings.Contains(info.UpgradeMessage(), "its data have format 3: the next start copies them and upgrades them to format 4") {
		t.Errorf("InspectData() = %+v, %v: %s", info, err, info.UpgradeMessage())
	}
	host := o.open()
	if _, err := host.Vacants.GetByName(t.Context(), vacants.OperatorAsker(), "shop"); err != nil {
		t.Error(err)
	}
	s, err := host.Status(t.Context())
	if err != nil || s.Stored.Format != bolt.Format || s.Stored.Documents != upgrade.CurrentVersion || s.Stored.FromDocuments != 1 || s.Stored.UpgradedBy != "test" {
		t.Errorf("Status() = %+v, %v", s.Stored, err)
	}
	o.close(host)
	first, last := o.told[0], o.told[len(o.told)-1]
	if first.CopyPath != o.data+".format3" || first.From.String() != "format 3" || first.Duration != 0 || last.Duration <= 0 || last.CopyPath != first.CopyPath {
		t.Errorf("told %+v first and %+v last", first, last)
	}
	kept, err := os.ReadFile(first.CopyPath)
	if err != nil || !bytes.Equal(kept, old) {
		t.Errorf("the copy differs from the file of before, %v", err)
	}
	if info, err := os.Stat(first.CopyPath); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy has mode %v, %v", info.Mode(), err)
	}
	if info, err := standalone.InspectData(o.dir); err != nil || !info.IsCurrent() || info.UpgradeMessage() != "" || info.Last == nil || info.Last.Previous != 1 {
		t.Errorf("InspectData() = %+v, %v", info, err)
	}

	// The next start upgrades nothing, and another upgrade keeps the copy of the first.
	o.told = nil
	o.close(o.open())
	if len(o.told) != 0 || len(o.copies()) != 1 {
		t.Errorf("a start without an upgrade told %+v and left %v", o.told, o.copies())
	}
	o.age()
	o.close(o.open())
	if got := o.copies(); !slices.Equal(got, []string{".format3", ".format3-2"}) {
		t.Errorf("copies %v, want two", got)
	}
	if again, err := os.ReadFile(first.CopyPath); err != nil || !bytes.Equal(again, old) {
		t.Errorf("the first copy changed, %v", err)
	}
}

func TestDocumentsOfTodaysFileAreCopiedAndUpgraded(t *testing.T) {
	o := newOldHost(t)
	o.meta(bolt.Format)
	o.config.NoUpgrade = true
	o.refused(problem.Conflict, fmt.Sprintf("documents of version 1, and this vacancy reads version %d", upgrade.CurrentVersion))
	o.config.NoUpgrade = false
	o.close(o.open())
	if got := o.copies(); !slices.Equal(got, []string{".format4"}) {
		t.Errorf("copies %v", got)
	}
	if info, err := standalone.InspectData(o.dir); err != nil || !info.IsCurrent() {
		t.Errorf("InspectData() = %+v, %v", info, err)
	}
}

func TestNoUpgradeRefusesAndNoCopyMakesNone(t *testing.T) {
	o := newOldHost(t)
	o.config.NoUpgrade = true
	o.refused(problem.Conflict, "has format 3, this vacancy reads format 4", "the next start of the host upgrades it")
	o.config.NoUpgrade, o.config.SkipCopy = false, true
	o.close(o.open())
	if got := o.copies(); len(got) != 0 || o.told[0].CopyPath != "" {
		t.Errorf("copies %v, told %+v", got, o.told[0])
	}
}

func TestACopyNeedsRoomAndAFolderThatCanBeWritten(t *testing.T) {
	o := newOldHost(t)
	o.config.Disk = func(string) (free, size int64) { return 50 << 20, 1 << 40 }
	o.refused(problem.Unavailable, "cannot be copied to "+o.data+".format3", "50 MB are free", "free up disk space")
	if len(o.copies()) != 0 {
		t.Errorf("copies %v", o.copies())
	}
	o.config.Disk = nil
	// A copy that cannot be written.
	must(t, os.MkdirAll(filepath.Join(o.data+".copying", "x"), 0o700))
	o.refused(problem.Unavailable, "cannot be copied to "+o.data+".format3")
	must(t, os.RemoveAll(o.data+".copying"))
	// The rest of a copy that was interrupted.
	must(t, os.WriteFile(o.data+".copying", []byte("half"), 0o600))
	o.close(o.open())
	if got := o.copies(); !slices.Equal(got, []string{".format3"}) {
		t.Errorf("copies %v", got)
	}
}

func TestAnUpgradeThatWasInterruptedGoesOnWithoutAnotherCopy(t *testing.T) {
	o := newOldHost(t)
	seal := filepath.Join(o.dir, standalone.SealFile)
	key, err := os.ReadFile(seal)
	must(t, err)
	// With the key of another host the file is upgraded, and the documents are not.
	if err := os.WriteFile(seal, bytes.Repeat([]byte{7}, len(key)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := standalone.Open(o.config); !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), "restore the files that belong together") {
		t.Fatalf("Open() with another key = %v", err)
	}
	must(t, os.WriteFile(seal, key, 0o600))
	if info, err := standalone.InspectData(o.dir); err != nil || !info.Interrupted || !strings.Contains(info.UpgradeMessage(), "the next start completes it") {
		t.Errorf("InspectData() = %+v, %v", info, err)
	}
	o.config.NoUpgrade = true
	o.refused(problem.Conflict, "is incomplete")
	o.config.NoUpgrade = false
	o.close(o.open())
	if got := o.copies(); !slices.Equal(got, []string{".format3"}) {
		t.Errorf("copies %v, want one", got)
	}
	if info, err := standalone.InspectData(o.dir); err != nil || !info.IsCurrent() {
		t.Errorf("InspectData() = %+v, %v", info, err)
	}
}

func TestOfTwoProgramsOverOldDataOneUpgrades(t *testing.T) {
	o := newOldHost(t)
	hosts := make([]*standalone.Host, 2)
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i := range hosts {
		wg.Go(func() { hosts[i], errs[i] = standalone.Open(o.config) })
	}
	wg.Wait()
	opened := 0
	for i, host := range hosts {
		if errs[i] == nil {
			opened++
			o.close(host)
		} else if !problem.Is(errs[i], problem.Unavailable) || !strings.Contains(errs[i].Error(), "in use by another vacancy process") {
			t.Errorf("Open() = %v", errs[i])
		}
	}
	if opened != 1 || len(o.copies()) != 1 {
		t.Errorf("%d hosts opened, copies %v", opened, o.copies())
	}
}

func TestADamagedAndANewerFileAreRefusedAndNotCopied(t *testing.T) {
	o := newOldHost(t)
	whole := o.bytes()
	must(t, os.WriteFile(o.data, whole[:8192], 0o600))
	o.refused(problem.Damaged, o.data)
	// Of a damaged file the lock may be held until the process ends.
	must(t, errors.Join(os.Remove(o.data), os.WriteFile(o.data, whole, 0o600)))
	o.meta(bolt.Format + 1)
	o.refused(problem.Conflict, "use a newer vacancy")
	if info, err := standalone.InspectData(o.dir); err != nil || !info.IsNewer() || !strings.Contains(info.UpgradeMessage(), "use a newer vacancy") {
		t.Errorf("InspectData() = %+v, %v: %s", info, err, info.UpgradeMessage())
	}
	if len(o.copies()) != 0 {
		t.Errorf("copies %v", o.copies())
	}
	// Newer documents in a file of today's format.
	o.meta(bolt.Format)
	file, err := bolt.Open(o.data, bolt.Options{})
	must(t, err)
	err = file.Commit(t.Context(), store.Put{Key: upgrade.VersionDocs.Key(), WriteID: store.WriteID{1}, Data: fmt.Appendf(nil, `{"format":1,"version":%d,"at":"2026-05-06T00:00:00Z"}`, upgrade.CurrentVersion+1)})
	must(t, err)
	must(t, file.Close())
	if _, err := standalone.Open(o.config); !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), "use a newer vacancy") {
		t.Errorf("Open() = %v", err)
	}
}

func TestANewHostHasTheCurrentVersion(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "host")
	host, err := standalone.Open(standalone.Config{Dir: dir, Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader, NoUpgrade: true})
	must(t, err)
	if v, err := upgrade.ReadVersion(t.Context(), host.Store); err != nil || v.Version != upgrade.CurrentVersion || v.Previous != 0 {
		t.Errorf("ReadVersion() = %+v, %v", v, err)
	}
	must(t, host.Close())
	if !standalone.IsEmpty(t.Context(), dir) {
		t.Error("a host that has stored only its version is not empty")
	}
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
