package kit

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const (
	logHuman = "human"
	logJSON  = "json"
)

func (a *App) AddLogFlag(fs *pflag.FlagSet) {
	fs.StringVar(&a.logForm, "log", logHuman, "the log on standard error: human or json")
}

// hostLog writes to standard error and to the journal in the data directory.
type hostLog struct {
	*slog.Logger
	journal *standalone.Journal
	human   *humanLog
	names   *nameCache
}

// NewLogHandler returns a handler that writes to standard error. human is nil if --log or --json
// selects JSON.
func (a *App) NewLogHandler() (handler slog.Handler, human *humanLog, err error) {
	switch a.logForm {
	case "", logHuman, logJSON:
	default:
		return nil, nil, &problem.Error{Kind: problem.Usage, Field: "--log", Want: "human or json", Got: a.logForm}
	}
	if a.logForm != logJSON && !a.JSON {
		human = newHumanLog(a.Terminal(a.Err))
		return human, human, nil
	}
	return slog.NewJSONHandler(a.Err, nil), nil, nil
}

func (a *App) OpenHostLog(dir string) (*hostLog, error) {
	handler, human, err := a.NewLogHandler()
	if err != nil {
		return nil, err
	}
	if err := serve.EnsurePrivate(dir); err != nil {
		return nil, err
	}
	journal, err := standalone.OpenJournal(dir, a.Now)
	if err != nil {
		return nil, err
	}
	l := &hostLog{journal: journal, human: human, names: a.newNameCache()}
	l.Logger = slog.New(&nameHandler{names: l.names, handlers: []slog.Handler{handler, journal.Handler()}})
	return l, nil
}

func (l *hostLog) SetVacants(directory *vacants.Directory) {
	l.names.mu.Lock()
	defer l.names.mu.Unlock()
	l.names.vacants = func() map[string]string {
		vacantNames := map[string]string{}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for page, err := range directory.Pages(ctx, vacants.OperatorAsker()) {
			if err != nil {
				break // the log shows short ids
			}
			for i := range page {
				vacantNames[page[i].ID.Short()] = page[i].Name
			}
		}
		return vacantNames
	}
}

func (l *hostLog) Close() error {
	if l.human != nil {
		l.human.Close()
	}
	return l.journal.Close()
}

func (a *App) StderrLogger() *slog.Logger {
	if a.JSON || a.logForm == logJSON {
		return slog.New(slog.NewJSONHandler(a.Err, nil))
	}
	return slog.New(newHumanLog(a.Terminal(a.Err)))
}

// adminMessage is the log message of an operator's change, such as a new name.
const adminMessage = "admin"

const (
	FieldPair   = "pair"
	fieldCaller = "caller" // only for an identity of the user or a vacant of this host
	FieldVacant = "vacant"
)

// nameHandler is a slog.Handler that adds the names of callers and vacants to the lines of calls.
type nameHandler struct {
	names    *nameCache
	handlers []slog.Handler
}

func (n *nameHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (n *nameHandler) Handle(ctx context.Context, r slog.Record) error {
	pair, verdict := "", ""
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case FieldPair:
			pair = a.Value.String()
		case obs.AttrVerdict:
			verdict = a.Value.String()
		}
		return pair == ""
	})
	if r.Message == adminMessage && verdict == problem.VerdictOK {
		n.names.expire()
	}
	if from, to, ok := strings.Cut(pair, ">"); ok {
		r = r.Clone()
		caller, vacant := n.names.findNames(from, to)
		switch {
		case caller != "" && vacant != "":
			r.AddAttrs(slog.String(fieldCaller, caller), slog.String(FieldVacant, vacant))
		case caller != "":
			r.AddAttrs(slog.String(fieldCaller, caller))
		case vacant != "":
			r.AddAttrs(slog.String(FieldVacant, vacant))
		}
	}
	for _, h := range n.handlers {
		if err := h.Handle(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (n *nameHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := &nameHandler{names: n.names}
	for _, h := range n.handlers {
		out.handlers = append(out.handlers, h.WithAttrs(attrs))
	}
	return out
}

func (n *nameHandler) WithGroup(name string) slog.Handler {
	out := &nameHandler{names: n.names}
	for _, h := range n.handlers {
		out.handlers = append(out.handlers, h.WithGroup(name))
	}
	return out
}

// nameCache maps short ids to the names of the user's identities and of a host's vacants.
type nameCache struct {
	now            func() time.Time
	identities     func() map[string]string
	statIdentities func() time.Time

	mu                sync.Mutex
	vacants           func() map[string]string // nil until SetVacants
	identityNames     map[string]string        // keyed by short id
	identitiesModTime time.Time
	lastStat          time.Time
	vacantNames       map[string]string // keyed by short id
	lastRead          time.Time
	minReadPause      time.Duration
}

// A call with an unknown vacant waits until the names are read again, and strangers can cause many
// such calls. Reads for unknown vacants are therefore at least minReadInterval apart, and take at
// most 1/readTimeShare of the time.
const (
	minStatInterval = 20 * time.Millisecond
	minReadInterval = 200 * time.Millisecond
	maxNameAge      = 30 * time.Second
	readTimeShare   = 50
	maxExpiredPause = time.Second
)

func (a *App) newNameCache() *nameCache {
	return &nameCache{now: a.Now, identities: func() map[string]string {
		identityNames := map[string]string{}
		for id, name := range a.IdentityNames() {
			identityNames[id.Short()] = name
		}
		return identityNames
	}, statIdentities: func() (modTime time.Time) {
		if dir, err := a.IdentityDir(); err == nil {
			if info, err := os.Stat(dir.Dir); err == nil {
				modTime = info.ModTime()
			}
		}
		return modTime
	}}
}

// expire makes the next call read the names again, unless a read is so slow that calls must not
// wait for it.
func (k *nameCache) expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.minReadPause <= maxExpiredPause {
		k.lastRead, k.minReadPause = time.Time{}, 0
	}
}

func (k *nameCache) findNames(callerID, vacantID string) (caller, vacant string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	age := k.now().Sub(k.lastRead)
	_, isKnown := k.vacantNames[vacantID]
	switch {
	case !isKnown && (age >= max(minReadInterval, k.minReadPause) || age < 0):
		k.lastRead = k.now()
		k.identityNames, k.vacantNames = k.readNames()
		k.minReadPause = readTimeShare * k.now().Sub(k.lastRead)
	case age >= maxNameAge:
		k.lastRead = k.now()
		go func() {
			identityNames, vacantNames := k.readNames()
			k.mu.Lock()
			defer k.mu.Unlock()
			k.identityNames, k.vacantNames = identityNames, vacantNames
		}()
	}
	if caller = cmp.Or(k.identityNames[callerID], k.vacantNames[callerID]); caller == "" && callerID != "" && time.Since(k.lastStat) >= minStatInterval {
		k.lastStat = time.Now()
		// The identity may have just been created. The stat avoids a read for every stranger.
		if modTime := k.statIdentities(); !modTime.Equal(k.identitiesModTime) {
			k.identityNames, k.identitiesModTime = k.identities(), modTime
			caller = k.identityNames[callerID]
		}
	}
	return caller, k.vacantNames[vacantID]
}

func (k *nameCache) readNames() (identityNames, vacantNames map[string]string) {
	if k.vacants != nil {
		vacantNames = k.vacants()
	}
	return k.identities(), vacantNames
}
