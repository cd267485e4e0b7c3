// Package mutants breaks one guard of the promise at a time and says whether the tests
// notice. A test suite that stays green while a guard is gone does not guard it.
//
// A mutant is an exact replacement of text in one file: Go, SQL or Lua. It is laid over the
// tree with the go command's -overlay, so the checkout is never written to. Its suite is the
// narrowest set of tests that must turn red. What counts as killed is strict: the tests
// compiled, and one of them failed. A mutant that does not compile, runs out of time, ends
// the process without a failed test, or whose text is not in its file exactly once, is an
// error of the list, and has a word of its own.
//
// What it cannot show: guards that are on no list, and breaks of other kinds than the one
// that was made of each guard.
package mutants
