package awscmd

import (
	"context"
	"fmt"
	"io"

	"github.com/vacancy-host/vacancy/cmd/vacancy/assembly"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// rotation is a planned change of the secret that the edge (CloudFront) sends to the functions. A
// deploy first makes the functions accept the new and the previous value, and then makes the edge
// send the new value. If the deploy is interrupted, the functions still accept the value that the
// edge sends.
type rotation struct {
	secretARN  string
	newVersion string
	oldVersion string
}

func (d *deployment) planRotation(ctx context.Context) (rotation, error) {
	values, err := d.contextValues()
	if err != nil {
		return rotation{}, err
	}
	if v, _ := setting.ReadContext(values); !v.HasEdge { // the build of the stacks reports wrong values
		return rotation{}, nil
	}
	edge, err := d.deployedTemplate(ctx, stage.FullName(d.rec.Stage, "edge"))
	if err != nil || edge == nil {
		return rotation{}, err
	}
	functions, err := d.cloud.Stack(ctx, stage.FullName(d.rec.Stage, "functions"))
	if err != nil {
		return rotation{}, err
	}
	r := rotation{secretARN: functions.Outputs["EdgeSecret"]}
	if r.secretARN == "" {
		return rotation{}, problem.New(problem.Damaged, "stack %s has no output EdgeSecret, although the stage has an edge", functions.Name)
	}
	version, _ := assembly.SecretVersion(edge)
	if version == "" {
		// No rotation has changed the secret since the edge was created.
		version, err = d.cloud.CurrentSecretVersion(ctx, r.secretARN)
	} else {
		// The last deploy may have been interrupted before it promoted this version.
		err = d.cloud.PromoteSecretVersion(ctx, r.secretARN, version)
	}
	if err != nil {
		return rotation{}, err
	}
	r.oldVersion = version
	r.newVersion, err = newUUID(d.Rand)
	return r, err
}

func (r rotation) contextValues() map[string]string {
	if r.secretARN == "" {
		return nil
	}
	return map[string]string{"edgeSecretVersion": r.newVersion, "edgeSecretBefore": r.oldVersion}
}

func newUUID(random io.Reader) (string, error) {
	// AWS requires UUIDs as version ids.
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", problem.Wrap(problem.Unavailable, err, "no randomness")
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
}
