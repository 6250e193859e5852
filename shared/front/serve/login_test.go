package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// login is an issuer of tokens that is the same in every run. It answers connections to its
// address, and nobody answers others.
type login struct{ key ed25519.PrivateKey }

const (
	loginAddress = "127.0.0.1:9"
	loginURL     = "http://" + loginAddress
)

func newLogin() login {
	return login{ed25519.NewKeyFromSeed(bytes.Repeat([]byte{0x6c}, identity.Size))}
}

// dial is an outbound.DialFunc.
func (l login) dial(_ context.Context, _, at string) (net.Conn, error) {
	if at != loginAddress {
		return nil, errors.New("nobody answers")
	}
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		r, err := http.ReadRequest(bufio.NewReader(server))
		if err != nil {
			return
		}
		body := fmt.Sprintf(`{"issuer":%q,"jwks_uri":"%s/keys"}`, loginURL, loginURL)
		if r.URL.Path == "/keys" {
			x := base64.RawURLEncoding.EncodeToString(l.key.Public().(ed25519.PublicKey))
			body = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"one","x":"` + x + `"}]}`
		}
		fmt.Fprintf(server, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}()
	return client, nil
}

// token returns a token of a subject for an audience, which counts until 2027.
func (l login) token(subject, audience string) string {
	part := base64.RawURLEncoding.EncodeToString
	signed := part([]byte(`{"alg":"EdDSA","kid":"one"}`)) + "." + part(fmt.Appendf(nil, `{"iss":%q,"sub":%q,"aud":%q,"exp":1798761600}`, loginURL, subject, audience))
	return signed + "." + part(ed25519.Sign(l.key, []byte(signed)))
}
