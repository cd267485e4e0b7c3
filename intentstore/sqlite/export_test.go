package sqlite

// Pending is how many verbs wait for a batch.
func (s *Store) Pending() int { return s.writer.Pending() }
