package fsck_test

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// The registry's log is checked locally and over pages. The sealed tree covers the events, and
// every document of the log is checked.
func TestTheLogIsCheckedAgainstTheEvents(t *testing.T) {
	for _, sort := range []string{"", "head", "cp#0000000000000001", "epoch#00000001"} {
		t.Run("damaged "+sort, func(t *testing.T) {
			home := memory.New()
			c := story(t, home)
			_, _, err := c.Vacants.Publish(c.Ctx, c.Demo.ID, vacants.PublishOptions{})
			c.Must(err)
			l, err := translog.NewForRegistry(translog.Config{Store: home, Identity: c.Vacants.HostSigner, Now: c.Now, Rand: rand.Reader}, nil)
			c.Must(err)
			_, err = l.Seal(c.Ctx)
			c.Must(err)
			if sort != "" {
				k := store.Key{Partition: translog.HeadDocs.Partition, Sort: sort}
				d, err := home.Doc(c.Ctx, k)
				c.Must(err)
				c.Must(home.Commit(c.Ctx, store.Put{Key: k, IfVersion: d.Version, WriteID: store.WriteID{1}, Data: []byte("{}")}))
			}
			_, found := c.check(home)
			switch {
			case sort == "" && len(found) > 0:
				t.Errorf("Run() finds %v, want nothing", found)
			case sort != "" && (len(found) != 1 || found[0].Check != fsck.Log || !strings.HasSuffix(found[0].Location, sort)):
				t.Errorf("Run() finds %v, want %s alone", found, sort)
			}
		})
	}
}
