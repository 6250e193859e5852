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

func (r *request) readBody() error {
	if r.body != nil {
		return nil
	}
	body, err := httpapi.ReadBody(r.ResponseWriter, r.Request, a2awire.MaxBody, mediaA2A)
	if err != nil {
		return err
	}
	r.ClearReadDeadline()
	// Make r.body non-nil even if the body is empty, because nil means that it was not read yet.
	r.body = append(make([]byte, 0, len(body)+1), body...)
	return nil
}

// isSignedCall reports whether the body of POST / is a signed call in the host's own form. The body
// can be read again afterwards.
func (a *api) isSignedCall(r *request) (bool, error) {
	if err := r.readBody(); err != nil {
		return false, err
	}
	r.Body = io.NopCloser(bytes.NewReader(r.body))
	v, err := canon.Parse(r.body, a2awire.Limits())
	if err != nil {
		return false, nil
	}
	method, _ := v.Get("method")
	params, _ := v.Get("params")
	message, _ := params.Get("message")
	metadata, _ := message.Get("metadata")
	parts, _ := message.Get("parts")
	_, hasEnvelope := metadata.Get(a2awire.Extension)
	kindCount := 0
	for _, p := range parts.Items() {
		if _, ok := p.Get("kind"); ok {
			kindCount++
		}
	}
	return method.Text() == "message/send" && hasEnvelope && kindCount == 0, nil
}

func (a *api) serveRPC(r *request) error {
	if err := r.readBody(); err != nil {
		return err
	}
	r.recordExtension()
	syntaxDecoder := canon.NewDecoder(r.body, a2awire.Limits())
	if err := errors.Join(syntaxDecoder.Skip(), syntaxDecoder.End()); err != nil {
		return newFault(parseError, "the body does not decode: "+problem.AsError(err).Text())
	}
	decoder := canon.NewDecoder(r.body, a2awire.Limits())
	if decoder.Kind() != canon.Object {
		return newFault(invalidRequest, "expected one JSON-RPC request, got "+decoder.Kind().String())
	}
	method, params, version := "", []byte("{}"), ""
	hasVersion, hasID, hasMethod, isMethodString := false, false, false, true
	err := decoder.Object(func(key string) (err error) {
		switch key {
		case "jsonrpc":
			hasVersion = true
			if decoder.Kind() != canon.String {
				return decoder.Skip()
			}
			version, err = decoder.String()
		case "id":
			hasID = true
			switch decoder.Kind() {
			case canon.String, canon.Int, canon.Float, canon.Null:
				r.rpcID, err = decoder.SkipRaw()
			default:
				err = decoder.MismatchError("a string or a number")
			}
		case "method":
			hasMethod = true
			if isMethodString = decoder.Kind() == canon.String; !isMethodString {
				return decoder.Skip()
			}
			method, err = decoder.String()
		case "params":
			if decoder.Kind() == canon.Null {
				return decoder.Null()
			}
			params, err = decoder.SkipRaw()
		default:
			err = decoder.Skip()
		}
		return err
	})
	r.isNotification = !hasID
	switch {
	case err != nil:
		return newFault(invalidRequest, problem.AsError(err).Text())
	case !hasVersion && !hasMethod:
		return newFault(invalidRequest, `expected a JSON-RPC request, such as {"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":…}}; `+
			`or append /message:send to this address to POST {"message":…}, or /text to POST plain text`)
	case version != "2.0":
		return newFault(invalidRequest, `jsonrpc: expected "2.0"`)
	case !isMethodString:
		return newFault(methodNotFound, "method: expected a string")
	case method == "":
		return newFault(invalidRequest, "method: expected a string, got none")
	}
	op, dialect, ok := a2awire.ParseMethod(method)
	if r.dialect = dialect; !ok {
		return newFault(methodNotFound, "method "+httpapi.QuoteTruncated(method)+" does not exist")
	}
	r.setOperation(op, method)
	if _, err := r.supportedVersion(); err != nil {
		return err
	}
	if strings.HasPrefix(r.UserAgent(), "harbor-a2a/") && r.dialect == a2awire.V03 {
		r.dialect, r.isUnwrapped = a2awire.V1Snake, true
	}
	a.runOperation(r, params)
	return nil
}

func (a *api) writeFault(r *request, f *fault) {
	if !r.isREST() {
		// An invalid request without an id is not a notification: the client forgot the id, so it
		// gets the error.
		r.isNotification = r.isNotification && f.kind != invalidRequest && f.kind != methodNotFound && f.kind != invalidParams
		if isStream := r.op == a2awire.Stream || r.op == a2awire.Subscribe; isStream && !r.isNotification && !r.isUnwrapped && !r.Options.LegacyErrors {
			// Clients of a stream read only events, so the error is sent as an event. If LegacyErrors is
			// set, the error is sent as JSON, which the conformance kit expects.
			r.NewStream(&eventRenderer{r: r}).End(f)
		} else {
			r.writeResponse(http.StatusOK, mediaJSON, r.encodeRPCError(f))
		}
		r.Log(cmp.Or(f.logVerdict, f.kind.reason), http.StatusOK, f)
		return
	}
	// A2A 1.0.0 had other statuses for some errors. LegacyErrors selects them for the conformance kit,
	// which is older than 1.0.1.
	olderStatuses := map[int]int{taskNotCancelable.rpcCode: http.StatusConflict, contentTypeNotSupported.rpcCode: http.StatusUnsupportedMediaType}
	if status := olderStatuses[f.kind.rpcCode]; status != 0 && r.Options.LegacyErrors {
		adjusted := *f
		adjusted.kind.httpStatus, f = status, &adjusted
	}
	b := append([]byte(`{"error":{"code":`), strconv.Itoa(f.kind.httpStatus)...)
	b = canon.AppendString(append(b, `,"status":`...), f.kind.grpcStatus)
	b = canon.AppendString(append(b, `,"message":`...), f.message)
	b = append(f.appendInfo(append(b, `,"details":`...)), `}}`...)
	r.writeResponse(f.kind.httpStatus, mediaJSON, b)
	r.Log(cmp.Or(f.logVerdict, f.kind.reason), f.kind.httpStatus, f)
}

func (r *request) encodeRPCError(f *fault) []byte {
	code := f.kind.rpcCode
	if r.dialect == a2awire.V1Snake && f.kind == taskNotFound {
		code = 1 // code that this client reads as "task not found"
	}
	b := r.appendRPCHead(nil)
	b = strconv.AppendInt(append(b, `,"error":{"code":`...), int64(code), 10)
	b = canon.AppendString(append(b, `,"message":`...), f.message)
	return append(f.appendInfo(append(b, `,"data":`...)), `}}`...)
}

func (r *request) appendRPCHead(b []byte) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	if r.rpcID == nil {
		return append(b, `null`...)
	}
	return append(b, r.rpcID...)
}

func (r *request) isREST() bool { return r.SubPath != "" }

func (a *api) writeResult(r *request, result []byte) {
	if r.isREST() {
		r.writeResponse(http.StatusOK, r.answerMedia(), result)
	} else {
		b := append(r.appendRPCHead(make([]byte, 0, len(result)+80)), `,"result":`...)
		r.writeResponse(http.StatusOK, mediaJSON, append(append(b, result...), '}'))
	}
	r.Log("ok", http.StatusOK, nil)
}

// answerMedia returns the media type that the client accepts or sends, otherwise A2A's type.
func (r *request) answerMedia() string {
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

// writeResponse writes a complete response. A notification gets 204 without a body.
func (r *request) writeResponse(status int, media string, body []byte) {
	h := r.ResponseWriter.Header()
	h.Set("Cache-Control", "no-store")
	if r.isNotification && !r.isREST() {
		r.WriteHeader(http.StatusNoContent)
		return
	}
	h.Set("Content-Type", media)
	httpapi.Send(r.ResponseWriter, status, body)
}

func (a *api) writeError(r *request, err error) {
	if !r.Signed {
		err = r.SuggestLogin(r.Context(), err)
	}
	if f := faultOf(err); f != nil {
		a.writeFault(r, f)
		return
	}
	r.Fail(err)
}
