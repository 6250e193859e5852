package search

// Verifications is the number of cached verdicts.
func (s *Service) Verifications() int { return s.cardVerdicts.Len() }
