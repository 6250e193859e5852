package oldhost

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/bbolt"
)

// A dump has one line per bucket, which begins with bucketLine and has its name and its sequence,
// and then one line per entry of the bucket: key and value. Both are Go string literals, or base64
// after binaryMark if a literal would be much longer.
const (
	bucketLine = "bucket "
	binaryMark = "base64:"
)

// maxLine limits a line of a dump in bytes. A document has at most 350 KB.
const maxLine = 4 << 20

// lockTime limits how long opening a data file waits for its lock.
const lockTime = 10 * time.Second

// Dump writes the content of a bbolt file as text.
func Dump(w io.Writer, path string) error {
	file, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockTime})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer file.Close()
	return file.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			if _, err := fmt.Fprintf(w, "%s%s %d\n", bucketLine, literal(name), b.Sequence()); err != nil {
				return err
			}
			return b.ForEach(func(key, value []byte) error {
				if value == nil {
					return fmt.Errorf("%s: bucket %q has the bucket %q; a dump has no nested buckets", path, name, key)
				}
				_, err := fmt.Fprintln(w, literal(key), literal(value))
				return err
			})
		})
	})
}

// Load writes the bbolt file that Dump described to a new file at path.
func Load(r io.Reader, path string) error {
	file, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTime})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	err = file.Update(func(tx *bbolt.Tx) error {
		var bucket *bbolt.Bucket
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLine)
		for n := 1; lines.Scan(); n++ {
			line, isBucket := strings.CutPrefix(lines.Text(), bucketLine)
			first, second, found := strings.Cut(line, " ")
			name, err := parseLiteral(first)
			switch {
			case err == nil && !found:
				err = fmt.Errorf("expected two fields, got %q", line)
			case err != nil:
			case isBucket:
				bucket, err = createBucket(tx, name, second)
			case bucket == nil:
				err = fmt.Errorf("expected the line of a bucket first, got %q", line)
			default:
				var value []byte
				if value, err = parseLiteral(second); err == nil {
					err = bucket.Put(name, value)
				}
			}
			if err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
		}
		return lines.Err()
	})
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

func createBucket(tx *bbolt.Tx, name []byte, sequence string) (*bbolt.Bucket, error) {
	n, err := strconv.ParseUint(sequence, 10, 64)
	if err != nil {
		return nil, err
	}
	b, err := tx.CreateBucket(name)
	if err != nil {
		return nil, err
	}
	return b, b.SetSequence(n)
}

// literal returns the shorter of two forms. It has no space, because a dump separates its fields by
// spaces.
func literal(b []byte) string {
	quoted := strings.ReplaceAll(strconv.QuoteToASCII(string(b)), " ", `\x20`)
	if base64Size := base64.StdEncoding.EncodedLen(len(b)); len(quoted) > 2*base64Size {
		return binaryMark + base64.StdEncoding.EncodeToString(b)
	}
	return quoted
}

func parseLiteral(s string) ([]byte, error) {
	if binary, ok := strings.CutPrefix(s, binaryMark); ok {
		return base64.StdEncoding.DecodeString(binary)
	}
	text, err := strconv.Unquote(s)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", s, err)
	}
	return []byte(text), nil
}
