// Package rules holds the repository's rules that a compiler does not know: which package
// may import which, what must be documented, how long a file may be, and what has no place
// in a committed file. Its tests apply them to the whole repository.
//
// Each rule is a function from what was read to findings, and has a table test with an
// example that breaks it: a rule that cannot fail is no rule.
package rules
