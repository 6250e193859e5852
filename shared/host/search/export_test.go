package search

import "github.com/vacancy-host/vacancy/shared/vacant/identity"

// KeptVerdicts is the size of one generation.
const KeptVerdicts = keptVerdicts

// Verifications is how many verdicts are remembered.
func (s *Service) Verifications() int { return len(s.verified.new) + len(s.verified.old) }

// Verdicts is verdicts.
type Verdicts struct{ *verdicts }

// NewVerdicts is newVerdicts.
func NewVerdicts() Verdicts { return Verdicts{newVerdicts()} }

// Put is put.
func (v Verdicts) Put(key identity.Hash, good bool) { v.put(key, good) }

// Get is get.
func (v Verdicts) Get(key identity.Hash) (good, ok bool) { return v.get(key) }
