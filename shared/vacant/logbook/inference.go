package logbook

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const KindInference = "INFERENCE_EVENT"

// Inference is a vacant's statement about an answer of its model. It contains hashes of the prompt
// and the response, never their text.
type Inference struct {
	Caller                   identity.ID
	RequestHash              identity.Hash // envelope hash of the call
	PromptHash, ResponseHash identity.Hash
	Substrate, Model         string
	AgentVersion             int // zero for the default agent
	Time                     time.Time
}

func (i Inference) Payload() []byte {
	// Payload writes seconds as a float, like the Python reference implementation.
	seconds, err := canon.Parse(canon.AppendFloat(nil, float64(i.Time.UnixMicro())/1e6), canon.DefaultLimits())
	if err != nil {
		panic(err) // the seconds are a finite number
	}
	return encodeObject(
		stringMember("kind", KindInference), stringMember("caller", i.Caller.String()), stringMember("request_envelope_id_hex", i.RequestHash.String()),
		stringMember("prompt_hash_hex", i.PromptHash.String()), stringMember("response_hash_hex", i.ResponseHash.String()),
		stringMember("substrate", i.Substrate), stringMember("model_id", i.Model),
		canon.Member{Key: "proof", Value: canon.NewObject(canon.Member{Key: "agent_version", Value: canon.NewInt(int64(i.AgentVersion))})},
		canon.Member{Key: "ts", Value: seconds},
	)
}

// ParseInference does not read the time.
func ParseInference(payload []byte) (i Inference, err error) {
	v, err := parsePayload(payload, canon.DefaultLimits())
	if err != nil {
		return i, err
	}
	if i.Caller, err = idAt(v, "caller"); err != nil {
		return i, err
	}
	for key, dst := range map[string]*identity.Hash{"request_envelope_id_hex": &i.RequestHash, "prompt_hash_hex": &i.PromptHash, "response_hash_hex": &i.ResponseHash} {
		s, err := stringAt(v, key)
		if err != nil {
			return i, err
		}
		if *dst, err = identity.ParseHash(s); err != nil {
			return i, withField(key, err)
		}
	}
	if i.Substrate, err = stringAt(v, "substrate"); err != nil {
		return i, err
	}
	if i.Model, err = stringAt(v, "model_id"); err != nil {
		return i, err
	}
	proof, err := memberAt(v, "proof", canon.Object)
	if err != nil {
		return i, err
	}
	version, err := memberAt(proof, "agent_version", canon.Int)
	if err != nil {
		return i, err
	}
	n, ok := version.Int64()
	if !ok || n < 0 {
		return i, problem.Invalid("proof.agent_version", "the number of a version", version.Text())
	}
	i.AgentVersion = int(n)
	return i, nil
}
