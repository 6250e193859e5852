package awscloud

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/kms"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/s3"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
)

func (c *Cloud) OpenTables(ctx context.Context, stageName string, units float64, now func() time.Time) (*cloud.Tables, error) {
	s, err := c.Stack(ctx, stage.FullName(stageName, "data"))
	if problem.Is(err, problem.NotFound) || err == nil && !s.IsDeployed() {
		return nil, problem.New(problem.NotFound, "stage %s is not deployed in this account and Region (%s)", stageName, c.Region())
	}
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"Rows", "Docs", "SealKey"} {
		if s.Outputs[name] == "" {
			return nil, problem.New(problem.Damaged, "the stack %s has no output %s", s.Name, name)
		}
	}
	client := dynamo.NewClient(c.cfg, func(o *dynamodb.Options) { o.DisableValidateResponseChecksum = o.BaseEndpoint != nil }, dynamo.WithReadRate(units, now, cloud.Sleep))
	result := &cloud.Tables{
		TableStore: problemStore{dynamo.New(client, dynamo.TableNames{Rows: s.Outputs["Rows"], Docs: s.Outputs["Docs"]})},
		Vault:      kms.New(kms.NewClient(c.cfg), s.Outputs["SealKey"]),
	}
	if bucket := s.Outputs["Blobs"]; bucket != "" {
		result.Blobs = func() (blob.Blobs, error) { return s3.New(s3.NewClient(c.cfg), bucket, rand.Reader), nil }
	}
	return result, nil
}

// problemStore is a store that returns AWS errors as problems.
type problemStore struct{ *dynamo.Store }

func (t problemStore) Walk(ctx context.Context, fn func(store.View) error) error {
	return explainUnavailable(t.Store.Walk(ctx, func(v store.View) error { return fn(problemView{v}) }))
}

func (t problemStore) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	d, err := t.Store.Doc(ctx, k)
	return d, explainUnavailable(err)
}

func (t problemStore) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	docs, next, err := t.Store.Docs(ctx, r, n, cursor)
	return docs, next, explainUnavailable(err)
}

func (t problemStore) Commit(ctx context.Context, writes ...store.Write) error {
	return explainUnavailable(t.Store.Commit(ctx, writes...))
}

type problemView struct{ view store.View }

func (v problemView) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	rows, err := v.view.Rows(ctx, s, from, n, d)
	return rows, explainUnavailable(err)
}

func (v problemView) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	d, err := v.view.Doc(ctx, k)
	return d, explainUnavailable(err)
}

func (v problemView) Streams(ctx context.Context, prefix store.Stream, n int, cursor string) ([]store.Stream, string, error) {
	names, next, err := v.view.Streams(ctx, prefix, n, cursor)
	return names, next, explainUnavailable(err)
}

// explainUnavailable replaces store.ErrUnavailable by the problem that explains the AWS error in
// its chain. It returns other errors unchanged.
func explainUnavailable(err error) error {
	if !errors.Is(err, store.ErrUnavailable) {
		return err
	}
	return ToProblem(err)
}
