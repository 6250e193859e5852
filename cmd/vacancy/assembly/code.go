package assembly

import (
	"regexp"
	"strings"
)

// pinnedVersionPattern matches the version id in a dynamic reference to a secret.
var pinnedVersionPattern = regexp.MustCompile(`:SecretString:[^:}]*:[^:}]*:([A-Za-z0-9-]+)\}\}`)

// SecretVersion returns the version of a secret that a template pins, or "" if the template refers
// to the current version.
func SecretVersion(template []byte) (version string, hasReference bool) {
	if match := pinnedVersionPattern.FindSubmatch(template); match != nil {
		return string(match[1]), true
	}
	return "", strings.Contains(string(template), "{{resolve:secretsmanager:")
}
