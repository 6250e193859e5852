package cli

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Data of the version before is not read as damage without a cause, and a new host can begin
// beside it.
func TestAHomeOfTheVersionBeforeIsNamed(t *testing.T) {
	s := newShell(t)
	var made struct {
		ID identity.ID `json:"vacant_id"`
	}
	if err := json.Unmarshal([]byte(s.must("create", "demo", "--capability", "x", "--json")), &made); err != nil {
		t.Fatal(err)
	}
	file, err := bolt.Open(filepath.Join(s.env["VACANCY_HOME"], "host", standalone.DataFile), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := file.Doc(t.Context(), vacants.RecordKey(made.ID))
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.Replace(d.Data, []byte(`"format":5`), []byte(`"format":4`), 1)
	if err := file.Commit(t.Context(), store.Put{Key: d.Key, If: d.Version, WriteID: store.WriteID{9}, Data: before}); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	const want = "it has format 4, and this Vacancy reads 5: an older one wrote it; read it with that one, or begin with another data directory"
	for _, args := range []string{"list", "show demo", "verify"} {
		if code, out, errs := s.run("", strings.Fields(args)...); code == 0 || !strings.Contains(out+errs, want) {
			t.Errorf("vacancy %s = exit %d, %q, %q; want %q", args, code, out, errs, want)
		}
	}
	other := filepath.Join(t.TempDir(), "other")
	s.must("create", "demo", "--capability", "x", "--data", other)
	if out := s.must("list", "--data", other); !strings.Contains(out, "demo") {
		t.Errorf("list of the new host = %q", out)
	}
}
