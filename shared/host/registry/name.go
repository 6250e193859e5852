package registry

import (
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const MaxNameBytes = 64

const nameCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

func CheckName(name string) error {
	_, err := identity.ParseID(name)
	switch {
	case name == "", len(name) > MaxNameBytes, strings.Trim(name, nameCharacters) != "":
		return problem.Invalid("name", "1 to 64 of A-Z a-z 0-9 . _ -", quoteTruncated(name))
	case strings.Trim(name, ".") == "":
		return problem.Invalid("name", "a name that does not consist only of dots", quoteTruncated(name))
	case err == nil:
		return problem.Invalid("name", "a name that is not an id", quoteTruncated(name))
	}
	return nil
}

// reservedNames follow /v/ in other addresses, or commands accept them in place of a name.
var reservedNames = []string{"a2a", "acp", "agp", "all", "aws", "card", "health", "local", "mcp", "none", "self"}

// NameTakenError does not reveal whether a vacant has the name, because the vacant may be hidden.
func NameTakenError(name string) error {
	return &problem.Error{Kind: problem.Conflict, Field: "name", Detail: "the name " + name + " is in use or reserved on this host; choose another"}
}

func isTaskID(name string) bool {
	return len(name) == 32 && strings.Trim(name, "0123456789abcdef") == ""
}

func CheckNewName(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	switch {
	case name[0] == '-':
		return problem.Invalid("name", "a name that does not begin with -, for example shop", quoteTruncated(name))
	case slices.Contains(reservedNames, strings.ToLower(name)):
		return NameTakenError(name)
	case isTaskID(name): // "vacancy logs" accepts a name or a task id
		return problem.Invalid("name", "a name that does not look like a task id", quoteTruncated(name))
	case identity.IsShort(strings.ToLower(name)):
		return problem.Invalid("name", "a name that is not the beginning of an id", quoteTruncated(name))
	}
	return nil
}
