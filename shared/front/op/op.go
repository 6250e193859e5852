// Package op declares the operations of the host's JSON APIs. An operation is a value of type Op
// with its route, its access rule and the types of its request and answer. The handler, the client,
// the access check and the description are derived from this value.
//
// A request is a struct or None. Tags define where its fields are:
//
//	path:"vacant"             a variable of the path; {path...} at the end may contain slashes
//	query:"limit"             a parameter of the query
//	header:"Idempotency-Key"  a header
//	body:"json"               the body: a struct that canon.Unmarshal reads, or Raw
//	body:"text"               the body: a string of the unchanged bytes
//	body:"ignored"            a body is accepted, but not read
//
// An operation without a body field refuses a body. The other fields may be a string, a bool, a
// uint64 (a positive number), an encoding.TextUnmarshaler, a pointer to one of these (nil if the
// value is missing), or a []string (all values).
package op

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Op[In, Out any] struct {
	_       [0]func() // not comparable, so programs contain no comparison code
	Method  string
	Path    string // pattern of http.ServeMux
	Status  int    // status of success; zero means 200, or 204 if Out is None
	Access  Access
	MaxBody int // in bytes; zero means the limit in canon.DefaultLimits
	// Wipe is true if the body, or an answer of type Raw, contains a secret. Its bytes are
	// overwritten after use, so functions must not retain them.
	Wipe bool
	Doc  string // for readers of the API: "creates a vacant"
}

// anyOp has the same fields as Op, so a pointer to an Op converts to a pointer to an anyOp. Its
// methods need no type parameters, so programs contain their code only once.
type anyOp struct {
	_       [0]func()
	Method  string
	Path    string
	Status  int
	Access  Access
	MaxBody int
	Wipe    bool
	Doc     string
}

// Access specifies who may use an operation. The zero Access allows only the operator.
type Access struct {
	// Anybody means that no credential is required. The function itself checks the content of the
	// request, for example its signature.
	Anybody bool
	Vacant  bool
	// Key also allows account keys that meet the requirement. If its scope is empty, no account key
	// is allowed.
	Key billing.KeyRequirement
}

func (a Access) Describe() string {
	var callers []string
	if a.Anybody {
		callers = append(callers, "anybody")
	}
	if a.Vacant {
		callers = append(callers, "a vacant by its signature")
	}
	if k := a.Key; k.Scope != "" {
		key := "a live key with the scope "
		if k.AllowsTest {
			key = "a key with the scope "
		}
		key += string(k.Scope)
		if k.AltScope != "" {
			key += " or " + string(k.AltScope)
		}
		if k.ExtraScope != "" {
			key += " and " + string(k.ExtraScope)
		}
		if k.RequiresActive {
			key += " of an active account"
		}
		callers = append(callers, key)
	}
	if len(callers) == 0 {
		return "only the operator"
	}
	return strings.Join(callers, ", ")
}

type None struct{}

type IgnoredBody struct {
	Body string `body:"ignored"`
}

type Body[T any] struct {
	Body T `body:"json"`
}

func NewBody[T any](body T) Body[T] { return Body[T]{body} }

// Raw contains the bytes of a JSON document of type T. In a request, the function parses them. In
// an answer, they are sent unchanged.
type Raw[T any] []byte

type Document interface {
	DocumentType() reflect.Type
}

func (Raw[T]) DocumentType() reflect.Type { return reflect.TypeFor[T]() }

func EncodeRaw[T any](v T) Raw[T] {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func (r Raw[T]) MarshalJSON() ([]byte, error) { return json.RawMessage(r).MarshalJSON() }

func (r *Raw[T]) UnmarshalJSON(b []byte) error { return (*json.RawMessage)(r).UnmarshalJSON(b) }

type Blob struct {
	Data   []byte
	Header http.Header // includes the media type
	Status int         // 0 means the status of the operation
}

func (b *Blob) SetHeaders(h http.Header) int {
	maps.Copy(h, b.Header)
	return b.Status
}

// HeaderSetter is an answer that sets headers or its status. The operation's status is used if
// SetHeaders returns zero.
type HeaderSetter interface {
	SetHeaders(h http.Header) (status int)
}

type Validator interface {
	// Validate returns an error of kind Untrusted if a correct host would not give this answer.
	Validate() error
}

// Out is nil if the answer is not JSON. In is nil if only the path is read.
type Spec struct {
	Method, Path string
	Group        string
	Status       int
	Access       Access
	Doc          string
	In, Out      reflect.Type
	// Nil means httpapi.Refusal.
	ErrorType                 reflect.Type
	RequestMedia, AnswerMedia []string
	IgnoresUnknown            bool
	AnswerDoc                 string
}

type Ranged interface {
	Ranges() map[string]Range
}

// Range limits a parameter to a number from Min to Max, or to one of Words.
type Range struct {
	Min, Max int64
	Words    []string
	Default  any
	Required bool
}

func (o Op[In, Out]) Spec() Spec {
	return (*anyOp)(&o).spec(reflect.TypeFor[In](), reflect.TypeFor[Out]())
}

// spec returns the description of o. It is not inlined, because programs would otherwise contain
// its code once per operation.
//
//go:noinline
func (o *anyOp) spec(in, out reflect.Type) Spec {
	status := o.Status
	switch {
	case status != 0:
	case out == reflect.TypeFor[None]():
		status = http.StatusNoContent
	default:
		status = http.StatusOK
	}
	return Spec{Method: o.Method, Path: o.Path, Status: status, Access: o.Access, Doc: o.Doc, In: in, Out: out}
}

type Caller struct {
	// IsOperator is true if only the operator can reach the server.
	IsOperator bool
	Vacant     *identity.ID
	// Key is the account key of the request. If anyone may send the request, it is nil until
	// RequireKey demands a key.
	Key          *billing.Key
	authenticate func(context.Context) (*billing.Key, error)
}

type callerKey struct{}

func CallerOf(ctx context.Context) Caller { return ctx.Value(callerKey{}).(Caller) }

// RequireKey demands a key from a request that anyone may send. The caller in the returned context
// has the key. The operator needs no key.
func RequireKey(ctx context.Context) (context.Context, error) {
	c := CallerOf(ctx)
	if c.IsOperator {
		return ctx, nil
	}
	k, err := c.authenticate(ctx)
	return context.WithValue(ctx, callerKey{}, Caller{Key: k}), err
}

type Server struct {
	OperatorOnly bool
	Keys         *billing.Billing
	// IdentifyVacant returns nil if the request is not signed.
	IdentifyVacant func(r *http.Request, body []byte) (*identity.ID, error)
}

type Route struct {
	Spec
	Serve       httpapi.Handler
	checkAccess func(*http.Request) error // if nil, Serve checks the access
}

func NewRoute[In, Out any](s Server, o Op[In, Out], f func(context.Context, In) (Out, error)) Route {
	return s.buildRoute((*anyOp)(&o), reflect.TypeFor[In](), reflect.TypeFor[Out](), f)
}

// buildRoute implements NewRoute without type parameters, so that programs contain its code once.
// implement is a function of the type that NewRoute requires.
//
//go:noinline
func (s Server) buildRoute(o *anyOp, in, out reflect.Type, implement any) Route {
	spec, limit, wipe := o.spec(in, out), o.MaxBody, o.Wipe
	fields := fieldsOf(spec.In, spec.Path)
	route := Route{Spec: spec}
	if !spec.Access.Vacant {
		route.checkAccess = func(r *http.Request) error {
			_, err := s.identifyCaller(r, nil, spec.Access)
			return err
		}
	}
	route.Serve = func(w http.ResponseWriter, r *http.Request) (err error) {
		var body []byte
		if wipe {
			defer func() { clear(body) }()
		}
		if spec.Access.Vacant { // the vacant's signature also covers the body
			if body, err = fields.readBody(w, r, limit); err != nil {
				return err
			}
		}
		caller, err := s.identifyCaller(r, body, spec.Access)
		if err != nil {
			return addChallenge(w, r, err, spec.Access)
		}
		if !spec.Access.Vacant {
			if body, err = fields.readBody(w, r, limit); err != nil {
				return err
			}
		}
		in := reflect.New(spec.In)
		if err := fields.decode(r, body, limit, in.Elem()); err != nil {
			return err
		}
		// If each operation had a closure, every program would contain this code once per operation.
		results := reflect.ValueOf(implement).Call([]reflect.Value{reflect.ValueOf(context.WithValue(r.Context(), callerKey{}, caller)), in.Elem()})
		if err, _ := results[1].Interface().(error); err != nil {
			return addChallenge(w, r, err, spec.Access)
		}
		out := reflect.New(results[0].Type()) // the pointer may have methods that the value lacks
		out.Elem().Set(results[0])
		return sendAnswer(w, spec.Status, wipe, out.Interface())
	}
	return route
}

// NewHandlerRoute returns the route of a handler, for example a stream. The handler must check
// s.Access.
func NewHandlerRoute(s Spec, h httpapi.Handler) Route {
	return Route{Spec: s, Serve: func(w http.ResponseWriter, r *http.Request) error { return addChallenge(w, r, h(w, r), s.Access) }}
}

func addChallenge(w http.ResponseWriter, r *http.Request, err error, a Access) error {
	if err != nil && !errors.As(err, new(httpapi.SentError)) {
		httpapi.Challenge(w, r, err, string(a.Key.Scope))
	}
	return err
}

func Fail(w http.ResponseWriter, r *http.Request, err error) {
	httpapi.Fail(w, addChallenge(w, r, err, Access{}))
}

func (s Server) identifyCaller(r *http.Request, body []byte, a Access) (c Caller, err error) {
	authenticateKey := func(ctx context.Context) (*billing.Key, error) {
		if a.Key.Scope == "" {
			return nil, s.OperatorOnlyError(r)
		}
		if s.Keys == nil {
			return nil, errOperatorOnly
		}
		return s.Keys.AuthenticateRequest(ctx, r, a.Key)
	}
	switch {
	case s.OperatorOnly:
		return Caller{IsOperator: true}, nil
	case a.Anybody:
		return Caller{authenticate: authenticateKey}, nil
	}
	if a.Vacant && s.IdentifyVacant != nil {
		if c.Vacant, err = s.IdentifyVacant(r, body); err != nil || c.Vacant != nil {
			return c, err
		}
	}
	c.Key, err = authenticateKey(r.Context())
	return c, err
}

// If the request has a bad key or no key, OperatorOnlyError returns the error about the key
// instead.
func (s Server) OperatorOnlyError(r *http.Request) error {
	if s.Keys != nil {
		if _, err := s.Keys.AuthenticateRequest(r.Context(), r, billing.KeyRequirement{AllowsTest: true}); err != nil {
			return err
		}
	}
	return errOperatorOnly
}

var errOperatorOnly = problem.New(problem.Forbidden, "account keys manage only the vacants of their tenant; this operation needs the operator's key")

func sendAnswer(w http.ResponseWriter, status int, wipe bool, out any) error {
	if r, ok := out.(HeaderSetter); ok {
		if ownStatus := r.SetHeaders(w.Header()); ownStatus != 0 {
			status = ownStatus
		}
	}
	if status == http.StatusNoContent || status == http.StatusNotModified {
		w.WriteHeader(status)
		return nil
	}
	raw := reflect.ValueOf(out).Elem()
	if b, ok := out.(*Blob); ok {
		raw = reflect.ValueOf(b.Data)
	}
	if raw.Kind() != reflect.Slice {
		return httpapi.SendJSON(w, status, out)
	}
	if wipe {
		defer clear(raw.Bytes())
	}
	w.Header().Set("Cache-Control", "no-store")
	httpapi.Send(w, status, raw.Bytes())
	return nil
}

// Twin is an operation with one path for the operator and one for account keys.
type Twin[In, Out any] struct{ Operator, Key Op[In, Out] }

func NewTwin[In, Out any](key Op[In, Out]) Twin[In, Out] {
	operator := key
	operator.Path, operator.Access = OperatorPath(key.Path), Access{}
	return Twin[In, Out]{Operator: operator, Key: key}
}

func OperatorPath(path string) string { return "/v1/admin" + strings.TrimPrefix(path, "/v1") }

func (t Twin[In, Out]) For(isOperator bool) Op[In, Out] {
	if isOperator {
		return t.Operator
	}
	return t.Key
}

func NewTwinRoute[In, Out any](s Server, t Twin[In, Out], f func(context.Context, In) (Out, error)) Route {
	return NewRoute(s, t.For(s.OperatorOnly), f)
}

func Specs(routes []Route) []Spec {
	specs := make([]Spec, len(routes))
	for i := range routes {
		specs[i] = routes[i].Spec
	}
	return specs
}

func RoutesByPath(routes ...Route) map[string]httpapi.Methods {
	byPath := map[string]httpapi.Methods{}
	for _, r := range routes {
		if byPath[r.Path] == nil {
			byPath[r.Path] = httpapi.Methods{}
		}
		if _, isDuplicate := byPath[r.Path][r.Method]; isDuplicate {
			panic("op: two operations at " + r.Method + " " + r.Path)
		}
		byPath[r.Path][r.Method] = r.Serve
	}
	return byPath
}

// RoutesIf returns routes that answer NotFound with the reason if isAvailable is false.
func RoutesIf(isAvailable bool, reason string, routes ...Route) []Route {
	if isAvailable {
		return routes
	}
	for i := range routes {
		checkAccess, access := routes[i].checkAccess, routes[i].Access
		routes[i].Serve = func(w http.ResponseWriter, r *http.Request) error {
			if checkAccess != nil {
				if err := checkAccess(r); err != nil {
					return addChallenge(w, r, err, access)
				}
			}
			return problem.New(problem.NotFound, "%s", reason)
		}
	}
	return routes
}

type Client interface {
	// If into is nil or a *Blob, the answer is not decoded.
	Call(ctx context.Context, method, path string, header http.Header, body []byte, into any) error
}

func (o Op[In, Out]) PathFor(in In) (string, error) {
	path, _, _, err := o.Spec().encodeRequest(&in)
	return path, err
}

func (o Op[In, Out]) Call(ctx context.Context, c Client, in In) (out Out, err error) {
	if err := (*anyOp)(&o).call(ctx, c, reflect.TypeFor[In](), reflect.TypeFor[Out](), &in, &out); err != nil {
		return *new(Out), err
	}
	return out, nil
}

func (o *anyOp) call(ctx context.Context, c Client, inType, outType reflect.Type, in, out any) error {
	spec, wipe := o.spec(inType, outType), o.Wipe
	path, header, body, err := spec.encodeRequest(in)
	if err != nil {
		return err
	}
	if wipe {
		defer clear(body)
	}
	if spec.Out == reflect.TypeFor[None]() {
		out = nil
	}
	if err := c.Call(ctx, spec.Method, path, header, body, out); err != nil {
		return err
	}
	if validator, ok := out.(Validator); ok {
		return validator.Validate()
	}
	return nil
}

func bodyLimits(bytes int) canon.Limits {
	return httpapi.Limits(cmp.Or(bytes, canon.DefaultLimits().Bytes))
}
