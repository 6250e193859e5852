package kit

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/snippet"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Values of --host that are not URLs.
const (
	HostLocal = "local"
	HostAWS   = "aws"
)

// Where contains the flags that choose a host.
type Where struct {
	Host, Stage, Data string
}

func HostFlags(fs *pflag.FlagSet, w *Where) {
	fs.StringVar(&w.Host, "host", "", "the host: a URL, aws or local (default $VACANCY_HOST, else local)")
	fs.StringVar(&w.Stage, "stage", "", "with --host aws: the stage (default $VACANCY_STAGE, else dev)")
	CAFlag(fs)
	DataFlag(fs, &w.Data)
}

// MachineFlags adds --host, --stage and --data to a command that supports only this machine and
// stages on AWS.
func MachineFlags(fs *pflag.FlagSet, w *Where) {
	fs.StringVar(&w.Host, "host", "", "the host: aws or local (default $VACANCY_HOST, else local)")
	fs.StringVar(&w.Stage, "stage", "", "with --host aws: the stage (default $VACANCY_STAGE, else dev)")
	DataFlag(fs, &w.Data)
}

// IsAWS reports whether the flags choose a stage on AWS instead of this machine. It returns an
// error if they choose another host.
func (w Where) IsAWS(a *App) (bool, error) {
	host, err := a.Find(w)
	switch {
	case err != nil && w.Host == "" && w.Stage != "":
		return false, WithHint(err, "%s", a.CommandLineWith("--host", HostAWS))
	case err != nil || host == nil:
		return false, err
	case !host.AWS:
		return false, &problem.Error{Kind: problem.Usage, Field: "--host", Want: "aws or local", Got: fmt.Sprintf("%.80q", cmp.Or(w.Host, a.Env["VACANCY_HOST"]))}
	}
	return true, nil
}

// RemoteHost is a host that is not in a local data directory.
type RemoteHost struct {
	AWS    bool
	Stage  string       // name of the stage, if the host is a known stage
	Record stage.Record // URLs of its handlers, and the operator's key if it is known
	// envKey is the key in the environment, which is sent to any host that the user chooses. The key
	// in Record is sent only to the URLs in Record.
	envKey stage.Key
	// tenant is true if envKey is the key of an account and not of the operator.
	tenant bool
}

func (w Where) IsLocal(a *App) bool {
	host, err := a.Find(w)
	return err == nil && host == nil
}

func DataArg(data string) string {
	if data == "" {
		return ""
	}
	return " --data " + ShellWord(data)
}

func ShellWord(s string) string { return snippet.ShellWord(s) }

// Find returns the remote host that the flags choose, or nil if they choose a data directory.
func (a *App) Find(w Where) (*RemoteHost, error) {
	host := cmp.Or(w.Host, a.Env["VACANCY_HOST"])
	if host == "" || host == HostLocal {
		if w.Stage != "" {
			return nil, problem.New(problem.Usage, "--stage: not supported without --host aws")
		}
		return nil, nil
	}
	if w.Data != "" {
		return nil, WithHint(problem.New(problem.Usage, "--data is a folder of this machine, and the host is %.200q", host), "--host local")
	}
	given, err := KeyOf(a.Env["VACANCY_OPERATOR_KEY"])
	if err != nil {
		return nil, err
	}
	if host == HostAWS {
		name, err := a.StageName(w.Stage)
		if err != nil {
			return nil, err
		}
		rec, err := a.Stages()
		if err != nil {
			return nil, err
		}
		found, err := rec.Read(name) // a missing record is an error only when it is needed
		if err != nil && !problem.Is(err, problem.NotFound) {
			return nil, err
		}
		return &RemoteHost{AWS: true, Stage: name, Record: found, envKey: given}, nil
	}
	if w.Stage != "" {
		return nil, problem.New(problem.Usage, "--stage: not supported without --host aws")
	}
	base, err := hostURL(host)
	if err != nil {
		return nil, err
	}
	rec, err := a.Stages()
	if err != nil {
		return nil, err
	}
	found, err := rec.ByURL(base)
	if problem.Is(err, problem.NotFound) || err != nil && given != "" {
		return &RemoteHost{Record: stage.Record{URL: base, AdminURL: base, ExportURL: base}, envKey: given}, nil
	}
	return &RemoteHost{Stage: found.Stage, Record: found, envKey: given}, err
}

// URLOf returns url unless it is empty. If url is empty, the returned error says why the host's
// record lacks it.
func (e *RemoteHost) URLOf(url string) (string, error) {
	if url != "" {
		return url, nil
	}
	if e.Record.Stage == "" {
		return "", WithHint(problem.New(problem.NotFound, "stage %s was not deployed from this machine: there is no record of it", e.Stage), "vacancy deploy --stage %s", e.Stage)
	}
	return "", WithHint(problem.New(problem.NotFound, "the record of stage %s has no URL of its host, because its deployment was not completed", e.Stage), "vacancy deploy --stage %s", e.Stage)
}

func (e *RemoteHost) operatorURL(rawURL string) (string, stage.Key, error) {
	rawURL, err := e.URLOf(rawURL)
	if err != nil {
		return "", "", err
	}
	key := cmp.Or(e.envKey, e.Record.OperatorKey)
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", "", problem.Wrap(problem.Usage, err, "%.200q is not a URL", rawURL)
	}
	if IsUnencrypted(u) {
		return "", "", problem.New(problem.Usage, "the operator key would be sent to %s without encryption: use https", u.Host)
	}
	if key == "" && e.Stage == "" {
		err := problem.New(problem.Unauthorized, "there is no operator key for %s: only the operator of that host can do this, with the key in VACANCY_OPERATOR_KEY", rawURL)
		return "", "", WithHint(err, "%s", forCallers)
	}
	if key == "" {
		err := problem.New(problem.Unauthorized, "there is no operator key for %s: set VACANCY_OPERATOR_KEY, or deploy the stage from here", rawURL)
		return "", "", WithHint(err, "vacancy keys rotate-operator --stage %s, if the host is a stage of yours", e.Stage)
	}
	return rawURL, key, nil
}

// forCallers names the commands for callers of another person's host.
const forCallers = "vacancy card URL, call URL, snippet URL, receipt URL and search --registry URL, which are for callers; with a key of an account in $" + AccountKeyEnv + " also account show and usage, with --host URL"

func IsUnencrypted(u *url.URL) bool {
	return u.Scheme != "https" && !outbound.IsThisMachine(u.Hostname())
}

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

// KeyOf parses the operator's key in the environment. Its errors do not quote the value, because
// the value may be most of a key.
func KeyOf(s string) (stage.Key, error) {
	s = strings.TrimSpace(s)
	if strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" || len(s) > 200 {
		return "", &problem.Error{Kind: problem.Usage, Field: "VACANCY_OPERATOR_KEY", Want: "a key as `vacancy deploy` showed it"}
	}
	return stage.Key(s), nil
}
