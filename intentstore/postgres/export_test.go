package postgres

// Pending is how many rows wait for a batch.
func (s *Store) Pending() int { return s.writer.Pending() }
