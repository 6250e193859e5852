package hostcmd

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
)

func verifyHost(a *kit.App, ctx context.Context, where kit.HostFlags, readFlags kit.ReadFlags) error {
	return a.WithReports(ctx, where, readFlags, func(c *kit.AdminAPI) error {
		r := &hostReport{App: a, progress: a.ProgressLine()}
		defer r.progress.Clear()
		err := kit.StreamLines(ctx, c.Client, "/v1/admin/verify", r.printLine)
		if err == nil && r.hasFindings {
			err = &kit.ReportedError{}
		}
		return err
	})
}

// hostReport prints the findings of a check in progress. For --json, printLine writes one object
// in parts.
type hostReport struct {
	*kit.App
	progress    *kit.ProgressLine
	hasFindings bool
}

// printLine prints a line of the report. It returns true for the last line, which contains the
// counts.
func (r *hostReport) printLine(l *export.VerifyLine) (last bool, err error) {
	switch {
	case l.Error != nil:
		return false, l.Error.Problem()
	case l.Result != nil:
		r.progress.Clear()
		result := hostResult{!r.hasFindings, *l.Result}
		if !r.JSON {
			result.Print(r.Out)
			return true, nil
		}
		prefix := `{"findings":[],`
		if r.hasFindings {
			prefix = "\n],"
		}
		b, err := encodeCompact(result)
		if err == nil {
			_, err = io.WriteString(r.Out, prefix+b[1:]+"\n")
		}
		return true, err
	case l.Finding != nil:
		r.progress.Clear()
		prefix := ",\n"
		if !r.hasFindings {
			prefix = "{\"findings\":[\n"
		}
		r.hasFindings = true
		if !r.JSON {
			_, err := fmt.Fprintf(r.Out, "BROKEN %s\n", kit.EscapeLine(l.Finding.String()))
			return false, err
		}
		b, err := encodeCompact(l.Finding)
		if err == nil {
			_, err = io.WriteString(r.Out, prefix+b)
		}
		return false, err
	case l.Progress != nil:
		r.progress.Show("%d rows in %d streams, %d broken", l.Progress.Rows, l.Progress.Streams, l.Progress.Findings)
	}
	return false, nil
}

type hostResult struct {
	OK bool `json:"ok"`
	fsck.Result
}

func (r hostResult) Print(w io.Writer) {
	verdict := "all checks passed"
	if !r.OK {
		verdict = fmt.Sprintf("%d BROKEN", r.Findings)
	}
	fmt.Fprintf(w, "%s in %s, %s: %s\n", kit.Plural(r.Rows, "row"), kit.Plural(r.Streams, "stream"), kit.Plural(r.Vacants, "vacant"), kit.PaintVerdict(w, r.OK, verdict))
	fmt.Fprint(w, kit.FormatIf(r.Events > 0, "registry: %s, %s registered\n", kit.Plural(r.Events, "event"), kit.Plural(r.Registered, "vacant")),
		kit.FormatIf(!r.RestoredAt.IsZero(), "restored from a backup at %s: calls between the backup and that time are lost; only messages signed after %s are accepted\n", kit.FormatTime(r.RestoredAt), kit.FormatTime(r.RefusedUntil)),
		kit.FormatIf(r.ChangingFindings > 0, "changed during the check: %s, not fully compared; run the same command again\n", kit.Plural(r.ChangingFindings, "item")),
		kit.FormatIf(r.WithheldKeys > 0, "not checked: %s, because sealed keys are opened only for signing\n", kit.Plural(r.WithheldKeys, "sealed key")),
		kit.FormatIf(r.SealedRows > 0, "%s with a text that can no longer be read: links were checked, but not hashes and signatures\n", kit.Plural(r.SealedRows, "row")))
}

func encodeCompact(v any) (string, error) {
	var b bytes.Buffer
	err := kit.WriteJSON(&b, v)
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), err
}
