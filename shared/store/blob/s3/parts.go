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
	// One connection to S3 transfers about 80 MB/s, and the network of a function several times as
	// much. An index of 100,000 cards has 250 MB.
	partSize = 8 << 20
	// partsAhead is the number of parts that are being fetched or are waiting to be read: 32 MiB.
	partsAhead = 4
	partTries  = 3
)

// parts is the body of a large object. The first part comes from the response that reported the
// size. The other parts are fetched concurrently and read in order. All parts belong to one
// version.
type parts struct {
	first     io.ReadCloser
	firstLeft int64 // unread bytes of the first part
	queue     chan chan part
	buffer    []byte
	err       error
	stop      context.CancelFunc
}

// part is a fetched part or the error of its fetch.
type part struct {
	data []byte
	err  error
}

// readParts returns the body of an object with info.Size bytes. first is the response body that
// starts at the first byte.
func (b *Bucket) readParts(ctx context.Context, first io.ReadCloser, info blob.Info) *parts {
	ctx, stop := context.WithCancel(ctx)
	p := &parts{first: first, firstLeft: partSize, queue: make(chan chan part, partsAhead-1), stop: stop}
	go func() {
		defer close(p.queue)
		for from := int64(partSize); from < info.Size; from += partSize {
			slot := make(chan part, 1)
			select {
			case p.queue <- slot:
			case <-ctx.Done():
				return
			}
			go func() { slot <- b.fetch(ctx, info, from, min(from+partSize, info.Size)) }()
		}
	}()
	return p
}

// fetch reads the bytes from (inclusive) to to (exclusive). It retries if the response ends early.
func (b *Bucket) fetch(ctx context.Context, info blob.Info, from, to int64) part {
	in := &s3.GetObjectInput{
		Bucket: &b.name, Key: &info.Key, IfMatch: &info.Tag, Range: aws.String(fmt.Sprintf("bytes=%d-%d", from, to-1)),
	}
	data := make([]byte, to-from)
	var errs []error
	for len(errs) < partTries && ctx.Err() == nil {
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

func (p *parts) Read(to []byte) (int, error) {
	if p.firstLeft > 0 {
		n, err := p.first.Read(to[:min(int64(len(to)), p.firstLeft)])
		p.firstLeft -= int64(n)
		if err == io.EOF && p.firstLeft > 0 {
			return n, io.ErrUnexpectedEOF
		}
		if p.firstLeft == 0 {
			// The rest of the first response is not used, because the other parts are fetched.
			err = errors.Join(ignoreEnd(err), p.first.Close())
		}
		return n, err
	}
	for len(p.buffer) == 0 && p.err == nil {
		slot, more := <-p.queue
		if !more {
			p.err = io.EOF
			break
		}
		next := <-slot
		p.buffer, p.err = next.data, next.err
	}
	if p.err != nil {
		return 0, p.err
	}
	n := copy(to, p.buffer)
	p.buffer = p.buffer[n:]
	return n, nil
}

func ignoreEnd(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

func (p *parts) Close() error {
	p.stop()
	return p.first.Close()
}
