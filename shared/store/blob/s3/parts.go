package s3

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/vacancy-host/vacancy/shared/store/blob"
)

const (
	// Parts are fetched over several connections, because one connection transfers only about 80 MB/s.
	partSize = 8 << 20
	// maxPartsAhead limits the parts in memory to 32 MiB.
	maxPartsAhead = 4
	maxPartTries  = 3
)

// partsReader is the body of a large object. The first part comes from the response that reported
// the size. The other parts are fetched concurrently and read in order. All parts belong to one
// version.
type partsReader struct {
	first          io.ReadCloser
	firstRemaining int64
	queue          chan chan part
	buffer         []byte
	err            error
	cancel         context.CancelFunc
}

type part struct {
	data []byte
	err  error
}

// newPartsReader returns the body of an object. first must start at the first byte.
func (b *Bucket) newPartsReader(ctx context.Context, first io.ReadCloser, info blob.Info) *partsReader {
	ctx, cancel := context.WithCancel(ctx)
	p := &partsReader{first: first, firstRemaining: partSize, queue: make(chan chan part, maxPartsAhead-1), cancel: cancel}
	go func() {
		defer close(p.queue)
		for start := int64(partSize); start < info.Size; start += partSize {
			slot := make(chan part, 1)
			select {
			case p.queue <- slot:
			case <-ctx.Done():
				return
			}
			go func() { slot <- b.fetchPart(ctx, info, start, min(start+partSize, info.Size)) }()
		}
	}()
	return p
}

// fetchPart reads the bytes from start (inclusive) to end (exclusive). It retries if the response
// ends early.
func (b *Bucket) fetchPart(ctx context.Context, info blob.Info, start, end int64) part {
	in := &s3.GetObjectInput{
		Bucket: &b.name, Key: &info.Key, IfMatch: &info.Tag, Range: aws.String(fmt.Sprintf("bytes=%d-%d", start, end-1)),
	}
	data := make([]byte, end-start)
	var errs []error
	for len(errs) < maxPartTries && ctx.Err() == nil {
		out, err := b.client.GetObject(ctx, in)
		if err != nil {
			errs = append(errs, err)
			break // the client already retried, or the object was replaced
		}
		_, err = io.ReadFull(out.Body, data)
		if _ = out.Body.Close(); err == nil {
			return part{data: data}
		}
		errs = append(errs, err)
	}
	return part{err: errors.Join(append(errs, ctx.Err())...)}
}

func (p *partsReader) Read(dst []byte) (int, error) {
	if p.firstRemaining > 0 {
		n, err := p.first.Read(dst[:min(int64(len(dst)), p.firstRemaining)])
		p.firstRemaining -= int64(n)
		if err == io.EOF && p.firstRemaining > 0 {
			return n, io.ErrUnexpectedEOF
		}
		if p.firstRemaining == 0 {
			err = errors.Join(ignoreEOF(err), p.first.Close())
		}
		return n, err
	}
	for len(p.buffer) == 0 && p.err == nil {
		slot, ok := <-p.queue
		if !ok {
			p.err = io.EOF
			break
		}
		next := <-slot
		p.buffer, p.err = next.data, next.err
	}
	if p.err != nil {
		return 0, p.err
	}
	n := copy(dst, p.buffer)
	p.buffer = p.buffer[n:]
	return n, nil
}

func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

func (p *partsReader) Close() error {
	p.cancel()
	return p.first.Close()
}
