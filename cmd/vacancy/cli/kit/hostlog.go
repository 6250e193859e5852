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

// Values of --log.
const (
	logHuman = "human"
	logJSON  = "json"
)

func (a *App) LogFlag(fs *pflag.FlagSet) {
	fs.StringVar(&a.logForm, "log", logHuman, "the log on standard error: human or json")
}

// hostLog is the log of a local host. It writes to standard error and to the journal of the data
// directory.
type hostLog struct {
	*slog.Logger
	journal *standalone.Journal
	lines   *humanLog // nil if standard error gets JSON
	known   *knownNames
}

// LogOn returns a log handler that writes to standard error. Unless --log or --json selects JSON,
// it also returns the handler as a humanLog.
func (a *App) LogOn() (shown slog.Handler, lines *humanLog, err error) {
	switch a.logForm {
	case "", logHuman, logJSON:
	default:
		return nil, nil, &problem.Error{Kind: problem.Usage, Field: "--log", Want: "human or json", Got: a.logForm}
	}
	if a.logForm != logJSON && !a.JSON {
		lines = newHumanLog(a.Terminal(a.Err))
		return lines, lines, nil
	}
	return slog.NewJSONHandler(a.Err, nil), nil, nil
}

func (a *App) HostLog(dir string) (*hostLog, error) {
	shown, lines, err := a.LogOn()
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
	l := &hostLog{journal: journal, lines: lines, known: a.knownNames()}
	l.Logger = slog.New(&namedHandler{known: l.known, next: []slog.Handler{shown, journal.Handler()}})
	return l, nil
}

func (l *hostLog) SetNames(v *vacants.Directory) {
	l.known.mu.Lock()
	defer l.known.mu.Unlock()
	l.known.vacants = func() map[string]string {
		hosted := map[string]string{}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for page, err := range v.Pages(ctx, vacants.Operator()) {
			if err != nil {
				break // the log shows short ids
			}
			for i := range page {
				hosted[page[i].ID.Short()] = page[i].Name
			}
		}
		return hosted
	}
}

func (l *hostLog) Close() error {
	if l.lines != nil {
		l.lines.Close()
	}
	return l.journal.Close()
}

func (a *App) PlainLog() *slog.Logger {
	if a.JSON || a.logForm == logJSON {
		return slog.New(slog.NewJSONHandler(a.Err, nil))
	}
	return slog.New(newHumanLog(a.Terminal(a.Err)))
}

// adminLine is the log message of an operator's change, which may create or rename a vacant.
const adminLine = "admin"

// Fields of a call's log line in addition to the fields that handlers write.
const (
	FieldPair   = "pair"
	fieldCaller = "caller" // caller's name, if the caller is an identity of the user or a vacant of this host
	FieldVacant = "vacant" // vacant's name
)

// namedHandler is a slog.Handler that adds names to the lines of calls.
type namedHandler struct {
	known *knownNames
	next  []slog.Handler
}

func (n *namedHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (n *namedHandler) Handle(ctx context.Context, r slog.Record) error {
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
	if r.Message == adminLine && verdict == problem.VerdictOK {
		n.known.expire()
	}
	if from, to, ok := strings.Cut(pair, ">"); ok {
		r = r.Clone()
		caller, vacant := n.known.pair(from, to)
		switch {
		case caller != "" && vacant != "":
			r.AddAttrs(slog.String(fieldCaller, caller), slog.String(FieldVacant, vacant))
		case caller != "":
			r.AddAttrs(slog.String(fieldCaller, caller))
		case vacant != "":
			r.AddAttrs(slog.String(FieldVacant, vacant))
		}
	}
	for _, h := range n.next {
		if err := h.Handle(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (n *namedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := &namedHandler{known: n.known}
	for _, h := range n.next {
		out.next = append(out.next, h.WithAttrs(attrs))
	}
	return out
}

func (n *namedHandler) WithGroup(name string) slog.Handler {
	out := &namedHandler{known: n.known}
	for _, h := range n.next {
		out.next = append(out.next, h.WithGroup(name))
	}
	return out
}

// knownNames maps short ids to the names of the user's identities and of a host's vacants.
type knownNames struct {
	now        func() time.Time
	identities func() map[string]string
	// identitiesChanged returns when an identity was last created or removed.
	identitiesChanged func() time.Time

	mu      sync.Mutex
	vacants func() map[string]string // lists the vacants; nil until SetNames
	own     map[string]string        // names of identities by short id
	ownAt   time.Time                // result of identitiesChanged at the last read of identities
	asked   time.Time                // time of the last call of identitiesChanged
	hosted  map[string]string        // names of the host's vacants by short id
	read    time.Time                // time of the last read of all names
	pause   time.Duration            // minimum time between two reads for unknown vacants
}

// Names change, so they are read again when they are older than relookEvery, and when a line has an
// unknown vacant. A call with an unknown vacant waits for its read, and anybody can name unknown
// vacants. Such reads are therefore at least relookAfter apart, and take at most 1/relookShare of
// the time. An unknown caller causes a stat of the identity directory, at most once per
// restatAfter. expire allows a new read at once only if the pause after the last one is at most
// maxExpiredPause.
const (
	restatAfter     = 20 * time.Millisecond
	relookAfter     = 200 * time.Millisecond
	relookEvery     = 30 * time.Second
	relookShare     = 50
	maxExpiredPause = time.Second
)

func (a *App) knownNames() *knownNames {
	return &knownNames{now: a.Now, identities: func() map[string]string {
		own := map[string]string{}
		for id, name := range a.OwnNames() {
			own[id.Short()] = name
		}
		return own
	}, identitiesChanged: func() (modTime time.Time) {
		if h, err := a.DataHome(); err == nil {
			if info, err := os.Stat(h.Dir); err == nil {
				modTime = info.ModTime()
			}
		}
		return modTime
	}}
}

// expire makes the next line of a call read the names again. It has no effect if the last read for
// an unknown vacant took more than 20 ms, because calls wait for such reads.
func (k *knownNames) expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pause <= maxExpiredPause {
		k.read, k.pause = time.Time{}, 0
	}
}

func (k *knownNames) pair(from, to string) (caller, vacant string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	age := k.now().Sub(k.read)
	_, isKnown := k.hosted[to]
	switch {
	case !isKnown && (age >= max(relookAfter, k.pause) || age < 0):
		k.read = k.now()
		k.own, k.hosted = k.look()
		k.pause = relookShare * k.now().Sub(k.read)
	case age >= relookEvery:
		// A call does not wait for this read.
		k.read = k.now()
		go func() {
			own, hosted := k.look()
			k.mu.Lock()
			defer k.mu.Unlock()
			k.own, k.hosted = own, hosted
		}()
	}
	if caller = cmp.Or(k.own[from], k.hosted[from]); caller == "" && from != "" && time.Since(k.asked) >= restatAfter {
		k.asked = time.Now()
		// The caller may be an identity that was just created. Strangers call often, so identities
		// are read again only if their directory has changed.
		if modTime := k.identitiesChanged(); !modTime.Equal(k.ownAt) {
			k.own, k.ownAt = k.identities(), modTime
			caller = k.own[from]
		}
	}
	return caller, k.hosted[to]
}

func (k *knownNames) look() (own, hosted map[string]string) {
	if k.vacants != nil {
		hosted = k.vacants()
	}
	return k.identities(), hosted
}
