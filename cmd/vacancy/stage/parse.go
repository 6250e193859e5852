package stage

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Formats of a record. The oldest format also has a member "swapped", which is ignored.
const (
	recordFormat   = "vacancy-stage/4"
	previousFormat = "vacancy-stage/3"
	oldestFormat   = "vacancy-stage/2"
)

func (r Record) encode() ([]byte, error) {
	b, err := json.MarshalIndent(struct {
		Format string `json:"format"`
		Record
	}{recordFormat, r}, "", "  ")
	return append(b, '\n'), err
}

func parseRecord(b []byte) (Record, error) {
	var rec Record
	var gotFormat, operatorKey string
	// Check the format before reporting unknown members, because a later format may have new ones.
	var unknownErr error
	d := canon.NewDecoder(b, canon.DefaultLimits())
	stringMembers := map[string]*string{
		"format": &gotFormat, "stage": &rec.Stage, "region": &rec.Region, "account": &rec.Account,
		"url": &rec.URL, "admin_url": &rec.AdminURL, "export_url": &rec.ExportURL,
		"registry_url": &rec.RegistryURL, "search_url": &rec.SearchURL, "graduate_url": &rec.GraduateURL, "gateway_url": &rec.GatewayURL, "operator_key": &operatorKey,
	}
	err := d.Object(func(name string) (err error) {
		if target := stringMembers[name]; target != nil {
			*target, err = d.String()
			return err
		}
		switch {
		case name == "swapped" && gotFormat == oldestFormat:
			err = d.Skip()
		case name == "edge":
			rec.Edge, err = d.Bool()
		case name == "context":
			rec.Context = map[string]string{}
			err = d.Object(func(name string) (err error) {
				rec.Context[name], err = d.String()
				return err
			})
		default:
			unknownErr = errors.Join(unknownErr, problem.New(problem.Malformed, "%.40q is not a member of a record", name))
			err = d.Skip()
		}
		return err
	})
	if err == nil {
		err = d.End()
	}
	if err != nil {
		return Record{}, err
	}
	if gotFormat != recordFormat && gotFormat != previousFormat && gotFormat != oldestFormat {
		return Record{}, problem.New(problem.Conflict, "it has format %s, this vacancy reads %s: "+
			"use the vacancy that wrote it, or remove the file and deploy the stage again", quoteTruncated(gotFormat), recordFormat)
	}
	if unknownErr != nil {
		return Record{}, unknownErr
	}
	rec.OperatorKey = Key(operatorKey)
	return rec, rec.check()
}

func (r *Record) check() error {
	if err := CheckName(r.Stage); err != nil {
		return err
	}
	for field, s := range map[string]string{"url": r.URL, "admin_url": r.AdminURL, "export_url": r.ExportURL,
		"registry_url": r.RegistryURL, "search_url": r.SearchURL, "graduate_url": r.GraduateURL, "gateway_url": r.GatewayURL} {
		if s == "" {
			continue // a deployment was interrupted before the value was known
		}
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.HasSuffix(s, "/") {
			return problem.Invalid(field, "an absolute http or https URL without a slash at its end", quoteTruncated(s))
		}
	}
	return nil
}

func quoteTruncated(s string) string { return fmt.Sprintf("%.40q", s) }
