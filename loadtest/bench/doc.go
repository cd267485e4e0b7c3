// Package bench compares the gateway with a bare reverse proxy on the same downstream, in
// one run: requests per second, latency, and CPU time per request. It is a black box: it
// knows the gateway's HTTP and the process ids of what it measures.
//
// One measurement is: make the keys that are to be replayed; warm up; wait until all is
// quiet; read the CPU meters; send the requests; wait until all is quiet again, so that
// work that the gateway does after its answers is charged to them; read the meters. Rounds
// go over all scenarios in turn, each round in another order, and what is reported is the
// median over the rounds, for ratios the median of each round's own ratio: drift of the
// machine cancels.
//
// After every measurement the downstream's ledger must show exactly one effect for each
// fresh call made so far and none for the replays. Anything else, and any answer other
// than the expected one, fails the run: a fast gateway that is wrong has no numbers.
package bench
