package acpclient

import (
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// passedVariables lists the variables that programs usually need. They do not usually contain keys.
var passedVariables = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR", "TZ", "TMPDIR",
	"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
	"SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "TEMP", "TMP",
}

// Environ returns the usual variables of env and the variables in names. A name of the form
// NAME=VALUE sets a variable. VACANCY_ variables are refused, because they may contain keys.
func Environ(env map[string]string, names []string) ([]string, error) {
	var variables []string
	for name, value := range env {
		if slices.Contains(passedVariables, name) || strings.HasPrefix(name, "LC_") || slices.Contains(names, name) {
			variables = append(variables, name+"="+value)
		}
	}
	slices.Sort(variables)
	for _, name := range names {
		variable, _, hasValue := strings.Cut(name, "=")
		if variable == "" || strings.HasPrefix(strings.ToUpper(variable), "VACANCY_") {
			return nil, problem.New(problem.Usage, "--env: expected NAME or NAME=VALUE, where NAME does not begin with VACANCY_, got %.40q", variable)
		}
		if hasValue {
			variables = append(variables, name)
		}
	}
	return variables, nil
}
