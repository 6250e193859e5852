package search

// Verifications is how many verdicts are cached.
func (s *Service) Verifications() int { return s.verified.Len() }
