package substrate

import (
	"bytes"
	"fmt"
	"io"
)

// Secret authenticates the host at a server. No format verb prints its value.
type Secret struct{ value string }

func NewSecret(value string) Secret { return Secret{value} }

func (s Secret) IsZero() bool { return s.value == "" }

func (s Secret) Reveal() string { return s.value }

// Hide replaces the secret in a server's answer, which may contain it.
func (s Secret) Hide(text []byte) []byte {
	if s.IsZero() {
		return text
	}
	return bytes.ReplaceAll(text, []byte(s.value), []byte("[secret]"))
}

func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "substrate.Secret") }
