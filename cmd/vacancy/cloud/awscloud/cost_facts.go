package awscloud

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// CallLines implements cloud.Cloud.
func (c *Cloud) CallLines(ctx context.Context, stage string, since time.Time, most int) (r cost.Real, more bool, err error) {
	n := 0
	err = c.lines(ctx, "/vacancy/"+stage+"/message", "wcu", since, func(_ time.Time, line []byte) bool {
		if n == most {
			more = true
			return false
		}
		n++
		r.Add(line)
		return true
	})
	if problem.Is(err, problem.NotFound) {
		err = nil
	}
	return r, more, err
}
