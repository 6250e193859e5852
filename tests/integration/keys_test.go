package integration

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// record is a vacant's document in the table.
func record(t *testing.T, docs store.Store, id identity.ID) (store.Doc, map[string]json.RawMessage) {
	t.Helper()
	d, err := docs.Doc(t.Context(), vacants.RecordKey(id))
	if err != nil || d.Version == 0 {
		t.Fatalf("the record of %s: version %d, %v", id.Short(), d.Version, err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(d.Data, &members); err != nil {
		t.Fatal(err)
	}
	return d, members
}

// A writer to the table cannot make one vacant sign as another.
func TestABoxMovedToAnotherVacantIsRefused(t *testing.T) {
	local(t)
	s := shared(t)
	_, docs := s.tables(t)
	p := s.pair(t, s.vacant(t))
	p.say("with its own key")
	_, others := record(t, docs, s.vacant(t))
	d, members := record(t, docs, p.To)
	move := func(seed json.RawMessage, version uint64) {
		t.Helper()
		members["seed"] = seed
		data, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		if err := docs.Commit(t.Context(), store.Put{Key: d.Key, IfVersion: version, WriteID: store.WriteID{byte(version), 1}, Data: data, Number: d.Number, Index: d.Index}); err != nil {
			t.Fatal(err)
		}
	}
	own := members["seed"]
	move(others["seed"], d.Version)
	s.kill(t, "message")
	e := p.Call("with another's", time.Now())
	if a := p.send(e); a.Status < 500 || a.Reply != nil {
		t.Errorf("a call of the vacant with another's seed: %v, want a fault and no reply", a)
	}
	move(own, d.Version+1)
	s.kill(t, "message")
	if a := p.send(e); a.Status != http.StatusOK {
		t.Errorf("the same call with the seed back: %v, want 200: it was not accepted before", a)
	}
	s.whole(t)
}

// The host's own key is in KMS: the handler proves the host's identity by a
// signature that only KMS can make.
func TestTheHostProvesItsIdentityByKMS(t *testing.T) {
	s := shared(t)
	h, err := admin.GetHost.Call(t.Context(), s.admin(t), admin.HostRequest{Challenge: []string{"c2hvdyBtZQ"}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := kms.NewFromConfig(operator(s.aws)).GetPublicKey(t.Context(), &kms.GetPublicKeyInput{KeyId: awssdk.String(s.outputs(t, "data")["HostKey"])})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(out.PublicKey, h.ID[:]) || h.KeyStorage != "kms" || !h.HasValidProof("c2hvdyBtZQ") || h.HasValidProof("c2hvdyBtZR") {
		t.Errorf("GET /v1/admin/host = %+v, want the id of the KMS key, and its proof of the challenge and of no other", h)
	}
	if h.Stage != s.Stage || h.URL != s.URL {
		t.Errorf("GET /v1/admin/host = stage %q at %q, want %q at %q", h.Stage, h.URL, s.Stage, s.URL)
	}
}
