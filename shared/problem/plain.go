package problem

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

// PlainMessage returns the message of err without the jargon of Go's network packages: dial tcp, x509,
// context deadline exceeded, unexpected EOF. Other messages remain unchanged. PlainMessage omits the URL
// of a request, because its path and query may contain credentials.
func PlainMessage(err error) string {
	if text := plainValue(err); text != "" {
		return text
	}
	switch e := err.(type) {
	case *Error:
		return e.Error()
	case *url.Error:
		return PlainMessage(e.Err)
	case *os.SyscallError:
		return PlainMessage(e.Err)
	case *net.OpError:
		return plainOpError(e)
	case *net.DNSError:
		if e.IsNotFound {
			return fmt.Sprintf("the name %s has no address", e.Name)
		}
		if e.Server != "" {
			return fmt.Sprintf("the name server %s currently has no address for %s", e.Server, e.Name)
		}
		return fmt.Sprintf("this machine's name servers currently have no address for %s", e.Name)
	case *tls.CertificateVerificationError:
		return PlainMessage(e.Err)
	case tls.RecordHeaderError:
		return "it does not speak TLS"
	case interface{ Timeout() bool }:
		if e.Timeout() {
			return timeUp
		}
	case interface{ Unwrap() []error }:
		var texts []string
		for _, part := range e.Unwrap() {
			texts = append(texts, PlainMessage(part))
		}
		return strings.Join(texts, "; ")
	}
	if text := plainCertificate(err); text != "" {
		return text
	}
	return plainText(err)
}

const (
	timeUp    = "it timed out"
	brokenOff = "the connection was interrupted"
)

func plainValue(err error) string {
	switch err {
	case context.Canceled:
		return "it was canceled"
	case io.EOF, io.ErrUnexpectedEOF:
		return "it ended too early"
	case net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED:
		return brokenOff
	case http.ErrSchemeMismatch:
		return "it speaks http, not https"
	}
	return ""
}

func plainOpError(e *net.OpError) string {
	address := "it"
	if e.Addr != nil {
		address = e.Addr.String()
	}
	is := func(numbers ...error) bool {
		for _, n := range numbers {
			if errors.Is(e.Err, n) {
				return true
			}
		}
		return false
	}
	switch {
	case e.Op == "proxyconnect":
		return "the proxy: " + PlainMessage(e.Err)
	case errors.As(e.Err, new(*net.DNSError)):
		return PlainMessage(e.Err)
	case is(syscall.ECONNREFUSED), e.Net == "unix" && is(syscall.ENOENT):
		return "no server listens at " + address
	case e.Op == "dial" && e.Timeout():
		return "no connection to " + address + " in time"
	case is(syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EADDRNOTAVAIL):
		return "no network route to " + address
	case e.Op == "dial" && is(os.ErrPermission):
		return "this machine allows no connection to " + address
	case e.Op == "remote error":
		return "the other side ended TLS: " + PlainMessage(e.Err)
	case e.Addr == nil || is(net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED) || e.Timeout():
		return PlainMessage(e.Err)
	}
	return address + ": " + PlainMessage(e.Err)
}

func plainCertificate(err error) string {
	switch e := err.(type) {
	case x509.UnknownAuthorityError:
		return "its certificate is signed by an authority that this machine does not know"
	case x509.SystemRootsError:
		return "this machine has no list of certificate authorities"
	case x509.HostnameError:
		names := append([]string{}, e.Certificate.DNSNames...)
		for _, ip := range e.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		if len(names) == 0 {
			names = []string{"no host"}
		}
		if len(names) > maxNames {
			names = append(names[:maxNames], "others")
		}
		return fmt.Sprintf("its certificate is for %s, not for %s", strings.Join(names, ", "), e.Host)
	case x509.CertificateInvalidError:
		switch e.Reason {
		case x509.Expired:
			now, from := time.Now(), e.Cert.NotBefore
			if now.Before(from) {
				return fmt.Sprintf("its certificate is not valid before %s, and this machine's clock says %s", minute(from), minute(now))
			}
			return fmt.Sprintf("its certificate expired at %s, and this machine's clock says %s", minute(e.Cert.NotAfter), minute(now))
		case x509.IncompatibleUsage:
			return "its certificate is not for a server"
		}
		return "its certificate is signed by a certificate that may not sign it"
	}
	return ""
}

const maxNames = 3

func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func plainText(err error) string {
	text := err.Error()
	switch { // untyped errors of net/http
	case strings.Contains(text, "malformed HTTP response"):
		return "it does not speak HTTP"
	case strings.Contains(text, "server closed idle connection"):
		return brokenOff
	}
	if inner := errors.Unwrap(err); inner != nil { // replace the wrapped error's message by its plain one
		if before, ok := strings.CutSuffix(text, inner.Error()); ok {
			text = before + PlainMessage(inner)
		}
	}
	for _, name := range []string{"net/http: ", "http: ", "http2: ", "tls: ", "x509: ", "HTTP/1.x transport connection broken: "} {
		text = strings.TrimPrefix(text, name)
	}
	return text
}
