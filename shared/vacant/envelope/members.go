package envelope

import (
	"fmt"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (r *reader) readRequestMember(key string) (err error) {
	switch key {
	case "jsonrpc":
		if r.checkRPC {
			return r.constant(jsonrpc)
		}
	case "method":
		if r.checkRPC {
			return r.constant(method)
		}
	case "id":
		r.id, err = r.d.Raw()
		return err
	case "params":
		return r.object(params, r.container)
	}
	return r.d.Skip()
}

func (r *reader) response(key string) error {
	if key == "result" {
		return r.object(result, r.container)
	}
	return r.d.Skip()
}

func (r *reader) container(key string) error {
	if key == "message" {
		return r.object(message, r.message)
	}
	return r.d.Skip()
}

func (r *reader) message(key string) error {
	switch key {
	case "role":
		return r.role()
	case "parts":
		return r.parts()
	case "contextId":
		return r.optional(contextID, &r.e.Payload.ContextID)
	case "messageId":
		return r.optional(messageID, &r.e.Payload.MessageID)
	case "metadata":
		return r.object(metadata, func(key string) error {
			if key == blockKey {
				return r.object(block, r.block)
			}
			return r.d.Skip()
		})
	case "selfEval":
		return r.selfEval()
	}
	return r.d.Skip()
}

func (r *reader) block(key string) error {
	e := &r.e
	switch key {
	case "from_vacant_id":
		return r.text(from, func(s string) (err error) { e.From, err = identity.ParseID(s); return err })
	case "to_vacant_id":
		return r.text(to, func(s string) (err error) { e.To, err = identity.ParseID(s); return err })
	case "sequence_no":
		return r.sequenceNo()
	case "timestamp":
		return r.text(timestamp, func(s string) (err error) { e.Time, err = canon.ParseTime(s); return err })
	case "prev_envelope_hash":
		return r.text(prev, func(s string) (err error) { e.Prev, err = identity.ParseHash(s); return err })
	case "caller_signature":
		return r.text(signature, func(s string) (err error) { e.Signature, err = identity.ParseHex(s); return err })
	case "idempotency_key":
		return r.text(idempotencyKey, func(s string) error { e.IdempotencyKey = s; return checkID(key, s) })
	}
	return r.d.Skip()
}

func (r *reader) object(m member, f func(key string) error) error {
	r.seen |= setOf(m)
	if r.d.Kind() != canon.Object {
		r.record(m, r.d.MismatchError(canon.Object.String()))
		return r.d.Skip()
	}
	err := r.d.Object(f)
	if (m == block || m == selfEval) && problem.Is(err, problem.Malformed) {
		// An error within the object, such as NaN, also has the prefix of m, as in the reference.
		err = r.addPrefix(m, err)
	}
	return err
}

func (r *reader) text(m member, f func(s string) error) error {
	r.seen |= setOf(m)
	s, err := r.d.String()
	if err != nil {
		r.record(m, err)
		return r.d.Skip()
	}
	if err := f(s); err != nil {
		r.record(m, withField(names[m], err))
	}
	return nil
}

func withField(name string, err error) error {
	e := *problem.AsError(err)
	if e.Field == "" {
		e.Detail = name + ": " + e.Text()
	}
	e.Field = name
	return &e
}

func (r *reader) sequenceNo() error {
	r.seen |= setOf(seq)
	n, err := r.d.Int64()
	if err != nil {
		r.record(seq, err)
		return r.d.Skip()
	}
	if n < 1 || n > MaxSeq {
		r.record(seq, problem.Invalid("sequence_no", fmt.Sprintf("1 to %d", int64(MaxSeq)), strconv.FormatInt(n, 10)))
	}
	r.e.Seq = n
	return nil
}

func (r *reader) constant(m member) error {
	r.seen |= setOf(m)
	if r.d.Kind() != canon.String {
		got, err := pythonRepr(r.d)
		r.record(m, wrongConstant(m, got))
		return err
	}
	s, err := r.d.String()
	if err == nil && s != constants[m] {
		r.record(m, wrongConstant(m, canon.PythonReprString(s, maxShown)))
	}
	return err
}

// constants maps jsonrpc and method to their required values.
var constants = [...]string{jsonrpc: "2.0", method: "message/send"}

// wrongConstant returns the error about a wrong jsonrpc or method, in the words of the reference
// (PROTOCOL §6.2).
func wrongConstant(m member, got string) error {
	detail := fmt.Sprintf("jsonrpc field must be '2.0'; got %s", got)
	if m == method {
		detail = fmt.Sprintf("method must be 'message/send'; got %s", got)
	}
	return &problem.Error{Kind: problem.Malformed, Detail: detail, Field: names[m], Want: constants[m], Got: got}
}

func (r *reader) role() error {
	return r.text(role, func(s string) error {
		r.e.Payload.Role = Role(s)
		return r.e.Payload.Role.validate()
	})
}

func (r *reader) optional(m member, dst **string) error {
	switch r.d.Kind() {
	case canon.Null:
		return r.d.Null()
	case canon.String:
		s, err := r.d.String()
		if err != nil {
			return err
		}
		if err := checkID(names[m], s); err != nil {
			r.record(m, err)
		}
		*dst = &s
		return nil
	}
	r.record(m, r.d.MismatchError("a string or null"))
	return r.d.Skip()
}

func (r *reader) parts() error {
	if r.d.Kind() != canon.Array {
		r.record(parts, r.d.MismatchError(canon.Array.String()))
		return r.d.Skip()
	}
	return r.d.Array(func(i int) error {
		if i == MaxParts {
			r.record(parts, problem.Invalid("parts", fmt.Sprintf("at most %d parts", MaxParts), "more"))
		}
		if i >= MaxParts {
			return r.d.Skip()
		}
		r.e.Payload.Parts = append(r.e.Payload.Parts, "")
		if r.d.Kind() != canon.Object {
			r.refusePart(i, "", r.d.MismatchError(canon.Object.String()))
			return r.d.Skip()
		}
		return r.d.Object(func(key string) error { return r.part(i, key) })
	})
}

func (r *reader) part(i int, key string) error {
	if key != "type" && key != "text" {
		return r.d.Skip()
	}
	s, err := r.d.String()
	switch {
	case err != nil:
		r.refusePart(i, "."+key, err)
		return r.d.Skip()
	case key == "text":
		r.e.Payload.Parts[i] = s
	case s != "text":
		r.refusePart(i, ".type", problem.Invalid("", `"text"`, fmt.Sprintf("%.40q", s)))
	}
	return nil
}

func (r *reader) refusePart(i int, member string, err error) {
	e := *problem.AsError(err)
	e.Field = fmt.Sprintf("parts[%d]%s", i, member)
	r.record(parts, &e)
}

func (r *reader) selfEval() error {
	if r.d.Kind() == canon.Null {
		return r.d.Null()
	}
	// A missing dimension is 0.5, in the signed bytes too (PROTOCOL §5.4).
	s := &SelfEval{0.5, 0.5, 0.5, 0.5, 0.5, 0.5}
	r.e.Payload.SelfEval = s
	return r.object(selfEval, func(key string) error {
		switch key {
		case "adoption":
			return r.dimension(key, &s.Adoption)
		case "confidence":
			return r.dimension(key, &s.Confidence)
		case "factual":
			return r.dimension(key, &s.Factual)
		case "honesty":
			return r.dimension(key, &s.Honesty)
		case "logical":
			return r.dimension(key, &s.Logical)
		case "relevance":
			return r.dimension(key, &s.Relevance)
		}
		return r.d.Skip()
	})
}

func (r *reader) dimension(key string, dst *float64) error {
	if k := r.d.Kind(); k != canon.Int && k != canon.Float {
		r.record(selfEval, r.d.MismatchError("a number from 0 to 1"))
		return r.d.Skip()
	}
	f, err := r.d.Float64()
	if err != nil {
		r.record(selfEval, err)
		return r.d.Skip()
	}
	if f < 0 || f > 1 {
		r.record(selfEval, problem.Invalid(key, "a number from 0 to 1", strconv.FormatFloat(f, 'g', -1, 64)))
	}
	*dst = f
	return nil
}
