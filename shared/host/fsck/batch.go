package fsck

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// batchJobs is the number of signatures that are verified together: enough to
// occupy all processors, few enough for memory. batchEvents bounds the reports
// that are held back if no signature comes.
const (
	batchJobs   = 512
	batchEvents = 4096
)

// report is a finding to report, or one that depends on a signature.
type report struct {
	finding Finding
	version uint64 // of the document that the finding depends on; may be zero
	certain bool   // damage, even if the first reading did not find the same
	signed  []byte // nil reports in any case
	by      identity.ID
	sig     []byte
	ok      bool
}

// found reports a finding, after those that wait for signatures.
func (r *run) found(f Finding) { r.reports = append(r.reports, report{finding: f}) }

// foundAt reports a finding that the first reading must have found at the same version of a
// document, because its text does not tell two findings apart.
func (r *run) foundAt(version uint64, f Finding) {
	r.reports = append(r.reports, report{finding: f, version: version})
}

// foundCertain reports a finding that also holds if the host worked between two readings.
func (r *run) foundCertain(f Finding) {
	r.reports = append(r.reports, report{finding: f, certain: true})
}

// verify reports f unless sig is by's signature of msg.
func (r *run) verify(msg, sig []byte, by identity.ID, f Finding) {
	r.reports = append(r.reports, report{finding: f, signed: msg, by: by, sig: sig})
	r.pendingSignatures++
}

// flushIfFull flushes a full batch.
func (r *run) flushIfFull() error {
	if r.pendingSignatures < batchJobs && len(r.reports) < batchEvents {
		return nil
	}
	return r.flush()
}

// flush verifies the waiting signatures and, in the second reading, reports in order.
func (r *run) flush() error {
	var work sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), r.pendingSignatures)
	for w := range workers {
		work.Go(func() {
			for i := w; i < len(r.reports); i += workers {
				if e := &r.reports[i]; e.signed != nil {
					e.ok = identity.Verify(e.by, e.signed, e.sig)
				}
			}
		})
	}
	work.Wait()
	for i := range r.reports {
		e := &r.reports[i]
		if e.ok {
			continue
		}
		hash := identity.Sum(fmt.Append(nil, e.version, e.finding))
		r.seen[hash]++
		if r.first == nil {
			continue
		}
		if !e.certain && r.first[hash] < r.seen[hash] {
			r.result.Changing++
			continue
		}
		r.result.Findings++
		if err := r.Found(e.finding); err != nil {
			return err
		}
	}
	clear(r.reports)
	r.reports, r.pendingSignatures = r.reports[:0], 0
	return nil
}

// counted counts a row.
func (r *run) counted() {
	const often = 2048
	r.result.Rows++
	if r.Progress != nil && r.result.Rows-r.toldRows >= often {
		r.toldRows = r.result.Rows
		r.Progress(r.result)
	}
}
