package main

import (
	"strings"
	"testing"
	"time"
)

func TestTableShowsSecondsAndShareOfEachStage(t *testing.T) {
	var times table
	times.add("unit", 3*time.Second)
	times.add("aws", time.Second)
	var out strings.Builder
	times.print(&out)
	for _, want := range []string{"unit        3   75 %", "aws        1   25 %"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("table =\n%s\nwant a row %q", out.String(), want)
		}
	}
	out.Reset()
	(&table{}).print(&out)
	if out.Len() > 0 {
		t.Errorf("a run without stages prints %q", out.String())
	}
}
