package a2a

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

const (
	mediaJSON = "application/json"
	mediaA2A  = "application/a2a+json"
)

func (r *request) read() error {
	if r.body != nil {
		return nil
	}
	body, err := httpapi.Body(r.ResponseWriter, r.Request, a2awire.MaxBody, mediaA2A)
	if err != nil {
		return err
	}
	r.EndReadDeadline()
	// Make r.body non-nil even if the body is empty, because nil means that it was not read yet.
	r.body = append(make([]byte, 0, len(body)+1), body...)
	return nil
}

// isOwnForm reports whether the body of POST / is a signed call in the host's own form: method
// message/send, an envelope, and parts without the member kind. The body can be read again
// afterwards.
func (d *api) isOwnForm(r *request) (bool, error) {
	if err := r.read(); err != nil {
		return false, err
	}
	r.Body = io.NopCloser(bytes.NewReader(r.body))
	v, err := canon.Parse(r.body, a2awire.Limits())
	if err != nil {
		return false, nil
	}
	method, _ := v.Get("method")
	params, _ := v.Get("params")
	m, _ := params.Get("message")
	metadata, _ := m.Get("metadata")
	parts, _ := m.Get("parts")
	_, envelope := metadata.Get(a2awire.Extension)
	kinds := 0
	for _, p := range parts.Items() {
		if _, ok := p.Get("kind"); ok {
			kinds++
		}
	}
	return method.Text() == "message/send" && envelope && kinds == 0, nil
}

func (d *api) rpc(r *request) error {
	if err := r.read(); err != nil {
		return err
	}
	r.noteExtension()
	whole := canon.NewDecoder(r.body, a2awire.Limits())
	if err := errors.Join(whole.Skip(), whole.End()); err != nil {
		return faultf(parseError, "the body does not decode: "+problem.AsError(err).Text())
	}
	in := canon.NewDecoder(r.body, a2awire.Limits())
	if in.Kind() != canon.Object {
		return faultf(invalidRequest, "expected one JSON-RPC request, got "+in.Kind().String())
	}
	method, params, version := "", []byte("{}"), ""
	hasVersion, hasID, hasMethod, methodIsText := false, false, false, true
	err := in.Object(func(key string) (err error) {
		switch key {
		case "jsonrpc":
			hasVersion = true
			if in.Kind() != canon.String {
				return in.Skip()
			}
			version, err = in.String()
		case "id":
			hasID = true
			switch in.Kind() {
			case canon.String, canon.Int, canon.Float, canon.Null:
				r.id, err = in.SkipRaw()
			default:
				err = in.MismatchError("a string or a number")
			}
		case "method":
			hasMethod = true
			if methodIsText = in.Kind() == canon.String; !methodIsText {
				return in.Skip()
			}
			method, err = in.String()
		case "params":
			if in.Kind() == canon.Null {
				return in.Null()
			}
			params, err = in.SkipRaw()
		default:
			err = in.Skip()
		}
		return err
	})
	r.noAnswer = !hasID
	switch {
	case err != nil:
		return faultf(invalidRequest, problem.AsError(err).Text())
	case !hasVersion && !hasMethod:
		return faultf(invalidRequest, `expected a request of JSON-RPC, such as {"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":…}}; `+
			`POST {"message":…} to this address with /message:send, and plain text to it with /text`)
	case version != "2.0":
		return faultf(invalidRequest, `jsonrpc: expected "2.0"`)
	case !methodIsText:
		return faultf(methodNotFound, "method: expected a string")
	case method == "":
		return faultf(invalidRequest, "method: expected a string, got none")
	}
	op, dialect, ok := a2awire.Method(method)
	if r.dialect = dialect; !ok {
		return faultf(methodNotFound, "method "+httpapi.Clip(method)+" does not exist")
	}
	r.setOperation(op, method)
	if _, err := r.version(); err != nil {
		return err
	}
	if strings.HasPrefix(r.UserAgent(), "harbor-a2a/") && r.dialect == a2awire.V03 {
		r.dialect, r.withoutRPC = a2awire.V1Snake, true
	}
	d.operate(r, params)
	return nil
}

func (d *api) fail(r *request, f *fault) {
	if !r.isREST() {
		// An invalid request without an id is not a notification: the client forgot the id, so it
		// gets the error.
		r.noAnswer = r.noAnswer && f.kind != invalidRequest && f.kind != methodNotFound && f.kind != invalidParams
		if streams := r.op == a2awire.Stream || r.op == a2awire.Subscribe; streams && !r.noAnswer && !r.withoutRPC && !r.Options.OldErrors {
			// Clients of a stream read only events, so the error is sent as an event. A vacant with
			// OldErrors sends JSON, which the conformance kit expects.
			r.Stream(&events{r: r}).End(f)
		} else {
			r.send(http.StatusOK, mediaJSON, r.rpcError(f))
		}
		r.Log(cmp.Or(f.verdict, f.kind.reason), http.StatusOK, f)
		return
	}
	// A2A 1.0.0 had other statuses for some errors. OldErrors selects them for the conformance kit,
	// which is older than 1.0.1.
	older := map[int]int{taskNotCancelable.code: http.StatusConflict, contentType.code: http.StatusUnsupportedMediaType}
	if status := older[f.kind.code]; status != 0 && r.Options.OldErrors {
		g := *f
		g.kind.http, f = status, &g
	}
	b := append([]byte(`{"error":{"code":`), strconv.Itoa(f.kind.http)...)
	b = canon.AppendString(append(b, `,"status":`...), f.kind.status)
	b = canon.AppendString(append(b, `,"message":`...), f.text)
	b = append(f.appendInfo(append(b, `,"details":`...)), `}}`...)
	r.send(f.kind.http, mediaJSON, b)
	r.Log(cmp.Or(f.verdict, f.kind.reason), f.kind.http, f)
}

func (r *request) rpcError(f *fault) []byte {
	code := f.kind.code
	if r.dialect == a2awire.V1Snake && f.kind == taskNotFound {
		code = 1 // code that this client reads as "task not found"
	}
	b := r.appendID(nil)
	b = strconv.AppendInt(append(b, `,"error":{"code":`...), int64(code), 10)
	b = canon.AppendString(append(b, `,"message":`...), f.text)
	return append(f.appendInfo(append(b, `,"data":`...)), `}}`...)
}

func (r *request) appendID(b []byte) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	if r.id == nil {
		return append(b, `null`...)
	}
	return append(b, r.id...)
}

func (r *request) isREST() bool { return r.Rest != "" }

func (d *api) answer(r *request, result []byte) {
	if r.isREST() {
		r.send(http.StatusOK, r.media(), result)
	} else {
		b := append(r.appendID(make([]byte, 0, len(result)+80)), `,"result":`...)
		r.send(http.StatusOK, mediaJSON, append(append(b, result...), '}'))
	}
	r.Log("ok", http.StatusOK, nil)
}

// media returns the media type of an answer of the REST binding: the type that the client accepts,
// otherwise the type of the request's body, otherwise A2A's type.
func (r *request) media() string {
	for _, header := range []string{"Accept", "Content-Type"} {
		value := strings.ToLower(strings.Join(r.Request.Header.Values(header), ","))
		switch {
		case strings.Contains(value, mediaA2A):
			return mediaA2A
		case strings.Contains(value, mediaJSON):
			return mediaJSON
		}
	}
	return mediaA2A
}

// send writes a complete response. A notification gets 204 without a body.
func (r *request) send(status int, media string, body []byte) {
	h := r.ResponseWriter.Header()
	h.Set("Cache-Control", "no-store")
	if r.noAnswer && !r.isREST() {
		r.WriteHeader(http.StatusNoContent)
		return
	}
	h.Set("Content-Type", media)
	httpapi.Send(r.ResponseWriter, status, body)
}

func (d *api) failWith(r *request, err error) {
	if !r.Signed {
		err = r.OrLogin(r.Context(), err)
	}
	if f := problemOfFault(err); f != nil {
		d.fail(r, f)
		return
	}
	r.Fail(err)
}
