// Package op declares operations of the host's JSON APIs. An operation is one value, Op: its
// route, who may use it, and the types of its request and of its answer. Everything else comes
// from that value: what serves it (On), its client (Op.Call), the check of access (Access) and
// its description (Spec).
//
// The request is a struct, or None. Tags say where its fields are:
//
//	path:"vacant"             a variable of the path; {path...} at the end of a path has slashes
//	query:"limit"             a parameter of the query; without one the field is zero
//	header:"Idempotency-Key"  a header
//	body:"json"               the body: a struct that canon.Unmarshal reads, or Raw
//	body:"text"               the body: a string of bytes as they came, of any media type
//	body:"ignored"            a body may come, and nobody reads it
//
// An operation without a field for the body refuses one, because it would be ignored. A field in
// the path, the query or a header is a text, a bool, a uint64 (a positive number),
// encoding.TextUnmarshaler, a pointer to these (nil if there is none), or []string (all values).
//
// A stream, a page for people, and an operation that reads the whole request by itself are handlers.
// Handle gives them a description, too.
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

// Op is an operation.
type Op[In, Out any] struct {
	_      [0]func() // nobody compares operations, so programs have no code for it
	Method string
	Path   string // a pattern of http.ServeMux
	Status int    // of success; zero means 200, or 204 if Out is None
	Access Access
	Limit  int // of the body in bytes; zero means canon.DefaultLimits
	// Wipe: the body, or an answer that is Raw, has a secret, so its bytes are wiped once they are read
	// or sent. Nothing may keep them.
	Wipe bool
	Doc  string // what it does, for readers of the API: "creates a vacant"
}

// anyOp is an Op of any types. It has Op's fields, so that a pointer to an Op converts to it, and
// programs have code that needs no types once.
type anyOp struct {
	_      [0]func()
	Method string
	Path   string
	Status int
	Access Access
	Limit  int
	Wipe   bool
	Doc    string
}

// Access says who may use an operation. The zero Access admits only the operator.
type Access struct {
	// Anybody means that no credential is asked for. The function checks what the request has, such as a
	// signature. If Key has a scope, the function may demand a key of some requests (Admit).
	Anybody bool
	// Vacant opens it to vacants, too, by their signature of the request with its body.
	Vacant bool
	// Key opens it to keys of accounts, too, that are as demanded; with an empty scope to none.
	Key billing.Demand
}

// Who says who may use an operation besides the operator of its host.
func (a Access) Who() string {
	var all []string
	if a.Anybody {
		all = append(all, "anybody")
	}
	if a.Vacant {
		all = append(all, "a vacant by its signature")
	}
	if k := a.Key; k.Scope != "" {
		key := "a live key with the scope "
		if k.Test {
			key = "a key with the scope "
		}
		key += string(k.Scope)
		if k.Or != "" {
			key += " or " + string(k.Or)
		}
		if k.And != "" {
			key += " and " + string(k.And)
		}
		if k.Active {
			key += " of an active account"
		}
		all = append(all, key)
	}
	if len(all) == 0 {
		return "only the operator"
	}
	return strings.Join(all, ", ")
}

// None is a request that says nothing, or an answer without a body.
type None struct{}

// Unread is a request that says nothing, whatever body comes with it.
type Unread struct {
	Body string `body:"ignored"`
}

// Body is a request that has only a body.
type Body[T any] struct {
	Body T `body:"json"`
}

// Of returns a request that has only a body.
func Of[T any](body T) Body[T] { return Body[T]{body} }

// Raw is a JSON document of type T in bytes. In a request it is as it came, and the function reads
// it; in an answer it is sent as it is.
type Raw[T any] []byte

// Document is a Raw of any type.
type Document interface {
	// DocumentType is the type that the document has.
	DocumentType() reflect.Type
}

// DocumentType implements Document.
func (Raw[T]) DocumentType() reflect.Type { return reflect.TypeFor[T]() }

// Encode returns a value in bytes. It panics if the value is not JSON, which only its type decides.
func Encode[T any](v T) Raw[T] {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// MarshalJSON implements json.Marshaler.
func (r Raw[T]) MarshalJSON() ([]byte, error) { return json.RawMessage(r).MarshalJSON() }

// UnmarshalJSON implements json.Unmarshaler.
func (r *Raw[T]) UnmarshalJSON(b []byte) error { return (*json.RawMessage)(r).UnmarshalJSON(b) }

// Blob is an answer that is not JSON.
type Blob struct {
	Data   []byte
	Header http.Header // with the media type
	Status int         // another status than the operation's, or 0
}

// Reply implements Replier.
func (b *Blob) Reply(h http.Header) int {
	maps.Copy(h, b.Header)
	return b.Status
}

// Replier is an answer that sets headers, or another status than the operation's. Reply returns the
// status. Zero means the operation's.
type Replier interface {
	Reply(h http.Header) (status int)
}

// Sound is an answer that its client checks.
type Sound interface {
	// Sound returns an error of kind Untrusted if no host answers so.
	Sound() error
}

// Spec describes an operation. Out is nil if its answer is not JSON, and In if it reads nothing but its
// path, or has a document of its own.
type Spec struct {
	Method, Path string
	Group        string // of operations, by which generated clients are divided
	Status       int    // of success
	Access       Access
	Doc          string
	In, Out      reflect.Type
	// Errors is the type of refusals. Nil means httpapi.Refusal.
	Errors reflect.Type
	// Takes and Gives are the media types of bodies and of answers. Nil means application/json.
	Takes, Gives []string
	// Open means that members of a body that its type lacks are ignored, and not refused.
	Open bool
	// Answer describes an answer that is not JSON.
	Answer string
}

// Ranged is a request whose handler reads the query, by ranges that its description tells.
type Ranged interface {
	// Ranges returns the range of each parameter of the query, by name.
	Ranges() map[string]Range
}

// Range bounds a parameter: it is a number from Min to Max, or one of Words.
type Range struct {
	Min, Max int64
	Words    []string
	// Default is the value of a parameter that is missing. Nil means that there is no default.
	Default any
	// Required means that a missing parameter is refused.
	Required bool
}

// Spec returns the description of o.
func (o Op[In, Out]) Spec() Spec {
	return (*anyOp)(&o).spec(reflect.TypeFor[In](), reflect.TypeFor[Out]())
}

// spec is not inlined, because programs would have its code for each operation.
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

// Caller tells who sent a request.
type Caller struct {
	// Operator means that the server admits only the operator, so the caller is the operator.
	Operator bool
	// Vacant is the vacant that signed the request. Nil means that no vacant signed it.
	Vacant *identity.ID
	// Key is the key of an account. Nil means that the caller is the operator or a vacant, or that no
	// key was demanded yet, because anybody may send the request.
	Key   *billing.Key
	admit func(context.Context) (*billing.Key, error)
}

type callerKey struct{}

// CallerOf returns who sent the request of a function's context.
func CallerOf(ctx context.Context) Caller { return ctx.Value(callerKey{}).(Caller) }

// Admit demands a key of a request that anybody may send, as the operation's Access says. The caller
// in the context that it returns has the key. The operator needs none.
func Admit(ctx context.Context) (context.Context, error) {
	c := CallerOf(ctx)
	if c.Operator {
		return ctx, nil
	}
	k, err := c.admit(ctx)
	return context.WithValue(ctx, callerKey{}, Caller{Key: k}), err
}

// Server serves operations.
type Server struct {
	// Operator means that only the operator can reach the server.
	Operator bool
	// Keys checks keys of accounts. Nil means that the host has no accounts.
	Keys *billing.Billing
	// Vacants returns the vacant that signed a request with its body, or nil if no vacant signed it.
	Vacants func(r *http.Request, body []byte) (*identity.ID, error)
}

// Route is an operation and what serves it.
type Route struct {
	Spec
	Serve httpapi.Handler
	admit func(*http.Request) error // checks the access; if it is nil, Serve does so
}

// On returns the route of an operation. f does it; its errors are answered as problems.
func On[In, Out any](s Server, o Op[In, Out], f func(context.Context, In) (Out, error)) Route {
	return s.on((*anyOp)(&o), reflect.TypeFor[In](), reflect.TypeFor[Out](), f)
}

// on is On for all types, so that programs have its code once. f is the function.
//
//go:noinline
func (s Server) on(o *anyOp, in, out reflect.Type, f any) Route {
	spec, limit, wipe := o.spec(in, out), o.Limit, o.Wipe
	fields := fieldsOf(spec.In, spec.Path)
	route := Route{Spec: spec}
	if !spec.Access.Vacant {
		route.admit = func(r *http.Request) error {
			_, err := s.admit(r, nil, spec.Access)
			return err
		}
	}
	route.Serve = func(w http.ResponseWriter, r *http.Request) (err error) {
		var body []byte
		if wipe {
			defer func() { clear(body) }()
		}
		if spec.Access.Vacant { // whose signature is of the body, too
			if body, err = fields.body(w, r, limit); err != nil {
				return err
			}
		}
		by, err := s.admit(r, body, spec.Access)
		if err != nil {
			return challenge(w, r, err, spec.Access)
		}
		if !spec.Access.Vacant {
			if body, err = fields.body(w, r, limit); err != nil {
				return err
			}
		}
		in := reflect.New(spec.In)
		if err := fields.read(r, body, limit, in.Elem()); err != nil {
			return err
		}
		// f is called by reflection: a closure for each operation would be code that every program has again.
		results := reflect.ValueOf(f).Call([]reflect.Value{reflect.ValueOf(context.WithValue(r.Context(), callerKey{}, by)), in.Elem()})
		if err, _ := results[1].Interface().(error); err != nil {
			return challenge(w, r, err, spec.Access)
		}
		out := reflect.New(results[0].Type()) // a pointer, whose methods it may have
		out.Elem().Set(results[0])
		return answer(w, spec.Status, wipe, out.Interface())
	}
	return route
}

// Handle returns the route of what a handler serves: an operation that needs all of the request, a
// page for people, or a stream. The Access of the description is only told; the handler checks it.
func Handle(s Spec, h httpapi.Handler) Route {
	return Route{Spec: s, Serve: func(w http.ResponseWriter, r *http.Request) error { return challenge(w, r, h(w, r), s.Access) }}
}

// challenge tells the client of a route which credential it lacks, unless it was answered.
func challenge(w http.ResponseWriter, r *http.Request, err error, a Access) error {
	if err != nil && !errors.As(err, new(httpapi.Rendered)) {
		httpapi.Challenge(w, r, err, string(a.Key.Scope))
	}
	return err
}

// Fail answers with an error of a route that only the operator may use.
func Fail(w http.ResponseWriter, r *http.Request, err error) {
	httpapi.Fail(w, challenge(w, r, err, Access{}))
}

// admit is the ladder of access.
func (s Server) admit(r *http.Request, body []byte, a Access) (c Caller, err error) {
	key := func(ctx context.Context) (*billing.Key, error) {
		if a.Key.Scope == "" {
			return nil, s.OperatorsOnly(r)
		}
		if s.Keys == nil {
			return nil, errOperators
		}
		return s.Keys.Admit(ctx, r, a.Key)
	}
	switch {
	case s.Operator:
		return Caller{Operator: true}, nil
	case a.Anybody:
		return Caller{admit: key}, nil
	}
	if a.Vacant && s.Vacants != nil {
		if c.Vacant, err = s.Vacants(r, body); err != nil || c.Vacant != nil {
			return c, err
		}
	}
	c.Key, err = key(r.Context())
	return c, err
}

// OperatorsOnly is the refusal of an operation that no key of an account may use. A key that the
// host does not accept gets that refusal first.
func (s Server) OperatorsOnly(r *http.Request) error {
	if s.Keys != nil {
		if _, err := s.Keys.Admit(r.Context(), r, billing.Demand{Test: true}); err != nil {
			return err
		}
	}
	return errOperators
}

var errOperators = problem.New(problem.Forbidden, "a key of an account manages the vacants of its tenant; this is the operator's")

func answer(w http.ResponseWriter, status int, wipe bool, out any) error {
	if r, ok := out.(Replier); ok {
		if other := r.Reply(w.Header()); other != 0 {
			status = other
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
		return httpapi.Answer(w, status, out)
	}
	if wipe {
		defer clear(raw.Bytes())
	}
	w.Header().Set("Cache-Control", "no-store")
	httpapi.Send(w, status, raw.Bytes())
	return nil
}

// Twin is an operation at two paths: one for the operator, and one for keys of accounts.
type Twin[In, Out any] struct{ Operator, Key Op[In, Out] }

// NewTwin returns the twin of an operation for keys, with the path of OperatorPath for the operator.
func NewTwin[In, Out any](key Op[In, Out]) Twin[In, Out] {
	operator := key
	operator.Path, operator.Access = OperatorPath(key.Path), Access{}
	return Twin[In, Out]{Operator: operator, Key: key}
}

// OperatorPath returns the operator's path for a path of keys.
func OperatorPath(path string) string { return "/v1/admin" + strings.TrimPrefix(path, "/v1") }

// For returns the operation for the operator, or the one for keys.
func (t Twin[In, Out]) For(operator bool) Op[In, Out] {
	if operator {
		return t.Operator
	}
	return t.Key
}

// OnTwin returns the route of a twin's operation that a server has.
func OnTwin[In, Out any](s Server, t Twin[In, Out], f func(context.Context, In) (Out, error)) Route {
	return On(s, t.For(s.Operator), f)
}

// Specs returns the descriptions of routes.
func Specs(routes []Route) []Spec {
	all := make([]Spec, len(routes))
	for i := range routes {
		all[i] = routes[i].Spec
	}
	return all
}

// Routes returns routes by path and method.
func Routes(routes ...Route) map[string]httpapi.Methods {
	all := map[string]httpapi.Methods{}
	for _, r := range routes {
		if all[r.Path] == nil {
			all[r.Path] = httpapi.Methods{}
		}
		if _, twice := all[r.Path][r.Method]; twice {
			panic("op: two operations at " + r.Method + " " + r.Path)
		}
		all[r.Path][r.Method] = r.Serve
	}
	return all
}

// If returns routes that some hosts lack. If there is false, the routes answer NotFound with the
// reason to callers that may use them.
func If(there bool, reason string, routes ...Route) []Route {
	if there {
		return routes
	}
	for i := range routes {
		admit, access := routes[i].admit, routes[i].Access
		routes[i].Serve = func(w http.ResponseWriter, r *http.Request) error {
			if admit != nil {
				if err := admit(r); err != nil {
					return challenge(w, r, err, access)
				}
			}
			return problem.New(problem.NotFound, "%s", reason)
		}
	}
	return routes
}

// Client sends requests.
type Client interface {
	// Call sends a request, and reads the JSON of its answer unless into is nil or a *Blob.
	Call(ctx context.Context, method, path string, header http.Header, body []byte, into any) error
}

// At returns the path of a request, with its query.
func (o Op[In, Out]) At(in In) (string, error) {
	path, _, _, err := o.Spec().write(&in)
	return path, err
}

// Call asks a host to do o.
func (o Op[In, Out]) Call(ctx context.Context, c Client, in In) (out Out, err error) {
	if err := (*anyOp)(&o).call(ctx, c, reflect.TypeFor[In](), reflect.TypeFor[Out](), &in, &out); err != nil {
		return *new(Out), err
	}
	return out, nil
}

// call is Call for all types. in and out point to a request and to an answer.
func (o *anyOp) call(ctx context.Context, c Client, inType, outType reflect.Type, in, out any) error {
	s, wipe := o.spec(inType, outType), o.Wipe
	path, header, body, err := s.write(in)
	if err != nil {
		return err
	}
	if wipe {
		defer clear(body)
	}
	if s.Out == reflect.TypeFor[None]() {
		out = nil
	}
	if err := c.Call(ctx, s.Method, path, header, body, out); err != nil {
		return err
	}
	if sound, ok := out.(Sound); ok {
		return sound.Sound()
	}
	return nil
}

func limits(bytes int) canon.Limits {
	return httpapi.Limits(cmp.Or(bytes, canon.DefaultLimits().Bytes))
}
