// Package once runs one call: at most one effect per key, and the same receipt for
// everyone who asks. It is the only package that knows the order of things (DESIGN §4);
// Engine.Do and Engine.act are that order, read top to bottom.
//
// At every step a comment says what is durable if the process dies there, and who repairs
// it. The repair is Engine.Repair; readers and the sweeper share it, and it ends in the
// same settle tail as a call.
package once
