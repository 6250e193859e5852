package registry

import (
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// MaxName is the longest name of a hosted vacant in bytes.
const MaxName = 64

const nameLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

// CheckName checks the name of a hosted vacant, which is also a part of its
// address: 1 to 64 of A-Z a-z 0-9 . _ -, not only dots, and not an id.
func CheckName(name string) error {
	_, err := identity.ParseID(name)
	switch {
	case name == "", len(name) > MaxName, strings.Trim(name, nameLetters) != "":
		return problem.Invalid("name", "1 to 64 of A-Z a-z 0-9 . _ -", clip(name))
	case strings.Trim(name, ".") == "":
		return problem.Invalid("name", "not only dots", clip(name))
	case err == nil:
		return problem.Invalid("name", "a name that is not an id", clip(name))
	}
	return nil
}

// reserved are names that no vacant gets: what follows /v/ in addresses without a
// vacant, and words that commands take instead of a name.
var reserved = []string{"a2a", "acp", "agp", "all", "aws", "card", "health", "local", "mcp", "none", "self"}

// NameTaken is the refusal of a name that is in use or reserved. Its text is the same
// for both, and tells nothing of the vacant that has the name: names are addresses of
// the host, /v/NAME, so a hidden vacant of another tenant cannot share its name, and
// whoever guesses the name finds it unavailable. That is all that the refusal tells.
func NameTaken(name string) error {
	return &problem.Error{Kind: problem.Conflict, Field: "name", Detail: "the name " + name + " is in use or reserved on this host; choose another"}
}

// CheckNewName is CheckName for a name that a vacant is to get. It also refuses
// reserved words, what could be taken for a short id, and what a command would take
// for a flag.
func CheckNewName(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	switch {
	case name[0] == '-':
		return problem.Invalid("name", "a name that does not begin with -, for example shop", clip(name))
	case slices.Contains(reserved, strings.ToLower(name)):
		return NameTaken(name)
	case identity.IsShort(strings.ToLower(name)):
		return problem.Invalid("name", "a name that is not the beginning of an id", clip(name))
	}
	return nil
}
