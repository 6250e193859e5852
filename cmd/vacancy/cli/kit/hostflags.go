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

const (
	HostLocal = "local"
	HostAWS   = "aws"
)

type HostFlags struct {
	Host, Stage, Data string
}

func AddHostFlags(fs *pflag.FlagSet, where *HostFlags) {
	fs.StringVar(&where.Host, "host", "", "the host: a URL, aws or local (default $VACANCY_HOST, else local)")
	fs.StringVar(&where.Stage, "stage", "", "with --host aws: the stage (default $VACANCY_STAGE, else dev)")
	AddCAFlag(fs)
	AddDataFlag(fs, &where.Data)
}

// AddMachineFlags adds the host flags of a command that does not support hosts by URL.
func AddMachineFlags(fs *pflag.FlagSet, where *HostFlags) {
	fs.StringVar(&where.Host, "host", "", "the host: aws or local (default $VACANCY_HOST, else local)")
	fs.StringVar(&where.Stage, "stage", "", "with --host aws: the stage (default $VACANCY_STAGE, else dev)")
	AddDataFlag(fs, &where.Data)
}

// IsAWS reports whether the flags choose a stage on AWS instead of this machine. Any other host is
// an error.
func (f HostFlags) IsAWS(a *App) (bool, error) {
	host, err := a.FindRemoteHost(f)
	switch {
	case err != nil && f.Host == "" && f.Stage != "":
		return false, WithHint(err, "%s", a.CommandLineWithFlag("--host", HostAWS))
	case err != nil || host == nil:
		return false, err
	case !host.AWS:
		return false, &problem.Error{Kind: problem.Usage, Field: "--host", Want: "aws or local", Got: fmt.Sprintf("%.80q", cmp.Or(f.Host, a.Env["VACANCY_HOST"]))}
	}
	return true, nil
}

// RemoteHost is a host that is not in a local data directory.
type RemoteHost struct {
	AWS    bool
	Stage  string
	Record stage.Record
	// envKey is the key in the environment. It is sent to any host that the user chooses; the key
	// in Record is sent only to the URLs in Record.
	envKey stage.Key
	// isAccountKey is true if envKey belongs to an account and not to the operator.
	isAccountKey bool
}

func (f HostFlags) IsLocal(a *App) bool {
	host, err := a.FindRemoteHost(f)
	return err == nil && host == nil
}

func DataArg(data string) string {
	if data == "" {
		return ""
	}
	return " --data " + ShellWord(data)
}

func ShellWord(s string) string { return snippet.ShellWord(s) }

// FindRemoteHost returns the remote host that the flags choose, or nil for a data directory.
func (a *App) FindRemoteHost(where HostFlags) (*RemoteHost, error) {
	host := cmp.Or(where.Host, a.Env["VACANCY_HOST"])
	if host == "" || host == HostLocal {
		if where.Stage != "" {
			return nil, problem.New(problem.Usage, "--stage: not supported without --host aws")
		}
		return nil, nil
	}
	if where.Data != "" {
		return nil, WithHint(problem.New(problem.Usage, "--data names a directory on this machine, but the host is %.200q", host), "--host local")
	}
	envKey, err := ParseOperatorKey(a.Env["VACANCY_OPERATOR_KEY"])
	if err != nil {
		return nil, err
	}
	if host == HostAWS {
		name, err := a.StageName(where.Stage)
		if err != nil {
			return nil, err
		}
		records, err := a.StageRecords()
		if err != nil {
			return nil, err
		}
		record, err := records.Read(name)
		if err != nil && !problem.Is(err, problem.NotFound) {
			return nil, err
		}
		return &RemoteHost{AWS: true, Stage: name, Record: record, envKey: envKey}, nil
	}
	if where.Stage != "" {
		return nil, problem.New(problem.Usage, "--stage: not supported without --host aws")
	}
	base, err := parseHostURL(host)
	if err != nil {
		return nil, err
	}
	records, err := a.StageRecords()
	if err != nil {
		return nil, err
	}
	record, err := records.FindByURL(base)
	if problem.Is(err, problem.NotFound) || err != nil && envKey != "" {
		return &RemoteHost{Record: stage.Record{URL: base, AdminURL: base, ExportURL: base}, envKey: envKey}, nil
	}
	return &RemoteHost{Stage: record.Stage, Record: record, envKey: envKey}, err
}

func (h *RemoteHost) RequireURL(url string) (string, error) {
	if url != "" {
		return url, nil
	}
	if h.Record.Stage == "" {
		return "", WithHint(problem.New(problem.NotFound, "stage %s was not deployed from this machine: there is no record of it", h.Stage), "vacancy deploy --stage %s", h.Stage)
	}
	return "", WithHint(problem.New(problem.NotFound, "the record of stage %s has no URL of its host, because its deployment was not completed", h.Stage), "vacancy deploy --stage %s", h.Stage)
}

func (h *RemoteHost) operatorAccess(rawURL string) (string, stage.Key, error) {
	rawURL, err := h.RequireURL(rawURL)
	if err != nil {
		return "", "", err
	}
	key := cmp.Or(h.envKey, h.Record.OperatorKey)
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", "", problem.Wrap(problem.Usage, err, "%.200q is not a URL", rawURL)
	}
	if IsInsecureURL(u) {
		return "", "", problem.New(problem.Usage, "the operator key would be sent to %s without encryption: use https", u.Host)
	}
	if key == "" && h.Stage == "" {
		err := problem.New(problem.Unauthorized, "there is no operator key for %s: only the operator of that host can do this, with the key in VACANCY_OPERATOR_KEY", rawURL)
		return "", "", WithHint(err, "%s", callerCommands)
	}
	if key == "" {
		err := problem.New(problem.Unauthorized, "there is no operator key for %s: set VACANCY_OPERATOR_KEY, or deploy the stage from here", rawURL)
		return "", "", WithHint(err, "vacancy keys rotate-operator --stage %s, if the host is a stage of yours", h.Stage)
	}
	return rawURL, key, nil
}

const callerCommands = "vacancy card URL, or another command for callers: call URL, snippet URL, receipt URL or search --registry URL. A key of an account in $" + AccountKeyEnv + " also permits account show and usage with --host URL"

func IsInsecureURL(u *url.URL) bool {
	return u.Scheme != "https" && !outbound.IsThisMachine(u.Hostname())
}

func parseHostURL(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.Hostname() == "", u.Opaque != "", u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return "", &problem.Error{Kind: problem.Usage, Field: "--host", Want: "local, aws, or http(s)://HOST with an optional path", Got: fmt.Sprintf("%.200q", s)}
	case u.User != nil:
		return "", &problem.Error{Kind: problem.Usage, Field: "--host", Want: "a URL without user and password", Got: "one with them"}
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// ParseOperatorKey parses the operator's key. Its errors do not quote the value, because the value
// may be most of a key.
func ParseOperatorKey(s string) (stage.Key, error) {
	s = strings.TrimSpace(s)
	if strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" || len(s) > 200 {
		return "", &problem.Error{Kind: problem.Usage, Field: "VACANCY_OPERATOR_KEY", Want: "a key as `vacancy deploy` showed it"}
	}
	return stage.Key(s), nil
}
