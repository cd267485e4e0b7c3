// Package fleet plays a fleet of agents as they really are: their libraries retry, their
// hosts run steps again, their models reword, they die and come back through another
// replica, they are dispatched twice, they hang up, and some do not listen.
//
// A fleet is an open model: intents begin at a rate, whatever becomes of earlier ones. What
// each intent is and how its agents are inclined to behave follows from a seed alone (Plan);
// what they then do also depends on the answers, as it does in life. The same plan runs
// against gateways or, for comparison, straight against the target (Config.Direct).
package fleet
