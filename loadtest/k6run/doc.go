// Package k6run runs the k6 scripts of loadtest/k6 without k6, so that a broken script
// fails a test. The JavaScript engine is sobek, the one inside k6; k6's modules, executors
// and thresholds are small stand-ins for what those scripts use, and whatever else a script
// asks for is an error.
//
// A run is reduced: every scenario gets a bounded number of iterations and VUs, rates and
// durations only decide the order of scenarios. So a run shows that a script parses, that
// its options are well formed, that its logic runs against a gateway, and that its
// thresholds can hold and can be crossed. It shows nothing of k6 itself, and its answer
// times say nothing about the gateway under load.
package k6run
