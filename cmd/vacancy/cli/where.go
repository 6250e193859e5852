package cli

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Hosts that are not URLs.
const (
	hostLocal = "local"
	hostAWS   = "aws"
)

// where is the host that the flags of a command choose.
type where struct {
	host, stage, data string
}

// hostFlags adds --host, --stage and --data.
func hostFlags(fs *pflag.FlagSet, w *where) {
	elsewhereFlags(fs, w)
	dataFlag(fs, &w.data)
}

// elsewhereFlags adds --host and --stage.
func elsewhereFlags(fs *pflag.FlagSet, w *where) {
	fs.StringVar(&w.host, "host", "", "the host: a URL, aws or local (default $VACANCY_HOST, else local)")
	fs.StringVar(&w.stage, "stage", "", "with --host aws: the stage (default $VACANCY_STAGE, else dev)")
}

// remoteHost is a host other than a local data directory's.
type remoteHost struct {
	aws    bool
	stage  string       // of aws
	record stage.Record // its handlers' URLs, and the operator's key if it is known
	// The key in the environment is for the host that the person names; a
	// record's key only for that record's handlers.
	given stage.Key
	// tenant: given is a key of an account.
	tenant bool
}

// asTenant takes a key of an account for the operator's, unless there is one.
func (e *remoteHost) asTenant(key string) {
	if key != "" && e.given == "" && e.record.OperatorKey == "" {
		e.given, e.tenant = stage.Key(key), true
	}
}

// isLocal reports whether w's host is that of a data directory.
func (w where) isLocal(a *app) bool {
	at, err := a.find(w)
	return err == nil && at == nil
}

// dataArg is the argument for a data directory in a suggested command.
func dataArg(data string) string {
	if data == "" {
		return ""
	}
	return " --data " + shellWord(data)
}

// shellWord quotes s for a shell, if it needs that.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:@%+=,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// find determines w's host: nil for a data directory.
func (a *app) find(w where) (*remoteHost, error) {
	host := w.host
	if host == "" {
		host = a.env["VACANCY_HOST"]
	}
	if host == "" || host == hostLocal {
		if w.stage != "" {
			return nil, problem.New(problem.Usage, "--stage goes with --host aws")
		}
		return nil, nil
	}
	if w.data != "" {
		return nil, withHint(problem.New(problem.Usage, "--data is a folder of this machine, and the host is %.200q", host), "--host local")
	}
	given, err := keyOf(a.env["VACANCY_OPERATOR_KEY"])
	if err != nil {
		return nil, err
	}
	if host == hostAWS {
		return a.stageHost(w.stage, given)
	}
	if w.stage != "" {
		return nil, problem.New(problem.Usage, "--stage goes with --host aws")
	}
	base, err := hostURL(host)
	if err != nil {
		return nil, err
	}
	rec, err := a.stages()
	if err != nil {
		return nil, err
	}
	found, err := rec.ByURL(base)
	if problem.Is(err, problem.NotFound) || err != nil && given != "" {
		return &remoteHost{record: stage.Record{URL: base, AdminURL: base, ExportURL: base}, given: given}, nil
	}
	return &remoteHost{stage: found.Stage, record: found, given: given}, err
}

// stageHost is the host of a stage. A missing record is an error only when it
// is needed.
func (a *app) stageHost(name string, given stage.Key) (*remoteHost, error) {
	name, err := a.stageName(name)
	if err != nil {
		return nil, err
	}
	rec, err := a.stages()
	if err != nil {
		return nil, err
	}
	found, err := rec.Read(name)
	if err != nil && !problem.Is(err, problem.NotFound) {
		return nil, err
	}
	return &remoteHost{aws: true, stage: name, record: found, given: given}, nil
}

// urlOf is the URL of one of the host's handlers.
func (e *remoteHost) urlOf(url string) (string, error) {
	if url != "" {
		return url, nil
	}
	if e.record.Stage == "" {
		return "", withHint(problem.New(problem.NotFound, "stage %s was not deployed from here: there is no record of it", e.stage), "vacancy deploy --stage %s", e.stage)
	}
	return "", withHint(problem.New(problem.NotFound, "the record of stage %s does not say where its host is: its deployment did not end", e.stage), "vacancy deploy --stage %s", e.stage)
}

// keyed returns a handler that needs the operator's key, and the key.
func (e *remoteHost) keyed(at string) (string, stage.Key, error) {
	at, err := e.urlOf(at)
	if err != nil {
		return "", "", err
	}
	key := e.given
	if key == "" {
		key = e.record.OperatorKey
	}
	u, err := url.Parse(at)
	if err != nil {
		return "", "", problem.Wrap(problem.Usage, err, "%.200q is no URL", at)
	}
	if inClear(u) {
		return "", "", problem.New(problem.Usage, "the operator's key would travel to %s in clear: use https", u.Host)
	}
	if key == "" {
		err := problem.New(problem.Unauthorized, "there is no operator key for %s: set VACANCY_OPERATOR_KEY, or deploy the stage from here", at)
		return "", "", withHint(err, "vacancy keys rotate-operator --stage %s, if the host is a stage of yours", cmp.Or(e.stage, stage.Default))
	}
	return at, key, nil
}

// inClear reports whether requests to u can be read on the way.
func inClear(u *url.URL) bool { return u.Scheme != "https" && !outbound.IsThisMachine(u.Hostname()) }

// hostURL is the base URL of a host that a person typed.
func hostURL(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.Hostname() == "", u.Opaque != "", u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return "", &problem.Error{Kind: problem.Usage, Field: "--host", Want: "local, aws, or http(s)://HOST with a path at most", Got: fmt.Sprintf("%.200q", s)}
	case u.User != nil:
		return "", &problem.Error{Kind: problem.Usage, Field: "--host", Want: "a URL without user and password", Got: "one with them"}
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// keyOf reads the key from the environment. Errors do not quote it, because it
// may be most of a key.
func keyOf(s string) (stage.Key, error) {
	s = strings.TrimSpace(s)
	if strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" || len(s) > 200 {
		return "", &problem.Error{Kind: problem.Usage, Field: "VACANCY_OPERATOR_KEY", Want: "a key as `vacancy deploy` showed it"}
	}
	return stage.Key(s), nil
}
