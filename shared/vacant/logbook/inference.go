package logbook

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// KindInference is an answer of a model (PROTOCOL §11).
const KindInference = "INFERENCE_EVENT"

// Inference is a vacant's statement about an answer of its model: the caller who
// asked, and the hashes of both texts, never the texts.
type Inference struct {
	Caller           identity.ID
	Request          identity.Hash // of the envelope
	Prompt, Response identity.Hash // of the texts
	Substrate, Model string        // kind of substrate; name of the model
	Agent            int           // version of the vacant's agent; zero for an agent of defaults
	Time             time.Time
}

// Payload is the entry's payload.
func (i Inference) Payload() []byte {
	// Seconds since 1970 as a float, like the reference's.
	ts, err := canon.Parse(canon.AppendFloat(nil, float64(i.Time.UnixMicro())/1e6), canon.DefaultLimits())
	if err != nil {
		panic(err) // a time is a finite number
	}
	return object(
		text("kind", KindInference), text("caller", i.Caller.String()), text("request_envelope_id_hex", i.Request.String()),
		text("prompt_hash_hex", i.Prompt.String()), text("response_hash_hex", i.Response.String()),
		text("substrate", i.Substrate), text("model_id", i.Model),
		canon.Member{Key: "proof", Value: canon.NewObject(canon.Member{Key: "agent_version", Value: canon.NewInt(int64(i.Agent))})},
		canon.Member{Key: "ts", Value: ts},
	)
}

// ParseInference parses the payload of an INFERENCE_EVENT entry, but for its time.
func ParseInference(payload []byte) (i Inference, err error) {
	v, err := parsePayload(payload, canon.DefaultLimits())
	if err != nil {
		return i, err
	}
	if i.Caller, err = idAt(v, "caller"); err != nil {
		return i, err
	}
	for key, to := range map[string]*identity.Hash{"request_envelope_id_hex": &i.Request, "prompt_hash_hex": &i.Prompt, "response_hash_hex": &i.Response} {
		s, err := stringAt(v, key)
		if err != nil {
			return i, err
		}
		if *to, err = identity.ParseHash(s); err != nil {
			return i, inField(key, err)
		}
	}
	if i.Substrate, err = stringAt(v, "substrate"); err != nil {
		return i, err
	}
	if i.Model, err = stringAt(v, "model_id"); err != nil {
		return i, err
	}
	proof, err := at(v, "proof", canon.Object)
	if err != nil {
		return i, err
	}
	version, err := at(proof, "agent_version", canon.Int)
	if err != nil {
		return i, err
	}
	n, ok := version.Int64()
	if !ok || n < 0 {
		return i, problem.Invalid("proof.agent_version", "the number of a version", version.Text())
	}
	i.Agent = int(n)
	return i, nil
}
