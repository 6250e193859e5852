package standalone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/vacancy-host/vacancy/shared/durable"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/upgrade"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
)

// Upgrading is the progress of an upgrade of a data directory.
type Upgrading struct {
	From DataVersion
	// Copy is the path of the copy of the data file. It is "" if this upgrade made no copy, for
	// example because it continues an interrupted upgrade.
	Copy string
	// Step names the part that is being upgraded: the data file or a kind of document. It is "" at
	// the start and at the end. Done is the number of items that were visited.
	Step string
	Done int
	// Took is the duration of the complete upgrade. It is set at the end.
	Took time.Duration
}

type DataVersion struct {
	Format int // layout of the data file, or -1 if the file is empty
	// Documents is the version of the documents. It is zero if the file has another format than
	// this program writes.
	Documents int
}

func CurrentData() DataVersion { return DataVersion{bolt.Format, upgrade.Current} }

// String returns "no data", "format 2" or, for example, "format 4, documents 1".
func (v DataVersion) String() string {
	switch {
	case v.Format < 0:
		return "no data"
	case v.Format < bolt.Format:
		return fmt.Sprintf("format %d", v.Format)
	}
	return fmt.Sprintf("format %d, documents %d", v.Format, v.Documents)
}

type DataInfo struct {
	DataVersion
	Interrupted bool // an upgrade is incomplete
	Size        int64
	// Last is the last upgrade or the creation of the host, or nil if it is unknown.
	Last *upgrade.Version
}

func (i *DataInfo) IsCurrent() bool { return i.DataVersion == CurrentData() && !i.Interrupted }

func (i *DataInfo) Outlook() string {
	current := CurrentData()
	// Data that need no upgrade get no sentence.
	switch {
	case i.Format < 0 || i.IsCurrent():
		return ""
	case i.IsNewer():
		return fmt.Sprintf("its data have %s, and this vacancy reads up to %s: use a newer vacancy", i, current)
	case i.Interrupted:
		return "an upgrade of its data is incomplete: the next start completes it"
	}
	return fmt.Sprintf("its data have %s: the next start copies them and upgrades them to %s", i, current)
}

func (i *DataInfo) StoredData() admin.Stored {
	s := admin.Stored{Format: i.Format, Documents: i.Documents}
	if i.Last != nil {
		s.From, s.At, s.Program = i.Last.From, i.Last.At, i.Last.Program
	}
	return s
}

func (i *DataInfo) IsNewer() bool { return i.Format > bolt.Format || i.Documents > upgrade.Current }

func Inspect(dir string) (DataInfo, error) {
	path := filepath.Join(dir, DataFile)
	info, err := bolt.Inspect(path)
	if err == nil && info.Format < 0 {
		c := Config{Dir: dir}
		err = c.checkFiles(path, filepath.Join(dir, SealFile))
	}
	if err != nil {
		return DataInfo{}, err
	}
	return describe(info)
}

func describe(info bolt.Info) (DataInfo, error) {
	d := DataInfo{DataVersion: DataVersion{Format: info.Format}, Interrupted: info.From > 0, Size: info.Size}
	if info.About == nil {
		return d, nil
	}
	d.Last = &upgrade.Version{}
	if err := json.Unmarshal(info.About, d.Last); err != nil {
		return d, problem.Wrap(problem.Damaged, err, "the data file is damaged: its version is not readable")
	}
	d.Documents = d.Last.Version
	return d, nil
}

type upgrading struct {
	config *Config
	path   string
	free   func() int64
	began  time.Time // zero unless this process upgrades
	told   Upgrading // current progress
}

func (u *upgrading) open(vault custody.Vault) (*bolt.Store, error) {
	// A new file gets the current version. Data of an earlier program are upgraded.
	o := bolt.Options{}
	if !u.config.NoUpgrade {
		o.Upgrade = &bolt.Upgrade{
			Begin: func(from int) error { return u.begin(DataVersion{Format: from}) },
			Progress: func(done int) {
				u.told.Step, u.told.Done = "the data file", done
				u.reportProgress(u.told)
			},
		}
	}
	file, err := bolt.Open(u.path, o)
	if err != nil {
		return nil, err
	}
	if err := u.documents(context.Background(), file, vault); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (u *upgrading) reportProgress(t Upgrading) {
	if u.config.Upgrading != nil {
		u.config.Upgrading(t)
	}
}

func (u *upgrading) begin(from DataVersion) (err error) {
	u.began, u.told.From = time.Now(), from
	if !u.config.NoCopy {
		// The copy is made before the first change.
		if u.told.Copy, err = u.copy(from.Format); err != nil {
			return err
		}
	}
	u.reportProgress(u.told)
	return nil
}

func (u *upgrading) documents(ctx context.Context, file *bolt.Store, vault custody.Vault) error {
	info, err := file.Info()
	if err != nil {
		return err
	}
	is, err := describe(info)
	if err != nil || is.IsCurrent() {
		return err
	}
	v, err := upgrade.Read(ctx, file)
	if err != nil {
		return err
	}
	empty, err := file.IsEmpty(ctx, store.Key{})
	if err != nil {
		return err
	}
	is.Documents = v.Version
	c := u.config
	data := upgrade.Data{
		Store: file, Vault: vault, Texts: textkeys.New(file, vault, c.Now, c.Rand, c.Retention), HasQueue: true,
		Program: c.Version, Log: c.Log, Now: c.Now, Rand: c.Rand,
		Progress: func(s upgrade.Step, done int) {
			u.reportProgress(Upgrading{From: u.told.From, Copy: u.told.Copy, Step: s.Name, Done: done})
		},
	}
	switch {
	case empty:
		v, err = upgrade.New(ctx, data)
	// The documents are already current, because an earlier process crashed after it had upgraded
	// or created them.
	case v.Version == upgrade.Current:
	case c.NoUpgrade:
		return bolt.NewEarlierError("%s has documents of version %d, and this vacancy reads version %d: the next start of the host upgrades it", u.path, v.Version, upgrade.Current)
	default:
		if !is.Interrupted && upgrade.ChangesDocuments(v.Version) {
			if err := u.begin(is.DataVersion); err != nil {
				return err
			}
			if err := file.BeginUpgrade(); err != nil {
				return err
			}
		} else if is.Interrupted && u.began.IsZero() {
			u.began, u.told.From = time.Now(), DataVersion{Format: info.From}
			u.reportProgress(u.told)
		}
		v, err = upgrade.Run(ctx, data)
	}
	if err != nil {
		return err
	}
	about, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := file.FinishUpgrade(about); err != nil || u.began.IsZero() {
		return err
	}
	u.told.Step, u.told.Took = "", max(time.Since(u.began), 1)
	if u.reportProgress(u.told); c.Upgrading == nil {
		c.Log.InfoContext(ctx, "data upgraded", "from", u.told.From.String(), "to", CurrentData().String(), "copy", u.told.Copy, "took", u.told.Took.String())
	}
	return nil
}

// reservedSpace is the disk space that an upgrade needs in addition to the copy.
const reservedSpace = 64 << 20

// copy copies the data file to a file whose name contains the format. This process must hold the
// lock of the data file. An incomplete copy has another name.
func (u *upgrading) copy(format int) (string, error) {
	to := fmt.Sprintf("%s.format%d", u.path, format)
	for n := 2; FileExists(to); n++ {
		to = fmt.Sprintf("%s.format%d-%d", u.path, format, n)
	}
	fail := func(err error) (string, error) {
		return "", problem.Wrap(problem.Unavailable, err, "%s must be upgraded, but cannot be copied to %s first: %v; free disk space in a folder to which this user can write, or move the data directory to another disk", u.path, to, err)
	}
	from, err := os.Open(u.path)
	if err != nil {
		return fail(err)
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return fail(err)
	}
	if free := u.free(); free >= 0 && free < info.Size()+reservedSpace {
		return fail(fmt.Errorf("it needs %d MB of disk space, and %d MB are free", (info.Size()+reservedSpace)>>20, free>>20))
	}
	part := u.path + ".copying"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	if err := copySynced(part, from); err != nil {
		return fail(errors.Join(err, os.Remove(part)))
	}
	if err := errors.Join(os.Rename(part, to), durable.SyncDir(filepath.Dir(to))); err != nil {
		return fail(err)
	}
	return to, nil
}

func copySynced(path string, from io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Sync(), f.Close())
}
