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

type UpgradeProgress struct {
	From DataVersion
	// CopyPath is "" if this upgrade made no copy of the data file.
	CopyPath string
	// Step names the part that is being upgraded.
	Step         string
	VisitedCount int
	Duration     time.Duration
}

type DataVersion struct {
	Format int // layout of the data file, or -1 if the file is empty
	// Documents is zero if this program cannot read the file's format.
	Documents int
}

func CurrentVersion() DataVersion { return DataVersion{bolt.Format, upgrade.CurrentVersion} }

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
	Interrupted bool
	Size        int64
	Last        *upgrade.Version
}

func (i *DataInfo) IsCurrent() bool { return i.DataVersion == CurrentVersion() && !i.Interrupted }

func (i *DataInfo) UpgradeMessage() string {
	current := CurrentVersion()
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
		s.FromDocuments, s.UpgradedAt, s.UpgradedBy = i.Last.Previous, i.Last.ReachedAt, i.Last.Program
	}
	return s
}

func (i *DataInfo) IsNewer() bool {
	return i.Format > bolt.Format || i.Documents > upgrade.CurrentVersion
}

func InspectData(dir string) (DataInfo, error) {
	path := filepath.Join(dir, DataFile)
	info, err := bolt.Inspect(path)
	if err == nil && info.Format < 0 {
		c := Config{Dir: dir}
		err = c.checkFiles(path, filepath.Join(dir, SealFile))
	}
	if err != nil {
		return DataInfo{}, err
	}
	return parseDataInfo(info)
}

func parseDataInfo(info bolt.Info) (DataInfo, error) {
	d := DataInfo{DataVersion: DataVersion{Format: info.Format}, Interrupted: info.UpgradeFrom > 0, Size: info.Size}
	if info.VersionData == nil {
		return d, nil
	}
	d.Last = &upgrade.Version{}
	if err := json.Unmarshal(info.VersionData, d.Last); err != nil {
		return d, problem.Wrap(problem.Damaged, err, "the data file is damaged: its version is not readable")
	}
	d.Documents = d.Last.Version
	return d, nil
}

type upgrader struct {
	config    *Config
	path      string
	freeBytes func() int64
	startedAt time.Time // zero unless this process upgrades
	progress  UpgradeProgress
}

func (u *upgrader) open(vault custody.Vault) (*bolt.Store, error) {
	o := bolt.Options{}
	if !u.config.NoUpgrade {
		o.Upgrade = &bolt.Upgrade{
			BeforeFirstChange: func(from int) error { return u.startUpgrade(DataVersion{Format: from}) },
			Progress: func(done int) {
				u.progress.Step, u.progress.VisitedCount = "the data file", done
				u.reportProgress(u.progress)
			},
		}
	}
	file, err := bolt.Open(u.path, o)
	if err != nil {
		return nil, err
	}
	if err := u.upgradeDocuments(context.Background(), file, vault); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (u *upgrader) reportProgress(progress UpgradeProgress) {
	if u.config.OnUpgrade != nil {
		u.config.OnUpgrade(progress)
	}
}

func (u *upgrader) startUpgrade(from DataVersion) (err error) {
	u.startedAt, u.progress.From = time.Now(), from
	if !u.config.SkipCopy { // the copy must be made before the first change
		if u.progress.CopyPath, err = u.copyDataFile(from.Format); err != nil {
			return err
		}
	}
	u.reportProgress(u.progress)
	return nil
}

func (u *upgrader) upgradeDocuments(ctx context.Context, file *bolt.Store, vault custody.Vault) error {
	info, err := file.Info()
	if err != nil {
		return err
	}
	dataInfo, err := parseDataInfo(info)
	if err != nil || dataInfo.IsCurrent() {
		return err
	}
	version, err := upgrade.ReadVersion(ctx, file)
	if err != nil {
		return err
	}
	empty, err := file.IsEmpty(ctx, store.Key{})
	if err != nil {
		return err
	}
	dataInfo.Documents = version.Version
	c := u.config
	data := upgrade.Data{
		Store: file, Vault: vault, Texts: textkeys.New(file, vault, c.Now, c.Rand, c.Retention), HasQueue: true,
		Program: c.Version, Log: c.Log, Now: c.Now, Rand: c.Rand,
		Progress: func(s upgrade.Step, done int) {
			u.reportProgress(UpgradeProgress{From: u.progress.From, CopyPath: u.progress.CopyPath, Step: s.Name, VisitedCount: done})
		},
	}
	switch {
	case empty:
		version, err = upgrade.InitVersion(ctx, data)
	// An earlier process crashed after it had upgraded or created the documents.
	case version.Version == upgrade.CurrentVersion:
	case c.NoUpgrade:
		return bolt.NewOldFormatError("%s has documents of version %d, and this vacancy reads version %d: the next start of the host upgrades it", u.path, version.Version, upgrade.CurrentVersion)
	default:
		if !dataInfo.Interrupted && upgrade.ChangesDocuments(version.Version) {
			if err := u.startUpgrade(dataInfo.DataVersion); err != nil {
				return err
			}
			if err := file.BeginUpgrade(); err != nil {
				return err
			}
		} else if dataInfo.Interrupted && u.startedAt.IsZero() {
			u.startedAt, u.progress.From = time.Now(), DataVersion{Format: info.UpgradeFrom}
			u.reportProgress(u.progress)
		}
		version, err = upgrade.Run(ctx, data)
	}
	if err != nil {
		return err
	}
	about, err := json.Marshal(version)
	if err != nil {
		return err
	}
	if err := file.FinishUpgrade(about); err != nil || u.startedAt.IsZero() {
		return err
	}
	u.progress.Step, u.progress.Duration = "", max(time.Since(u.startedAt), 1)
	if u.reportProgress(u.progress); c.OnUpgrade == nil {
		c.Log.InfoContext(ctx, "data upgraded", "from", u.progress.From.String(), "to", CurrentVersion().String(), "copy", u.progress.CopyPath, "took", u.progress.Duration.String())
	}
	return nil
}

const extraSpace = 64 << 20

// The caller must hold the lock of the data file.
func (u *upgrader) copyDataFile(format int) (string, error) {
	target := fmt.Sprintf("%s.format%d", u.path, format)
	for n := 2; FileExists(target); n++ {
		target = fmt.Sprintf("%s.format%d-%d", u.path, format, n)
	}
	fail := func(err error) (string, error) {
		return "", problem.Wrap(problem.Unavailable, err, "%s must be upgraded, but cannot be copied to %s first: %v; free up disk space, check that this user can write to the folder, or move the data directory to another disk", u.path, target, err)
	}
	source, err := os.Open(u.path)
	if err != nil {
		return fail(err)
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return fail(err)
	}
	if free := u.freeBytes(); free >= 0 && free < info.Size()+extraSpace {
		return fail(fmt.Errorf("it needs %d MB of disk space, and %d MB are free", (info.Size()+extraSpace)>>20, free>>20))
	}
	partial := u.path + ".copying" // a crash must not leave an incomplete copy as target
	if err := os.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	if err := copySynced(partial, source); err != nil {
		return fail(errors.Join(err, os.Remove(partial)))
	}
	if err := errors.Join(os.Rename(partial, target), durable.SyncDir(filepath.Dir(target))); err != nil {
		return fail(err)
	}
	return target, nil
}

func copySynced(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Sync(), f.Close())
}
