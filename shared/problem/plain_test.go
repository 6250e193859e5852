package problem_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// goWords are the words of Go's own packages that people must not meet.
var goWords = regexp.MustCompile(`dial |x509|tls:|context |EOF|no such host|connection refused|deadline|lookup |i/o|http: |HTTP/1\.x|Get "|Post "|read tcp|Client\.Timeout|%!|<nil>`)

// server is a TLS server whose certificate is valid between two times, for a name or
// for its own address.
func server(t *testing.T, name string, from, until time.Time, usage x509.ExtKeyUsage) (url string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: until, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	if name == "" {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	s := quiet(t, httptest.NewUnstartedServer(http.NotFoundHandler()))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}}}
	s.StartTLS()
	roots = x509.NewCertPool()
	roots.AddCert(leaf)
	return s.URL, roots
}

func quiet(t *testing.T, s *httptest.Server) *httptest.Server {
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(s.Close)
	return s
}

// answering is a server that answers every connection with bytes and closes it.
func answering(t *testing.T, with string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if with != "" { // the request is read, otherwise the end is a reset
				_, _ = http.ReadRequest(bufio.NewReader(c))
			}
			_, _ = io.WriteString(c, with)
			c.Close()
		}
	}()
	return l.Addr().String()
}

// Errors of real connections, and of those that a test cannot have, in words for people.
func TestErrorsOfConnectionsAreInPlainWords(t *testing.T) {
	now := time.Now()
	day := 24 * time.Hour
	get := func(url string, roots *x509.CertPool, timeout time.Duration) error {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}, Timeout: timeout}
		defer c.CloseIdleConnections()
		res, err := c.Get(url)
		if err == nil {
			_, err = io.ReadAll(res.Body)
			res.Body.Close()
		}
		return err
	}
	unknown, _ := server(t, "", now.Add(-day), now.Add(day), x509.ExtKeyUsageServerAuth)
	other, otherRoots := server(t, "other.example", now.Add(-day), now.Add(day), x509.ExtKeyUsageServerAuth)
	early, earlyRoots := server(t, "", now.Add(time.Hour), now.Add(day), x509.ExtKeyUsageServerAuth)
	late, lateRoots := server(t, "", now.Add(-day), now.Add(-time.Hour), x509.ExtKeyUsageServerAuth)
	wrong, wrongRoots := server(t, "", now.Add(-day), now.Add(day), x509.ExtKeyUsageClientAuth)
	plain := quiet(t, httptest.NewServer(http.NotFoundHandler()))
	release := make(chan struct{})
	defer close(release)
	slow := quiet(t, httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})))
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := gone.Addr().String()
	gone.Close()
	_, noSocket := net.Dial("unix", filepath.Join(t.TempDir(), "admin.sock"))
	dial := func(err error) error {
		return &url.Error{Op: "Post", URL: "https://h.example/secret", Err: &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}, Err: err}}
	}
	sent := func(err error) error { return &url.Error{Op: "Get", URL: "https://h.example", Err: err} }

	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"no server listens":          {get("http://"+at, nil, 0), "^no server listens at " + regexp.QuoteMeta(at) + "$"},
		"no socket":                  {noSocket, "^no server listens at /.*admin.sock$"},
		"an unknown authority":       {get(unknown, x509.NewCertPool(), 0), "^its certificate is signed by an authority that this machine does not know$"},
		"another name":               {get(other, otherRoots, 0), "^its certificate is for other.example, not for 127.0.0.1$"},
		"not yet valid":              {get(early, earlyRoots, 0), "^its certificate is not valid before 20[-0-9]+ [0-9:]+ UTC, and this machine's clock says 20[-0-9]+ [0-9:]+ UTC$"},
		"expired":                    {get(late, lateRoots, 0), "^its certificate expired at 20[-0-9]+ [0-9:]+ UTC, and this machine's clock says 20[-0-9]+ [0-9:]+ UTC$"},
		"another purpose":            {get(wrong, wrongRoots, 0), "^its certificate is not for a server$"},
		"http":                       {get("https://"+plain.Listener.Addr().String(), nil, 0), "^it speaks http, not https$"},
		"no HTTP":                    {get("http://"+answering(t, "SSH-2.0-x\r\n"), nil, 0), "^it does not speak HTTP$"},
		"no TLS":                     {get("https://"+answering(t, "SSH-2.0-x\r\n"), nil, 0), "^(it does not speak TLS|the connection was interrupted)$"},
		"no answer":                  {get("http://"+answering(t, ""), nil, 0), "^(it ended too early|the connection was interrupted)$"},
		"half an answer":             {get("http://"+answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), nil, 0), "^(it ended too early|the connection was interrupted)$"},
		"the client's limit":         {get(slow.URL, nil, time.Millisecond), "^it timed out$|^no connection to .* in time$"},
		"a deadline":                 {context.DeadlineExceeded, "^it timed out$"},
		"a wrapped deadline":         {fmt.Errorf("read page 3: %w", sent(context.DeadlineExceeded)), "^read page 3: it timed out$"},
		"a deadline of a connection": {&net.OpError{Op: "read", Net: "tcp", Addr: &net.TCPAddr{}, Err: os.ErrDeadlineExceeded}, "^it timed out$"},
		"an interrupt":               {sent(context.Canceled), "^it was canceled$"},
		"no such name":               {dial(&net.DNSError{Err: "no such host", Name: "h.example", IsNotFound: true}), "^the name h.example has no address$"},
		"no name server":             {dial(&net.DNSError{Err: "server misbehaving", Name: "h.example", IsTemporary: true}), "^this machine's name servers currently have no address for h.example$"},
		"a name server":              {dial(&net.DNSError{Err: "server misbehaving", Name: "h.example", Server: "10.0.0.7:53"}), "^the name server 10.0.0.7:53 currently has no address for h.example$"},
		"no connection":              {dial(os.ErrDeadlineExceeded), "^no connection to 192.0.2.1:443 in time$"},
		"no route":                   {dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "^no network route to 192.0.2.1:443$"},
		"a firewall":                 {dial(os.NewSyscallError("connect", syscall.EPERM)), "^this machine allows no connection to 192.0.2.1:443$"},
		"a reset":                    {sent(&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}), "^the connection was interrupted$"},
		"a proxy":                    {sent(&net.OpError{Op: "proxyconnect", Net: "tcp", Err: dial(os.NewSyscallError("connect", syscall.ECONNREFUSED))}), "^the proxy: no server listens at 192.0.2.1:443$"},
		"an alert":                   {sent(&net.OpError{Op: "remote error", Err: tls.AlertError(40)}), "^the other side ended TLS: handshake failure$"},
		"no authorities":             {&tls.CertificateVerificationError{Err: x509.SystemRootsError{}}, "^this machine has no list of certificate authorities$"},
		"two":                        {errors.Join(dial(syscall.ECONNREFUSED), io.ErrUnexpectedEOF), "^no server listens at 192.0.2.1:443; it ended too early$"},
		"in a problem":               {problem.Wrap(problem.Unavailable, dial(syscall.ECONNREFUSED), "h cannot be reached"), "^h cannot be reached: no server listens at 192.0.2.1:443$"},
		"a kind that says the same":  {problem.Wrap(problem.DeadlineExceeded, sent(context.DeadlineExceeded), "h did not answer in time"), "^h did not answer in time$"},
		"another cause":              {problem.Wrap(problem.Internal, errors.New("the cause"), "a text"), "^a text: the cause$"},
	} {
		if tt.err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		got := problem.PlainMessage(tt.err)
		if !regexp.MustCompile(tt.want).MatchString(got) || goWords.MatchString(got) {
			t.Errorf("%s: Plain(%q) = %q, want %s", name, tt.err, got, tt.want)
		}
	}
}
