// Package s3 stores blobs in one S3 bucket. S3 itself evaluates every condition (If-Match,
// If-None-Match).
//
// The role needs s3:GetObject, s3:PutObject and s3:DeleteObject on the keys, and s3:ListBucket. If
// s3:ListBucket is missing, S3 answers 403 for an absent key.
package s3

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/vacancy-host/vacancy/shared/store/blob"
)

const (
	// putIDEntry is the metadata entry for the random name of a Put.
	putIDEntry = "vacancy-put"
	// responseTimeout does not limit the time of an upload or download.
	responseTimeout = 10 * time.Second
	// The SDK would wait up to 20 s between tries, longer than callers can wait.
	maxTries          = 3
	maxBackoff        = 500 * time.Millisecond
	maxContendedTries = 5
)

type Bucket struct {
	client *s3.Client
	name   string
	rand   io.Reader
}

// New returns a Bucket. rand must be safe for concurrent use.
func New(client *s3.Client, bucket string, rand io.Reader) *Bucket {
	return &Bucket{client: client, name: bucket, rand: rand}
}

// NewClient limits the wait for a response, but not the transfer.
func NewClient(cfg aws.Config, opts ...func(*s3.Options)) *s3.Client {
	settings := func(o *s3.Options) {
		o.UsePathStyle = cfg.BaseEndpoint != nil // servers other than AWS have no host name per bucket
		o.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.ResponseHeaderTimeout = responseTimeout
		})
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts, r.MaxBackoff = maxTries, maxBackoff })
	}
	return s3.NewFromConfig(cfg, append([]func(*s3.Options){settings}, opts...)...)
}

func (b *Bucket) Get(ctx context.Context, key string) (blob.Object, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Object{}, err
	}
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key})
	if err != nil {
		return blob.Object{}, wrapError("reading", key, err)
	}
	info := blob.Info{Key: key, Size: aws.ToInt64(out.ContentLength), Tag: aws.ToString(out.ETag), Modified: aws.ToTime(out.LastModified)}
	var content io.ReadCloser = out.Body
	if info.Size > 2*partSize {
		content = b.newPartsReader(ctx, out.Body, info)
	}
	return blob.Object{Info: info, Body: &body{reader: content, remaining: info.Size}}, nil
}

func (b *Bucket) Head(ctx context.Context, key string) (blob.Info, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Info{}, err
	}
	out, err := b.headObject(ctx, key)
	if err != nil {
		return blob.Info{}, wrapError("reading", key, err)
	}
	return blob.Info{Key: key, Size: aws.ToInt64(out.ContentLength), Tag: aws.ToString(out.ETag), Modified: aws.ToTime(out.LastModified)}, nil
}

func (b *Bucket) headObject(ctx context.Context, key string) (*s3.HeadObjectOutput, error) {
	return b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.name, Key: &key})
}

func (b *Bucket) Put(ctx context.Context, key string, content io.ReadSeeker, size int64, cond blob.Condition) (string, error) {
	if err := blob.CheckPut(key, content, size, cond); err != nil {
		return "", err
	}
	var random [16]byte
	if _, err := io.ReadFull(b.rand, random[:]); err != nil {
		return "", fmt.Errorf("naming the Put of %s: %w", key, err)
	}
	putID := hex.EncodeToString(random[:])
	in := &s3.PutObjectInput{
		Bucket: &b.name, Key: &key, Body: content, ContentLength: &size, Metadata: map[string]string{putIDEntry: putID},
	}
	switch {
	case cond.Absent:
		in.IfNoneMatch = aws.String("*")
	case cond.Tag != "":
		in.IfMatch = &cond.Tag
	}
	out, err := b.putObject(ctx, in)
	if err == nil {
		return aws.ToString(out.ETag), nil
	}
	if cond == (blob.Condition{}) || !isConditionFailure(err) {
		return "", wrapError("writing", key, err)
	}
	return b.resolveRefusal(ctx, key, putID, err)
}

func (b *Bucket) putObject(ctx context.Context, in *s3.PutObjectInput) (*s3.PutObjectOutput, error) {
	start, err := in.Body.(io.Seeker).Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		out, err := b.client.PutObject(ctx, in)
		if err == nil || attempt == maxContendedTries || errorCode(err) != "ConditionalRequestConflict" {
			return out, err
		}
		select {
		case <-time.After(time.Duration(attempt) * 50 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if _, err := in.Body.(io.Seeker).Seek(start, io.SeekStart); err != nil {
			return nil, err
		}
	}
}

// resolveRefusal returns the tag if the refused Put had already succeeded. If the response to a Put
// is lost, the client sends it again, and S3 refuses the second request because the first one has
// changed the object.
func (b *Bucket) resolveRefusal(ctx context.Context, key, putID string, refusal error) (string, error) {
	existing, err := b.headObject(ctx, key)
	switch {
	case err == nil && existing.Metadata[putIDEntry] == putID:
		return aws.ToString(existing.ETag), nil
	case err != nil && !isAbsent(err):
		// The outcome is unknown.
		return "", wrapError("writing", key, errors.Join(refusal, err))
	}
	return "", fmt.Errorf("writing %s: %w: %w", key, blob.ErrConflict, refusal)
}

func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	if _, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &key}); err != nil {
		return wrapError("removing", key, err)
	}
	return nil
}

func (b *Bucket) List(ctx context.Context, prefix string, n int, cursor string) ([]blob.Info, string, error) {
	if err := blob.CheckList(prefix, n); err != nil {
		return nil, "", err
	}
	in := &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &prefix, MaxKeys: aws.Int32(int32(n))}
	if cursor != "" {
		in.StartAfter = &cursor
	}
	out, err := b.client.ListObjectsV2(ctx, in)
	if err != nil {
		return nil, "", wrapError("listing", prefix, err)
	}
	page := make([]blob.Info, 0, len(out.Contents))
	for _, o := range out.Contents {
		page = append(page, blob.Info{Key: aws.ToString(o.Key), Size: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified)})
	}
	if !aws.ToBool(out.IsTruncated) || len(page) == 0 {
		return page, "", nil
	}
	return page, page[len(page)-1].Key, nil
}

type body struct {
	reader    io.ReadCloser
	remaining int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.reader.Read(p)
	b.remaining -= int64(n)
	switch {
	case err == io.EOF && b.remaining > 0:
		err = fmt.Errorf("%w: %w", blob.ErrUnavailable, io.ErrUnexpectedEOF)
	case err != nil && err != io.EOF:
		err = fmt.Errorf("%w: %w", blob.ErrUnavailable, err)
	}
	return n, err
}

func (b *body) Close() error { return b.reader.Close() }

func errorCode(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// isConditionFailure includes NoSuchKey, with which S3 answers If-Match on an absent key.
func isConditionFailure(err error) bool {
	return errorCode(err) == "PreconditionFailed" || isAbsent(err)
}

func isAbsent(err error) bool {
	return errorCode(err) == "NoSuchKey" || errorCode(err) == "NotFound" // HEAD returns NotFound
}

func wrapError(operation, key string, err error) error {
	if isAbsent(err) {
		return fmt.Errorf("%s %s: %w", operation, key, blob.ErrAbsent)
	}
	return fmt.Errorf("%s %s: %w: %w", operation, key, blob.ErrUnavailable, err)
}
