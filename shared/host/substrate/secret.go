package substrate

import (
	"bytes"
	"fmt"
	"io"
)

// Secret authenticates the host at a server. Only Reveal shows it. The zero Secret
// is empty.
type Secret struct{ value string }

// NewSecret is the Secret with a value.
func NewSecret(value string) Secret { return Secret{value} }

// IsZero reports whether there is none.
func (s Secret) IsZero() bool { return s.value == "" }

// Reveal is the value.
func (s Secret) Reveal() string { return s.value }

// Hide replaces the secret in what a server said, which may repeat it.
func (s Secret) Hide(said []byte) []byte {
	if s.IsZero() {
		return said
	}
	return bytes.ReplaceAll(said, []byte(s.value), []byte("[secret]"))
}

// Format prints only what it is, for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "substrate.Secret") }
