package fsck

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// flushIfFull calls flush when either limit is reached.
const (
	maxPendingSignatures = 512
	maxPendingFindings   = 4096
)

// pendingFinding is a finding that flush has not recorded yet. If message is set, flush drops the
// finding if the signature is valid.
type pendingFinding struct {
	finding           Finding
	version           uint64 // version of the document, or zero
	isCertain         bool   // reported even if the first reading did not find it
	message           []byte // signed message, or nil if the finding does not depend on a signature
	signer            identity.ID
	signature         []byte
	hasValidSignature bool // set by flush
}

func (r *run) addFinding(f Finding) {
	r.pendingFindings = append(r.pendingFindings, pendingFinding{finding: f})
}

// addFindingAt is like addFinding, but the finding is reported only if both readings have it at the
// same version of the document.
func (r *run) addFindingAt(version uint64, f Finding) {
	r.pendingFindings = append(r.pendingFindings, pendingFinding{finding: f, version: version})
}

func (r *run) addCertainFinding(f Finding) {
	r.pendingFindings = append(r.pendingFindings, pendingFinding{finding: f, isCertain: true})
}

// queueSignature adds f, which flush drops if sig is the signer's signature of msg.
func (r *run) queueSignature(msg, sig []byte, signer identity.ID, f Finding) {
	r.pendingFindings = append(r.pendingFindings, pendingFinding{finding: f, message: msg, signer: signer, signature: sig})
	r.pendingSignatures++
}

func (r *run) flushIfFull() error {
	if r.pendingSignatures < maxPendingSignatures && len(r.pendingFindings) < maxPendingFindings {
		return nil
	}
	return r.flush()
}

// flush verifies the pending signatures and records the findings. Only the second reading reports
// findings.
func (r *run) flush() error {
	var wg sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), r.pendingSignatures)
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(r.pendingFindings); i += workers {
				if e := &r.pendingFindings[i]; e.message != nil {
					e.hasValidSignature = identity.Verify(e.signer, e.message, e.signature)
				}
			}
		})
	}
	wg.Wait()
	for i := range r.pendingFindings {
		e := &r.pendingFindings[i]
		if e.hasValidSignature {
			continue
		}
		hash := identity.Sum(fmt.Append(nil, e.version, e.finding))
		r.findingCounts[hash]++
		if r.firstCounts == nil {
			continue
		}
		if !e.isCertain && r.firstCounts[hash] < r.findingCounts[hash] {
			r.result.ChangingFindings++
			continue
		}
		r.result.Findings++
		if err := r.ReportFinding(e.finding); err != nil {
			return err
		}
	}
	clear(r.pendingFindings)
	r.pendingFindings, r.pendingSignatures = r.pendingFindings[:0], 0
	return nil
}

func (r *run) countRow() {
	const progressInterval = 2048
	r.result.Rows++
	if r.Progress != nil && r.result.Rows-r.reportedRows >= progressInterval {
		r.reportedRows = r.result.Rows
		r.Progress(r.result)
	}
}
