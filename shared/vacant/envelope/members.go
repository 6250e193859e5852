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
			return r.readConstant(memberJSONRPC)
		}
	case "method":
		if r.checkRPC {
			return r.readConstant(memberMethod)
		}
	case "id":
		r.rpcID, err = r.dec.Raw()
		return err
	case "params":
		return r.readObject(memberParams, r.readContainerMember)
	}
	return r.dec.Skip()
}

func (r *reader) readResponseMember(key string) error {
	if key == "result" {
		return r.readObject(memberResult, r.readContainerMember)
	}
	return r.dec.Skip()
}

func (r *reader) readContainerMember(key string) error {
	if key == "message" {
		return r.readObject(memberMessage, r.readMessageMember)
	}
	return r.dec.Skip()
}

func (r *reader) readMessageMember(key string) error {
	switch key {
	case "role":
		return r.readRole()
	case "parts":
		return r.readParts()
	case "contextId":
		return r.readOptional(memberContextID, &r.env.Payload.ContextID)
	case "messageId":
		return r.readOptional(memberMessageID, &r.env.Payload.MessageID)
	case "metadata":
		return r.readObject(memberMetadata, func(key string) error {
			if key == blockKey {
				return r.readObject(memberBlock, r.readBlockMember)
			}
			return r.dec.Skip()
		})
	case "selfEval":
		return r.readSelfEval()
	}
	return r.dec.Skip()
}

func (r *reader) readBlockMember(key string) error {
	e := &r.env
	switch key {
	case "from_vacant_id":
		return r.readText(memberFrom, func(s string) (err error) { e.From, err = identity.ParseID(s); return err })
	case "to_vacant_id":
		return r.readText(memberTo, func(s string) (err error) { e.To, err = identity.ParseID(s); return err })
	case "sequence_no":
		return r.readSequenceNo()
	case "timestamp":
		return r.readText(memberTimestamp, func(s string) (err error) { e.Time, err = canon.ParseTime(s); return err })
	case "prev_envelope_hash":
		return r.readText(memberPrev, func(s string) (err error) { e.Prev, err = identity.ParseHash(s); return err })
	case "caller_signature":
		return r.readText(memberSignature, func(s string) (err error) { e.Signature, err = identity.ParseHex(s); return err })
	case "idempotency_key":
		return r.readText(memberIdempotencyKey, func(s string) error { e.IdempotencyKey = s; return checkID(key, s) })
	}
	return r.dec.Skip()
}

func (r *reader) readObject(m member, readMember func(key string) error) error {
	r.foundMembers |= setOf(m)
	if r.dec.Kind() != canon.Object {
		r.recordError(m, r.dec.MismatchError(canon.Object.String()))
		return r.dec.Skip()
	}
	err := r.dec.Object(readMember)
	if (m == memberBlock || m == memberSelfEval) && problem.Is(err, problem.Malformed) {
		err = r.addPrefix(m, err)
	}
	return err
}

func (r *reader) readText(m member, setValue func(s string) error) error {
	r.foundMembers |= setOf(m)
	s, err := r.dec.String()
	if err != nil {
		r.recordError(m, err)
		return r.dec.Skip()
	}
	if err := setValue(s); err != nil {
		r.recordError(m, withField(memberKeys[m], err))
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

func (r *reader) readSequenceNo() error {
	r.foundMembers |= setOf(memberSeq)
	n, err := r.dec.Int64()
	if err != nil {
		r.recordError(memberSeq, err)
		return r.dec.Skip()
	}
	if n < 1 || n > MaxSeq {
		r.recordError(memberSeq, problem.Invalid("sequence_no", fmt.Sprintf("1 to %d", int64(MaxSeq)), strconv.FormatInt(n, 10)))
	}
	r.env.Seq = n
	return nil
}

func (r *reader) readConstant(m member) error {
	r.foundMembers |= setOf(m)
	if r.dec.Kind() != canon.String {
		got, err := readPythonRepr(r.dec)
		r.recordError(m, wrongConstantError(m, got))
		return err
	}
	s, err := r.dec.String()
	if err == nil && s != requiredValues[m] {
		r.recordError(m, wrongConstantError(m, canon.PythonReprString(s, maxQuotedBytes)))
	}
	return err
}

var requiredValues = [...]string{memberJSONRPC: "2.0", memberMethod: "message/send"}

// wrongConstantError returns an error in the words of PROTOCOL §6.2.
func wrongConstantError(m member, got string) error {
	detail := fmt.Sprintf("jsonrpc field must be '2.0'; got %s", got)
	if m == memberMethod {
		detail = fmt.Sprintf("method must be 'message/send'; got %s", got)
	}
	return &problem.Error{Kind: problem.Malformed, Detail: detail, Field: memberKeys[m], Want: requiredValues[m], Got: got}
}

func (r *reader) readRole() error {
	return r.readText(memberRole, func(s string) error {
		r.env.Payload.Role = Role(s)
		return r.env.Payload.Role.check()
	})
}

func (r *reader) readOptional(m member, dst **string) error {
	switch r.dec.Kind() {
	case canon.Null:
		return r.dec.Null()
	case canon.String:
		s, err := r.dec.String()
		if err != nil {
			return err
		}
		if err := checkID(memberKeys[m], s); err != nil {
			r.recordError(m, err)
		}
		*dst = &s
		return nil
	}
	r.recordError(m, r.dec.MismatchError("a string or null"))
	return r.dec.Skip()
}

func (r *reader) readParts() error {
	if r.dec.Kind() != canon.Array {
		r.recordError(memberParts, r.dec.MismatchError(canon.Array.String()))
		return r.dec.Skip()
	}
	return r.dec.Array(func(i int) error {
		if i == MaxParts {
			r.recordError(memberParts, problem.Invalid("parts", fmt.Sprintf("at most %d parts", MaxParts), "more"))
		}
		if i >= MaxParts {
			return r.dec.Skip()
		}
		r.env.Payload.Parts = append(r.env.Payload.Parts, "")
		if r.dec.Kind() != canon.Object {
			r.recordPartError(i, "", r.dec.MismatchError(canon.Object.String()))
			return r.dec.Skip()
		}
		return r.dec.Object(func(key string) error { return r.readPartMember(i, key) })
	})
}

func (r *reader) readPartMember(i int, key string) error {
	if key != "type" && key != "text" {
		return r.dec.Skip()
	}
	s, err := r.dec.String()
	switch {
	case err != nil:
		r.recordPartError(i, "."+key, err)
		return r.dec.Skip()
	case key == "text":
		r.env.Payload.Parts[i] = s
	case s != "text":
		r.recordPartError(i, ".type", problem.Invalid("", `"text"`, fmt.Sprintf("%.40q", s)))
	}
	return nil
}

func (r *reader) recordPartError(i int, member string, err error) {
	e := *problem.AsError(err)
	e.Field = fmt.Sprintf("parts[%d]%s", i, member)
	r.recordError(memberParts, &e)
}

func (r *reader) readSelfEval() error {
	if r.dec.Kind() == canon.Null {
		return r.dec.Null()
	}
	// A missing dimension is 0.5, in the signed bytes too (PROTOCOL §5.4).
	s := &SelfEval{0.5, 0.5, 0.5, 0.5, 0.5, 0.5}
	r.env.Payload.SelfEval = s
	return r.readObject(memberSelfEval, func(key string) error {
		switch key {
		case "adoption":
			return r.readDimension(key, &s.Adoption)
		case "confidence":
			return r.readDimension(key, &s.Confidence)
		case "factual":
			return r.readDimension(key, &s.Factual)
		case "honesty":
			return r.readDimension(key, &s.Honesty)
		case "logical":
			return r.readDimension(key, &s.Logical)
		case "relevance":
			return r.readDimension(key, &s.Relevance)
		}
		return r.dec.Skip()
	})
}

func (r *reader) readDimension(key string, dst *float64) error {
	if k := r.dec.Kind(); k != canon.Int && k != canon.Float {
		r.recordError(memberSelfEval, r.dec.MismatchError("a number from 0 to 1"))
		return r.dec.Skip()
	}
	f, err := r.dec.Float64()
	if err != nil {
		r.recordError(memberSelfEval, err)
		return r.dec.Skip()
	}
	if f < 0 || f > 1 {
		r.recordError(memberSelfEval, problem.Invalid(key, "a number from 0 to 1", strconv.FormatFloat(f, 'g', -1, 64)))
	}
	*dst = f
	return nil
}
