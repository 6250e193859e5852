package main

import (
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"
)

// table is the time of each stage of a run. Stages may add rows concurrently.
type table struct {
	mu   sync.Mutex
	rows []row
	sum  time.Duration
}

type row struct {
	stage string
	took  time.Duration
}

func (t *table) add(stage string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, row{stage, took})
	t.sum += took
}

// print writes each stage's time and its share of their sum. Stages overlap, so
// the sum is more than the run took.
func (t *table) print(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.rows) == 0 {
		return
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "STAGE\tSECONDS\tSHARE\t")
	for _, r := range t.rows {
		fmt.Fprintf(out, "%s\t%.0f\t%.0f %%\t\n", r.stage, r.took.Seconds(), 100*r.took.Seconds()/t.sum.Seconds())
	}
	out.Flush()
}
