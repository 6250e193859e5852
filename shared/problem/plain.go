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

// PlainMessage returns the message of err without the jargon of Go's network packages, such as
// "dial tcp". It omits the URL of a request, because its path and query may contain credentials.
func PlainMessage(err error) string {
	if text := knownErrorMessage(err); text != "" {
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
		return opErrorMessage(e)
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
			return timedOutMessage
		}
	case interface{ Unwrap() []error }:
		var messages []string
		for _, part := range e.Unwrap() {
			messages = append(messages, PlainMessage(part))
		}
		return strings.Join(messages, "; ")
	}
	if text := certificateMessage(err); text != "" {
		return text
	}
	return simplifyMessage(err)
}

const (
	timedOutMessage    = "it timed out"
	interruptedMessage = "the connection was interrupted"
)

func knownErrorMessage(err error) string {
	switch err {
	case context.Canceled:
		return "it was canceled"
	case io.EOF, io.ErrUnexpectedEOF:
		return "it ended too early"
	case net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED:
		return interruptedMessage
	case http.ErrSchemeMismatch:
		return "it speaks http, not https"
	}
	return ""
}

func opErrorMessage(e *net.OpError) string {
	address := "it"
	if e.Addr != nil {
		address = e.Addr.String()
	}
	isAny := func(targets ...error) bool {
		for _, target := range targets {
			if errors.Is(e.Err, target) {
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
	case isAny(syscall.ECONNREFUSED), e.Net == "unix" && isAny(syscall.ENOENT):
		return "no server listens at " + address
	case e.Op == "dial" && e.Timeout():
		return "no connection to " + address + " in time"
	case isAny(syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EADDRNOTAVAIL):
		return "no network route to " + address
	case e.Op == "dial" && isAny(os.ErrPermission):
		return "this machine allows no connection to " + address
	case e.Op == "remote error":
		return "the other side ended TLS: " + PlainMessage(e.Err)
	case e.Addr == nil || isAny(net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED) || e.Timeout():
		return PlainMessage(e.Err)
	}
	return address + ": " + PlainMessage(e.Err)
}

func certificateMessage(err error) string {
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
		if len(names) > maxCertificateNames {
			names = append(names[:maxCertificateNames], "others")
		}
		return fmt.Sprintf("its certificate is for %s, not for %s", strings.Join(names, ", "), e.Host)
	case x509.CertificateInvalidError:
		switch e.Reason {
		case x509.Expired:
			now, notBefore := time.Now(), e.Cert.NotBefore
			if now.Before(notBefore) {
				return fmt.Sprintf("its certificate is not valid before %s, and this machine's clock says %s", formatMinute(notBefore), formatMinute(now))
			}
			return fmt.Sprintf("its certificate expired at %s, and this machine's clock says %s", formatMinute(e.Cert.NotAfter), formatMinute(now))
		case x509.IncompatibleUsage:
			return "its certificate is not for a server"
		}
		return "its certificate is signed by a certificate that may not sign certificates"
	}
	return ""
}

const maxCertificateNames = 3

func formatMinute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func simplifyMessage(err error) string {
	text := err.Error()
	switch { // untyped errors of net/http
	case strings.Contains(text, "malformed HTTP response"):
		return "it does not speak HTTP"
	case strings.Contains(text, "server closed idle connection"):
		return interruptedMessage
	}
	if inner := errors.Unwrap(err); inner != nil {
		if prefix, ok := strings.CutSuffix(text, inner.Error()); ok {
			text = prefix + PlainMessage(inner)
		}
	}
	for _, prefix := range []string{"net/http: ", "http: ", "http2: ", "tls: ", "x509: ", "HTTP/1.x transport connection broken: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return text
}
