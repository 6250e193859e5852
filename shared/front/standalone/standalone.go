// Package standalone runs a host in one process with a data directory, which contains its data
// file, the key that seals its secrets, its search index, its log and the socket of its operator.
// Only one process at a time uses a data directory. Every accepted call is answered or voided
// (ended without an answer) before Run returns or after the next start.
package standalone

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/front/handlers"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/front/web"
	"github.com/vacancy-host/vacancy/shared/host/billing/stripe"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/anthropic"
	"github.com/vacancy-host/vacancy/shared/host/substrate/conformance"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/substrate/gemini"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mcp"
	"github.com/vacancy-host/vacancy/shared/host/substrate/openai"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/upgrade"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/files"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
)

const (
	DataFile = "vacancy.db"
	SealFile = "seal.key"
	// SearchDir contains the search index, which can be rebuilt from the data file.
	SearchDir = "search"
	FilesDir  = "files"
	ExportDir = "exports"
	urlFile   = "url"
)

const DefaultURL = "http://127.0.0.1:8080"

// Config configures a Host. Dir, Log, Now and Rand are required.
type Config struct {
	setting.Host
	Dir                       string // created if it does not exist
	URL                       string // "" means the URL of the last run
	AllowLoopback, OwnMachine bool
	Substrates                substrate.Kinds
	// AllowNew allows a new host in a directory whose data file is missing or empty, even if
	// another host has run there.
	AllowNew bool
	// NoUpgrade makes Open refuse data of an earlier program. SkipCopy upgrades without a copy of
	// the data file.
	NoUpgrade, SkipCopy bool
	// OnUpgrade may be nil. It may be called concurrently.
	OnUpgrade func(UpgradeProgress)
	// WrapStore wraps the data file, and WrapBlobs wraps the files of workspaces. Both may be nil.
	WrapStore func(store.Store) store.Store
	WrapBlobs func(blob.Blobs) blob.Blobs
	Disk      func(dir string) (free, size int64)
	TestClock bool
	Version   string
	Log       *slog.Logger
	Now       func() time.Time
	Rand      io.Reader // safe for concurrent use
}

// Host is the host of a data directory in this process. It holds the lock of the data file.
type Host struct {
	*serve.Server
	Store *bolt.Store

	blobs     blob.Blobs
	clock     *testClock // nil if the machine's clock is used
	config    Config
	startedAt time.Time

	backupMu    sync.Mutex
	diskMonitor *diskMonitor
	writeProbe  *writeProbe
	searchState searchState
}

func Open(c Config) (*Host, error) {
	if err := serve.EnsurePrivate(c.Dir); err != nil {
		return nil, err
	}
	if c.URL == "" {
		c.URL = loadLastURL(c.Dir)
	}
	path, sealPath := filepath.Join(c.Dir, DataFile), filepath.Join(c.Dir, SealFile)
	if err := c.checkFiles(path, sealPath); err != nil {
		return nil, err
	}
	vault, err := local.Open(sealPath, c.Rand)
	if err != nil {
		return nil, err
	}
	measureDisk := c.Disk
	if measureDisk == nil {
		measureDisk = Disk
	}
	u := upgrader{config: &c, path: path, freeBytes: func() int64 { free, _ := measureDisk(c.Dir); return free }}
	file, err := u.open(vault)
	if err != nil {
		return nil, err
	}
	identityDoc, err := file.Doc(context.Background(), vacants.HostIdentityKey())
	if err == nil && identityDoc.Version > 0 {
		_, err = vacants.CheckHostIdentity(context.Background(), identityDoc, vault)
	}
	if err != nil {
		return nil, errors.Join(problem.Wrap(problem.Damaged, err, "%s belongs to another host: the key in %s does not open its sealed data; restore both files from the same backup", path, sealPath), file.Close())
	}
	var clock *testClock
	if c.TestClock {
		clock = &testClock{realNow: c.Now}
		c.Now = clock.Now
	}
	var data store.Store = file
	if c.WrapStore != nil {
		data = c.WrapStore(file)
	}
	fileBlobs, err := files.Open(filepath.Join(c.Dir, FilesDir), c.Now())
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	blobStore := blob.Blobs(fileBlobs)
	if c.WrapBlobs != nil {
		blobStore = c.WrapBlobs(blobStore)
	}
	openBlobs := func() (blob.Blobs, error) { return blobStore, nil }
	// The export handlers read the file itself, because a wrapped store cannot be walked.
	exportConfig := export.Config{Source: file, Vault: vault, Now: c.Now, OpenBlobs: openBlobs}
	host := &Host{
		diskMonitor: &diskMonitor{measure: func() (free, size int64) { return measureDisk(c.Dir) }, now: c.Now},
		writeProbe:  &writeProbe{Updater: store.Updater{Store: data, Rand: c.Rand}, now: c.Now},
		Store:       file, blobs: blobStore, clock: clock, config: c, startedAt: c.Now().UTC().Truncate(time.Second),
	}
	server, err := serve.Config{
		Store: serve.NewChangeNotifier(data), Vault: vault, AllowLoopback: c.AllowLoopback, OwnMachine: c.OwnMachine, Substrates: c.Substrates, Models: clientKinds, MCPServers: mcp.Servers,
		Host: c.Host, URL: c.URL, Version: c.Version, Log: c.Log, Now: c.Now, Rand: c.Rand,
		VerifyHandler: export.VerifyHandler(exportConfig), ChainHandler: export.ChainHandler(exportConfig), BackupHandler: http.HandlerFunc(host.serveBackup), Status: host.Status,
		Reindex: host.Reindex,
		Blobs:   openBlobs, AllowRemote: true, HoldsIdentity: true, LogCauses: true, HasAccounts: true, Feed: file, Rows: file, NewTokenChecker: tokens.NewForBilling,
	}.Open()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	host.Server = server
	return host, nil
}

func SubstrateKinds() []string {
	names := []string{echo.Kind, plan.Kind, substrate.KindHTTP, substrate.KindMock, substrate.KindWorker}
	for kind := range clientKinds(nil) { // the nil client is not used, because no substrate is opened
		if kind != conformance.Kind {
			names = append(names, kind)
		}
	}
	slices.Sort(names)
	return names
}

func clientKinds(client *outbound.Client) substrate.Kinds {
	models := substrate.Kinds{conformance.Kind: conformance.New}
	for _, providerKinds := range []substrate.Kinds{anthropic.Kinds(client), gemini.Kinds(client), mcp.Kinds(client), openai.Kinds(client)} {
		maps.Copy(models, providerKinds)
	}
	return models
}

func (h *Host) Close() error {
	h.Vacants.Close()
	h.SigningKeys.Close()
	return h.Store.Close()
}

func (c *Config) checkFiles(path, sealPath string) error {
	info, err := os.Stat(path)
	hasData := err == nil && info.Size() > 0
	switch {
	case hasData && !FileExists(sealPath):
		// A new key could not open any secret, and would hide that the old key is missing.
		return problem.New(problem.Damaged, "%s exists, but %s, the key that seals its secrets, is missing: restore the key file", path, sealPath)
	case hasData || c.AllowNew || !FileExists(sealPath):
		return nil
	case FileExists(filepath.Join(c.Dir, SearchDir)) || FileExists(filepath.Join(c.Dir, urlFile)):
		return problem.New(problem.Damaged, "a host has run in %s, but its data file %s is missing or empty", c.Dir, path)
	}
	// A first start may have ended before it created the data file.
	return nil
}

// IsEmpty reports whether the data file is missing, or contains neither rows nor documents. A file
// that cannot be read is not empty.
func IsEmpty(ctx context.Context, dir string) bool {
	path := filepath.Join(dir, DataFile)
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		return errors.Is(err, fs.ErrNotExist) || err == nil
	}
	file, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		return false
	}
	empty, err := file.IsEmpty(ctx, upgrade.VersionDocs.Key())
	return errors.Join(err, file.Close()) == nil && empty
}

func loadLastURL(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, urlFile))
	if err != nil || len(bytes.TrimSpace(b)) == 0 {
		return DefaultURL
	}
	return string(bytes.TrimSpace(b))
}

func FileExists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

const foldTimeout = 5 * time.Second

// The live data are only a few megabytes. In measurements, this value saved a tenth of the CPU time
// per call at the cost of 15 MB of memory.
const gcPercent = 400

// Above memoryLimit, the garbage collector runs more often. A thousand concurrent streams use less
// than 300 MB, including the pages of the data file.
const memoryLimit = 192 << 20

type RunConfig struct {
	// Run closes Public.
	Public     net.Listener
	WrapPublic func(http.Handler) http.Handler
	// If Index is nil, the host stores an index in the data directory.
	Index     search.Index
	Witnesses []string
	// Zero Grace means enough time for the slowest call.
	Grace time.Duration
	// WrapEndpoints may be nil. Its arguments are the public endpoint and the admin socket.
	WrapEndpoints func(...serve.Endpoint) []serve.Endpoint
}

// Run serves until ctx ends or a listener fails, and then lets running calls end. It calls ready
// when requests are answered. If ready returns an error, the run ends.
func (h *Host) Run(ctx context.Context, r RunConfig, ready func(context.Context) error) (err error) {
	defer r.Public.Close()
	if r.Grace == 0 {
		r.Grace = cmp.Or(h.config.CallTimeout, call.DefaultCallTimeout) + call.GracePeriod
	}
	socket, err := serve.ListenAdmin(h.config.Dir, h.config.Rand)
	if err != nil {
		return err
	}
	defer socket.Close()
	transparencyLog, err := h.OpenLog(r.Witnesses)
	if err != nil {
		return err
	}
	var ownIndex *search.SwappableIndex
	if r.Index == nil {
		index, err := openIndex(filepath.Join(h.config.Dir, SearchDir), h.config.Log)
		if err != nil {
			return err
		}
		ownIndex = search.NewSwappable(index)
		r.Index = ownIndex
	}
	defer func() { err = errors.Join(err, r.Index.Close()) }()
	searcher := h.OpenSearch(r.Index)
	h.searchState.mu.Lock()
	h.searchState.searcher, h.searchState.index = searcher, ownIndex
	h.searchState.mu.Unlock()
	h.applyURL(ctx)
	h.LogGateWarnings(ctx, h.config.Log)
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryLimit)
	a2a, accountHandler := h.OpenA2A(), h.AccountHandler(stripe.New)
	a2a.Find, a2a.ReceiptsHandler, a2a.VacantsHandler = searcher.Find, accountHandler, h.TenantsHandler()
	agpHandler := h.OpenAGP(a2a, searcher.Find, h.config.OwnMachine)
	publicHandlers := serve.Handlers{
		Plain: a2a.Plain, Protocols: handlers.NewProtocols(a2a), AGP: agpHandler, Metrics: h.config.OwnMachine,
		Message: h.MessageHandler(), Registry: h.RegistryHandler(transparencyLog), Search: searcher.Endpoint(),
		Gate: h.GateHandler(nil), Children: h.ChildrenHandler(), Account: accountHandler, Team: a2a.TeamHandler(), Work: a2a.WorkHandler(), Tenants: a2a.VacantsHandler,
		Resource: h.ResourceHandler(), MetadataURL: h.MetadataURL(), PageJudge: h.PageJudge(),
	}
	publicHandlers.Web = web.Handler(web.Config{API: publicHandlers.Public(), Log: h.config.Log, Now: h.config.Now})
	public := h.withHealth(publicHandlers.Public())
	if !h.config.OwnMachine {
		public = h.diskMonitor.refuseWrites(WithSender(public))
	}
	if h.clock != nil {
		public = h.clock.withClockHeader(public)
	}
	// WrapPublic is outermost, so requests that it refuses do not set the clock.
	if r.WrapPublic != nil {
		public = r.WrapPublic(public)
	}
	endpoints := []serve.Endpoint{
		{Listener: r.Public, Handler: httpapi.WithRequestIDs(public), CallTimeout: h.config.CallTimeout},
		{Listener: socket, Handler: serve.AdminHandler(socket, h.Admin()), NoWriteLimit: true},
	}
	if r.WrapEndpoints != nil {
		endpoints = r.WrapEndpoints(endpoints...)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	serveResult := make(chan error, 1)
	go func() { serveResult <- serve.Run(ctx, h.config.Log, r.Grace, endpoints...); cancel() }()
	workDone := h.startWork(ctx, a2a, agpHandler, searcher, transparencyLog)
	defer h.finishWork(ctx, workDone, r.Grace)
	if err := ready(ctx); err != nil {
		cancel()
		return errors.Join(err, <-serveResult)
	}
	<-ctx.Done()
	return <-serveResult
}

func (h *Host) startWork(ctx context.Context, a2a *serve.A2A, agpHandler *serve.AGP, searcher *serve.Search, transparencyLog *translog.Log) <-chan struct{} {
	var wg sync.WaitGroup
	wg.Go(func() { a2a.Run(ctx) })
	wg.Go(func() { // a worker that waits for a turn must not delay the shutdown
		<-ctx.Done()
		h.Workers.Drain()
	})
	wg.Go(func() {
		if err := searcher.Live.CatchUp(ctx); err != nil && ctx.Err() == nil {
			h.config.Log.LogAttrs(ctx, slog.LevelError, "the search index is not up to date", slog.String("cause", err.Error()))
		}
	})
	jobParts := serve.JobParts{
		Log:     transparencyLog,
		Exports: func() (blob.Blobs, error) { return files.Open(filepath.Join(h.config.Dir, ExportDir), h.config.Now()) },
		Expire: func(ctx context.Context, limit int) (int, error) {
			return h.Store.DeleteExpired(ctx, h.config.Now(), limit)
		},
	}
	if agpHandler != nil {
		jobParts.Bookings = agpHandler.Bookings.Sweep
	}
	for _, job := range h.Jobs(jobParts) {
		if job.Every > 0 {
			wg.Go(func() { job.Loop(ctx, h.config.Log) })
		}
	}
	workDone := make(chan struct{})
	go func() { defer close(workDone); wg.Wait() }()
	return workDone
}

// finishWork waits up to grace for background work. It then folds the last rows, so that usage is
// complete while no host runs.
func (h *Host) finishWork(ctx context.Context, workDone <-chan struct{}, grace time.Duration) {
	timeout := time.NewTimer(grace)
	defer timeout.Stop()
	select {
	case <-workDone:
	case <-timeout.C:
		h.config.Log.Warn("background work did not end in time")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), foldTimeout)
	defer cancel()
	if err := h.Fold(ctx); err != nil {
		h.config.Log.WarnContext(ctx, "usage was not folded; the next start folds it", "cause", err.Error())
	}
}

// applyURL stores the base URL, and renews the cards that contain another address. It only logs
// errors, because fsck reports damaged vacants.
func (h *Host) applyURL(ctx context.Context) {
	if h.config.URL != loadLastURL(h.config.Dir) {
		if err := os.WriteFile(filepath.Join(h.config.Dir, urlFile), []byte(h.config.URL+"\n"), 0o600); err != nil {
			h.config.Log.WarnContext(ctx, "the host's URL could not be stored", "cause", err.Error())
		}
	}
	signed, err := h.Vacants.UpdateCardURLs(ctx)
	if signed > 0 {
		h.config.Log.InfoContext(ctx, "cards signed again with the host's new URL", "cards", signed)
	}
	if err != nil {
		h.config.Log.ErrorContext(ctx, "cards could not be signed again", "cause", err.Error())
	}
}

func openIndex(dir string, log *slog.Logger) (*bleve.Index, error) {
	index, err := bleve.Open(dir)
	if !problem.Is(err, problem.Damaged) {
		return index, err
	}
	log.Warn("the search index is rebuilt", "folder", dir, "cause", err.Error())
	if err := os.RemoveAll(dir); err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "the damaged search index in %s cannot be removed", dir)
	}
	return bleve.Open(dir)
}
