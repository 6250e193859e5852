package admin

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Sealed struct {
	Host   identity.ID   `json:"host_id"`
	Size   uint64        `json:"tree_size"`
	Root   identity.Hash `json:"root_hash_hex"`
	Epochs uint64        `json:"epochs,omitempty"`
	Added  uint64        `json:"added"`
}

// Status describes a running host. Calls is the number of calls that have ended since StartedAt,
// including Failed and Canceled, but not Refused.
type Status struct {
	URL          string    `json:"url"`
	DataDir      string    `json:"data"`
	Version      string    `json:"version"`
	PID          int       `json:"pid,omitempty"`
	StartedAt    time.Time `json:"started"`
	Vacants      int       `json:"vacants"`
	Calls        uint64    `json:"calls"`
	Failed       uint64    `json:"failed"` // failures of the agent or the host
	Canceled     uint64    `json:"canceled,omitempty"`
	Refused      uint64    `json:"refused"` // refusals because of an error of the caller
	DataBytes    int64     `json:"data_bytes"`
	SearchBytes  int64     `json:"search_bytes"`
	JournalBytes int64     `json:"journal_bytes"`
	// Stored is zero for hosts of earlier versions.
	Stored Stored `json:"stored,omitzero"`
	// FreeBytes is the free space on the data directory's disk, or negative if it is unknown. Below
	// MinFreeBytes, a public host refuses requests that write.
	FreeBytes    int64 `json:"free_bytes"`
	MinFreeBytes int64 `json:"min_free_bytes"`
	// RestoredAt is the time of the last restore from a backup. Since then, the host has refused
	// messages that were signed before RefusedUntil.
	RestoredAt   time.Time `json:"restored,omitzero"`
	RefusedUntil time.Time `json:"refused_until,omitzero"`
	// OldestTextExpiry is the time at which the key of the oldest stored message texts is
	// destroyed.
	OldestTextExpiry time.Time `json:"texts_end,omitzero"`
}

type Stored struct {
	Format    int `json:"format"`
	Documents int `json:"documents"`
	// FromDocuments is the version of the documents before the last upgrade, or 0 if the data were
	// never upgraded.
	FromDocuments int       `json:"from,omitempty"`
	UpgradedAt    time.Time `json:"at,omitzero"`
	UpgradedBy    string    `json:"program,omitempty"`
}

func (s *Status) IsLowOnSpace() bool { return s.FreeBytes >= 0 && s.FreeBytes < s.MinFreeBytes }

type Reindexed struct {
	Index         string `json:"index"`
	Registrations int    `json:"registrations"`
	Listed        int    `json:"listed"`
}
