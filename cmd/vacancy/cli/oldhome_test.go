package cli

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/upgrade"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
)

// makeOld gives a directory the data of an earlier program.
func makeOld(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, standalone.DataFile)
	file, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := file.Doc(t.Context(), upgrade.VersionDocs.Key())
	if err == nil {
		err = file.Commit(t.Context(), store.Delete{Key: d.Key, If: d.Version})
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte("meta"))
		return errors.Join(meta.Delete([]byte("about")), meta.Put([]byte("format"), binary.BigEndian.AppendUint64(nil, 3)))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
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
	if info, err := standalone.Inspect(dir); err != nil || info.Format != 3 {
		t.Errorf("Inspect() = %+v, %v: a command that looks changed the data", info, err)
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
	for _, want := range []string{"Upgrading the data from format 3 to format 4, documents", "A copy is in $VACANCY_HOME/host/" + standalone.DataFile + ".format3", "The data are upgraded to format 4, documents"} {
		if !strings.Contains(out, want) {
			t.Errorf("vacancy dev said %q, want %q", out, want)
		}
	}
	s.must("verify")
	if out := s.must("list"); !strings.Contains(out, "demo") {
		t.Errorf("list = %q", out)
	}
}

// An empty data file is damaged if the host has run. An interrupted first start also leaves one.
func TestAnEmptyDataFileIsNamed(t *testing.T) {
	s := newShell(t)
	s.must("create", "demo", "--capability", "x")
	dir := filepath.Join(s.env["VACANCY_HOME"], "host")
	path := filepath.Join(dir, standalone.DataFile)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{"data show": "format      none, the file is empty", "doctor": "no data"} {
		if out := s.must(strings.Fields(command)...); !strings.Contains(out, want) {
			t.Errorf("vacancy %s = %q, want %q", command, out, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "url"), []byte("http://127.0.0.1:1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"data show", "doctor"} {
		if code, out, errs := s.run("", strings.Fields(command)...); code == 0 || !strings.Contains(out+errs, "is missing or empty") {
			t.Errorf("vacancy %s = exit %d, %q, %q", command, code, out, errs)
		}
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 1<<14)), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := s.run("", "data", "show"); code == 0 || !strings.Contains(errs, "is not a data file of Vacancy") {
		t.Errorf("vacancy data show = exit %d, %q", code, errs)
	}
}
