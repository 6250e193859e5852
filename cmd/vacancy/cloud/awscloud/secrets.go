package awscloud

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Labels of a secret's versions. The edge (CloudFront) sends the value with the label AWSCURRENT. A
// new value has the other label until the edge sends it, so AWSCURRENT stays correct if a rotation is
// interrupted.
const (
	current = "AWSCURRENT"
	coming  = "VACANCY_COMING"
)

func (c *Cloud) Version(ctx context.Context, secret string) (string, error) {
	labels, err := c.versions(ctx, secret)
	if err != nil {
		return "", err
	}
	if labels[current] == "" {
		return "", problem.New(problem.Damaged, "the secret %s has no current version", secret)
	}
	return labels[current], nil
}

// versions returns the ids of a secret's versions, keyed by label.
func (c *Cloud) versions(ctx context.Context, secret string) (map[string]string, error) {
	out, err := c.secrets.DescribeSecret(ctx, &secretsmanager.DescribeSecretInput{SecretId: &secret})
	if err != nil {
		return nil, Problem(err)
	}
	labels := map[string]string{}
	for version, names := range out.VersionIdsToStages {
		for _, name := range names {
			labels[name] = version
		}
	}
	return labels, nil
}

func (c *Cloud) PutVersion(ctx context.Context, secret, version string) error {
	random, err := c.secrets.GetRandomPassword(ctx, &secretsmanager.GetRandomPasswordInput{
		PasswordLength: aws.Int64(43), ExcludePunctuation: aws.Bool(true),
	})
	if err != nil {
		return Problem(err)
	}
	_, err = c.secrets.PutSecretValue(ctx, &secretsmanager.PutSecretValueInput{
		SecretId: &secret, ClientRequestToken: &version, SecretString: random.RandomPassword, VersionStages: []string{coming},
	})
	return Problem(err)
}

func (c *Cloud) Promote(ctx context.Context, secret, version string) error {
	labels, err := c.versions(ctx, secret)
	if err != nil {
		return err
	}
	if labels[current] == version {
		return nil
	}
	in := &secretsmanager.UpdateSecretVersionStageInput{SecretId: &secret, VersionStage: aws.String(current), MoveToVersionId: &version}
	if before := labels[current]; before != "" {
		in.RemoveFromVersionId = &before
	}
	_, err = c.secrets.UpdateSecretVersionStage(ctx, in)
	return Problem(err)
}
