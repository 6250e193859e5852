package cli

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/upgrade"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
)

// setFormat writes the format of a directory's data file. It deletes the version, which format 3 does not have.
func setFormat(t *testing.T, dir string, format uint64) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(dir, standalone.DataFile), 0o600, &bbolt.Options{Timeout: time.Second})
	must(t, err)
	err = db.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte("meta"))
		return errors.Join(meta.Delete([]byte("about")), meta.Put([]byte("format"), binary.BigEndian.AppendUint64(nil, format)))
	})
	must(t, errors.Join(err, db.Close()))
}

// makeOld gives a directory the data of an earlier program.
func makeOld(t *testing.T, dir string) {
	t.Helper()
	file, err := bolt.Open(filepath.Join(dir, standalone.DataFile), bolt.Options{})
	must(t, err)
	d, err := file.Doc(t.Context(), upgrade.VersionDocs.Key())
	if err == nil {
		err = file.Commit(t.Context(), store.Delete{Key: d.Key, IfVersion: d.Version})
	}
	must(t, errors.Join(err, file.Close()))
	setFormat(t, dir, 3)
}

func TestDataOfANewerProgramAreRefused(t *testing.T) {
	s := newShell(t)
	s.must("create", "demo", "--capability", "x")
	setFormat(t, filepath.Join(s.dataHome, "host"), 99)
	for _, command := range []string{"list", "dev --listen 127.0.0.1:0"} {
		s.fails(problem.ExitConflict, "has format 99, this vacancy reads format 4: use a newer vacancy", strings.Fields(command)...)
	}
}

func TestDataOfAnEarlierProgramAreNamedAndUpgraded(t *testing.T) {
	s := newShell(t)
	s.must("create", "demo", "--capability", "x")
	dir := filepath.Join(s.env["VACANCY_HOME"], "host")
	makeOld(t, dir)
	const next = "its data have format 3: the next start copies them and upgrades them to format 4, documents"
	for command, want := range map[string]string{
		"data show":        next,
		"status":           "is not running; " + next,
		"doctor":           next,
		"list":             "has format 3, this vacancy reads format 4: the next start of the host upgrades it",
		"verify":           "has format 3, this vacancy reads format 4: the next start of the host upgrades it",
		"dev --no-upgrade": "has format 3, this vacancy reads format 4: the next start of the host upgrades it",
	} {
		if code, out, errs := s.run("", strings.Fields(command)...); !strings.Contains(out+errs, want) || (code == 0) != (command == "data show" || command == "doctor") {
			t.Errorf("vacancy %s = exit %d, %q, %q; want %q", command, code, out, errs, want)
		}
	}
	if info, err := standalone.InspectData(dir); err != nil || info.Format != 3 {
		t.Errorf("InspectData() = %+v, %v: a command that looks changed the data", info, err)
	}
	ctx, end := context.WithCancel(t.Context())
	said := make(chan string, 1)
	go func() {
		_, out, errs := s.runContext(ctx, "", "dev", "--listen", "127.0.0.1:0")
		said <- out + errs
	}()
	await.Until(t, "the host runs", func() bool { code, _, _ := s.run("", "status"); return code == 0 })
	if out := s.must("data", "show"); !strings.Contains(out, "format      4") || !strings.Contains(out, "upgraded from version 1") {
		t.Errorf("data show of a running host = %q", out)
	}
	end()
	out := <-said
	for _, want := range []string{"Upgrading the data from format 3 to format 4, documents", "A copy is in $VACANCY_HOME/host/" + standalone.DataFile + ".format3", "Upgraded the data to format 4, documents"} {
		if !strings.Contains(out, want) {
			t.Errorf("vacancy dev said %q, want %q", out, want)
		}
	}
	s.must("verify")
	if out := s.must("list"); !strings.Contains(out, "demo") {
		t.Errorf("list = %q", out)
	}
}
