package fsck_test

import (
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/documents"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// If a kind is declared as store.VerifyParse, verify finds its unreadable documents. Package fsck needs
// no code for the kind.
func TestADamagedDocumentOfEachKindThatIsCheckedAloneIsFound(t *testing.T) {
	st := memory.New()
	c, a := paying(t, st)
	for _, kind := range documents.All() {
		s := kind.Shape
		if s.Verify != store.VerifyParse {
			continue
		}
		parts := map[store.OwnerKind][]string{store.OwnedByVacant: {c.Demo.ID.String()}, store.OwnedByAccount: {a.ID}}[s.Owner]
		for range strings.Count(s.Sort, "*") {
			parts = append(parts, "x")
		}
		d, err := st.Doc(c.Ctx, s.Key(parts...))
		c.Must(err)
		c.Must(st.Commit(c.Ctx, store.Put{Key: d.Key, IfVersion: d.Version, WriteID: store.WriteID{1, 1}, Data: []byte("{")}))
		if _, found := c.check(st); len(found) != 1 || found[0].Check != fsck.Document || found[0].Location != d.Key.String() {
			t.Errorf("over a %s of { verify finds %v; { must not be readable as one: use store.JSON, or Valid", s.Name, found)
		}
		if d.Version == 0 {
			c.Must(st.Commit(c.Ctx, store.Delete{Key: d.Key, IfVersion: 1}))
		} else {
			c.Must(st.Commit(c.Ctx, store.Put{Key: d.Key, IfVersion: d.Version + 1, WriteID: store.WriteID{1, 2}, Data: d.Data, Index: d.Index, Number: d.Number}))
		}
	}
}
